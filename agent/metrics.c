/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/metrics.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/prometheus.h"

static const double scan_limits[GT_SCAN_BUCKETS - 1] = {0.005, 0.01, 0.05, 0.1, 0.5, 1, 10};
static const double latency_limits[GT_LATENCY_BUCKETS - 1] = {0.00001, 0.00003, 0.0001, 0.0003,
                                                              0.001,   0.003,   0.01,   0.1};

void gt_scan_counts_add(struct gt_scan_counts *counts, double seconds)
{
    unsigned i = 0;
    while (i < GT_COUNT(scan_limits) && seconds > scan_limits[i])
        i++;
    counts->bucket[i]++;
    counts->sum_s += seconds;
}

/* Unix time; nothing if it has not happened. */
static void write_time(struct gt_buf *to, const char *name, const char *help, double time_s)
{
    if (time_s <= 0)
        return;
    gt_prom_head(to, name, help);
    gt_buf_printf(to, "%s %.3f\n", name, time_s);
}

static void metrics_write_gpus(const struct gt_inventory *inventory, struct gt_buf *to)
{
    unsigned counts[GT_GPU_UNHEALTHY + 1] = {0};
    const struct gt_node *node = inventory ? inventory->node : NULL;
    for (unsigned i = 0; node && i < node->gpu_count; i++)
        counts[node->gpus[i].health]++;
    gt_prom_by(to, "gputopo_gpus", "GPUs of the node by health; lost: seen before, now gone.", "health",
               (const struct gt_prom_sample[]){{"unknown", counts[GT_GPU_HEALTH_UNKNOWN]},
                                               {"healthy", counts[GT_GPU_HEALTHY]},
                                               {"unhealthy", counts[GT_GPU_UNHEALTHY]},
                                               {"lost", inventory ? gt_inventory_lost(inventory) : 0},
                                               {NULL, 0}});
}

static void write_health(const struct gt_node *node, const struct gt_health_counts *counts, struct gt_buf *to)
{
    struct gt_prom_sample by_cause[GT_CAUSES + 1] = {0}, seen[GT_SIGNALS + 1] = {0};
    for (enum gt_signal signal = 0; signal < GT_CAUSES; signal++)
        by_cause[signal].of = gt_signal_name(signal);
    for (enum gt_signal signal = 0; signal < GT_SIGNALS; signal++)
        seen[signal] = (struct gt_prom_sample){gt_signal_name(signal), counts->seen[signal]};
    for (unsigned i = 0; node && i < node->gpu_count; i++)
        by_cause[node->gpus[i].cause].value += !gt_gpu_usable(&node->gpus[i]);
    gt_prom_by(to, "gputopo_unhealthy_gpus", "Unhealthy GPUs by what made them so.", "reason", by_cause);
    gt_prom_by(to, "gputopo_health_signals_total",
               "Signals against GPUs that were seen, also those that are only reported.", "signal", seen);
    gt_prom_number(to, "gputopo_gpus_held_back_total",
                   "Times that a GPU became unhealthy again and again, and is held back for it.",
                   counts->held_back);
}

static void metrics_write_links(const struct gt_node *node, struct gt_buf *to)
{
    unsigned counts[GT_LINK_UNKNOWN + 1][GT_LINK_STATE_DOWN + 1] = {0};
    for (unsigned i = 0; node && i < node->link_count; i++)
        counts[node->links[i].kind][node->links[i].state]++;
    gt_prom_head(to, "gputopo_links", "Pairs of GPUs by the kind of their best link and its state.");
    for (unsigned kind = GT_LINK_MX; kind <= GT_LINK_UNKNOWN; kind++)
        for (unsigned state = 0; state <= GT_LINK_STATE_DOWN; state++)
            if (counts[kind][state] || (kind == GT_LINK_MX && state != GT_LINK_STATE_UNKNOWN))
                gt_buf_printf(to, "gputopo_links{kind=\"%s\",state=\"%s\"} %u\n",
                              gt_link_kind_name((enum gt_link_kind)kind),
                              gt_link_state_name((enum gt_link_state)state), counts[kind][state]);
}

static void write_stale(const struct gt_node *node, struct gt_buf *to)
{
    unsigned stale = 0;
    for (unsigned i = 0; node && i < node->link_count; i++)
        stale += node->links[i].stale;
    int64_t reported = node ? node->links_reported_s : 0, age = reported ? (int64_t)time(NULL) - reported : 0;
    gt_prom_number(to, "gputopo_links_stale",
                   "Direct links in their last reported state, since the vendor library does not answer.",
                   stale);
    gt_prom_number(to, "gputopo_links_stale_seconds",
                   "Seconds since what is stale was last reported; 0: nothing is.",
                   age > 0 ? (double)age : 0);
}

static void metrics_write_node(const struct gt_inventory *inventory, const struct gt_health_counts *health,
                               struct gt_buf *to)
{
    const struct gt_node *node = inventory ? inventory->node : NULL;
    metrics_write_gpus(inventory, to);
    write_health(node, health, to);
    metrics_write_links(node, to);
    write_stale(node, to);
    gt_prom_number(to, "gputopo_missing", "Things about the node that could not be read.",
                   node ? node->missing_count : 0);
    if (!node)
        return;
    gt_prom_head(to, "gputopo_node_info", "The node as it was found; always 1.");
    gt_buf_puts(to, "gputopo_node_info{node=");
    gt_prom_label(to, node->name);
    gt_buf_puts(to, ",product=");
    gt_prom_label(to, node->gpu_count ? node->gpus[0].product : "");
    gt_buf_puts(to, ",driver=");
    gt_prom_label(to, node->driver_version);
    gt_buf_puts(to, "} 1\n");
}

static void write_scans(const struct gt_metrics *metrics, struct gt_buf *to)
{
    const struct gt_scan_counts *scans = &metrics->scans;
    gt_prom_by(to, "gputopo_scans_total", "Scans of the node by result.", "result",
               (const struct gt_prom_sample[]){{"done", scans->done}, {"failed", scans->failed}, {NULL, 0}});
    gt_prom_histogram(to, "gputopo_scan_duration_seconds",
                      "Time of one scan, the vendor library's part included.",
                      &(struct gt_prom_buckets){scan_limits, scans->bucket, GT_SCAN_BUCKETS, scans->sum_s});
    write_time(to, "gputopo_last_scan_timestamp_seconds", "When the last scan was done.", scans->last_s);
    gt_prom_number(to, "gputopo_health_checks_total", "Checks of the GPUs' health between scans.",
                   scans->health_checks);
    if (metrics->has_nodes_plugin)
        gt_prom_number(to, "gputopo_probe_resource_registered",
                       "1 while the kubelet has registered the probe's resource and listens.",
                       metrics->nodes_registered);
    if (!metrics->has_probe)
        return;
    gt_prom_number(to, "gputopo_vendor_events_total", "Events of the vendor library that called for a scan.",
                   metrics->vendor_events);
    gt_prom_number(to, "gputopo_probe_restarts_total", "Restarts of gputopo-probe or its worker.",
                   metrics->probe.restarts);
    gt_prom_number(to, "gputopo_probe_failures_total", "Questions that gputopo-probe did not answer.",
                   metrics->probe.failures);
    gt_prom_number(to, "gputopo_probe_overdue_total",
                   "Questions for health that gputopo-probe had not answered after four seconds.",
                   metrics->probe.late);
}

static void write_plugin(const struct gt_plugin_stats *stats, const struct gt_inventory *inventory,
                         struct gt_buf *to)
{
    const struct gt_registration_stats *registration = &stats->registration;
    gt_prom_number(to, "gputopo_plugin_devices",
                   "Devices in the list for the kubelet, unhealthy ones included.",
                   inventory ? inventory->device_count : 0);
    gt_prom_number(to, "gputopo_plugin_registered",
                   "1 while the kubelet has registered the plugin and listens to its list of devices.",
                   registration->registered && registration->streaming);
    gt_prom_number(to, "gputopo_registrations_total", "Registrations that the kubelet accepted.",
                   registration->registrations);
    gt_prom_number(to, "gputopo_registration_failures_total", "Registrations that failed.",
                   registration->registration_failures);
    gt_prom_number(to, "gputopo_allocations_total", "Containers that were given their GPUs.",
                   stats->allocations);
    gt_prom_number(to, "gputopo_allocation_errors_total", "Containers whose Allocate was refused.",
                   stats->allocation_errors);
    gt_prom_histogram(to, "gputopo_allocate_duration_seconds", "Time in the Allocate handler, without gRPC.",
                      &(struct gt_prom_buckets){latency_limits, stats->allocate.bucket, GT_LATENCY_BUCKETS,
                                                (double)stats->allocate.sum_us / 1e6});
    gt_prom_histogram(to, "gputopo_preferred_allocation_duration_seconds",
                      "Time in the GetPreferredAllocation handler, without gRPC.",
                      &(struct gt_prom_buckets){latency_limits, stats->prefer.bucket, GT_LATENCY_BUCKETS,
                                                (double)stats->prefer.sum_us / 1e6});
}

static void write_cdi(const struct gt_cdi_stats *stats, struct gt_buf *to)
{
    gt_prom_number(to, "gputopo_cdi_spec_current",
                   "1 while the CDI spec says what the node has; 0: it could not be written.",
                   stats->current);
    gt_prom_number(to, "gputopo_cdi_writes_total", "Times that the CDI spec was written.", stats->writes);
    gt_prom_number(to, "gputopo_cdi_failures_total",
                   "Times that the CDI spec was checked and could not be written.", stats->failures);
}

static void write_scores(const struct gt_score_counts *scores, struct gt_buf *to)
{
    gt_prom_number(to, "gputopo_allocation_score_total", "Scores, in GB/s, of the GPUs that containers got.",
                   scores->given);
    gt_prom_number(to, "gputopo_allocation_best_score_total",
                   "Best scores that as many of the GPUs free just then could have had.", scores->best);
}

static void write_owners(const struct gt_usage *usage, const struct gt_inventory *inventory,
                         struct gt_buf *to)
{
    const struct gt_node *node = inventory ? inventory->node : NULL;
    gt_prom_head(to, "gputopo_gpu_used", "Who holds a GPU; always 1.");
    for (unsigned i = 0; node && i < usage->gpu_count && i < node->gpu_count; i++) {
        const struct gt_usage_owner *owner = &usage->owners[i];
        if (!(usage->used >> i & 1))
            continue;
        gt_buf_printf(to, "gputopo_gpu_used{gpu=\"%u\",uuid=", i);
        gt_prom_label(to, node->gpus[i].uuid);
        gt_buf_puts(to, ",namespace=");
        gt_prom_label(to, owner->namespace);
        gt_buf_puts(to, ",pod=");
        gt_prom_label(to, owner->pod);
        gt_buf_puts(to, ",container=");
        gt_prom_label(to, owner->container);
        gt_buf_puts(to, "} 1\n");
    }
}

static void write_claims(const struct gt_dra_stats *dra, struct gt_buf *to)
{
    gt_prom_number(to, "gputopo_claims_waiting",
                   "Of those that the kubelet asks for now, those that are read, or wait for a GPU.",
                   dra->waiting);
    gt_prom_by(to, "gputopo_claims_total",
               "ResourceClaims by what became of a request; again: it was prepared already.", "result",
               (const struct gt_prom_sample[]){{"prepared", dra->prepared},
                                               {"again", dra->again},
                                               {"refused", dra->refused},
                                               {"unprepared", dra->unprepared},
                                               {NULL, 0}});
}

static void write_usage(const struct gt_metrics *metrics, struct gt_buf *to)
{
    const struct gt_usage *usage = metrics->usage;
    const struct gt_podresources_stats *lists = &metrics->lists;
    gt_prom_number(to, "gputopo_usage_known",
                   "1 while the kubelet says who uses the GPUs; 0: it has not yet, or not for a while.",
                   usage->known && !usage->stale);
    if (usage->known) {
        gt_prom_number(to, "gputopo_gpus_in_use", "GPUs that a container holds.", gt_bit_count(usage->used));
        gt_prom_number(to, "gputopo_gpus_free", "GPUs that a new container may get.",
                       gt_bit_count(usage->free));
        gt_prom_number(to, "gputopo_gpus_owned_twice", "GPUs that more than one container holds.",
                       gt_bit_count(usage->twice));
        gt_prom_number(to, "gputopo_unknown_devices_in_use",
                       "Devices that containers hold and that are no GPU of this node.",
                       usage->unknown_devices);
        write_owners(usage, metrics->inventory, to);
    }
    gt_prom_by(to, "gputopo_podresources_lists_total",
               "Questions to the kubelet who uses the GPUs, by result; limited: it was asked too often.",
               "result",
               (const struct gt_prom_sample[]){
                   {"done", lists->done}, {"failed", lists->failed}, {"limited", lists->limited}, {NULL, 0}});
}

static void write_plans(const struct gt_metrics *metrics, struct gt_buf *to)
{
    const struct gt_plan_counts *plans = metrics->plans;
    struct gt_prom_sample results[GT_PLAN_RESULTS + 1] = {0};
    for (enum gt_plan_result i = 0; i < GT_PLAN_RESULTS; i++)
        results[i] = (struct gt_prom_sample){gt_plan_result_name(i), metrics->plugin.plans[i]};
    gt_prom_by(to, "gputopo_plan_preferences_total",
               "GetPreferredAllocations for which a plan was searched, by result.", "result", results);
    if (!plans)
        return;
    gt_prom_number(to, "gputopo_plans_current", "1 while the API server sends every change of a plan.",
                   metrics->plans_current);
    gt_prom_number(to, "gputopo_planned_pods", "Pods of the node that have a plan.", plans->pods);
    gt_prom_by(to, "gputopo_planned_containers_total",
               "Containers with a plan that hold GPUs: those that were planned, or others.", "result",
               (const struct gt_prom_sample[]){
                   {"as_planned", plans->as_planned}, {"otherwise", plans->otherwise}, {NULL, 0}});
    gt_prom_number(to, "gputopo_plans_refused_total", "Annotations that are no plan, or one too many.",
                   plans->refused);
}

static void write_api(const struct gt_metrics *metrics, struct gt_buf *to)
{
    const struct gt_kube_recorder_counters *events = metrics->api.events;
    gt_prom_number(to, "gputopo_api_server_known",
                   "1: there are an address, credentials and a library for the API server.",
                   metrics->api.used);
    if (!events)
        return;
    gt_kube_recorder_metrics(events, to);
}

static void write_publish(const struct gt_publish_stats *stats, const struct gt_kube_counters *client,
                          struct gt_buf *to)
{
    struct gt_prom_sample writes[GT_PUBLISH_LANES + 1] = {0}, failures[GT_PUBLISH_LANES + 1] = {0};
    for (enum gt_publish_lane i = 0; i < GT_PUBLISH_LANES; i++) {
        const char *name = gt_publish_lane_name(i);
        writes[i] = (struct gt_prom_sample){name, stats->writes[i]};
        failures[i] = (struct gt_prom_sample){name, stats->failures[i]};
    }
    gt_prom_by(to, "gputopo_publish_writes_total", "Requests to the API server that it accepted.", "what",
               writes);
    gt_prom_by(to, "gputopo_publish_failures_total", "Those that it refused or did not answer.", "what",
               failures);
    gt_prom_number(to, "gputopo_publish_current",
                   "1 while the API server has everything that is to be published.", stats->current);
    gt_prom_number(to, "gputopo_publish_away", "1 while the API server does not answer.", stats->away);
    gt_prom_number(to, "gputopo_publish_unauthorized_total", "Answers that the token is not valid.",
                   client->unauthorized);
    gt_prom_number(to, "gputopo_api_oversize_total",
                   "Objects that were passed over, since they are too large to be read.", client->oversize);
}

void gt_metrics_write(const struct gt_metrics *metrics, struct gt_buf *to)
{
    gt_prom_build(to);
    metrics_write_node(metrics->inventory, &metrics->health, to);
    write_scans(metrics, to);
    if (metrics->has_plugin)
        write_plugin(&metrics->plugin, metrics->inventory, to);
    if (metrics->has_plugin)
        write_scores(&metrics->scores, to);
    if (metrics->has_cdi)
        write_cdi(&metrics->cdi, to);
    if (metrics->dra)
        write_claims(metrics->dra, to);
    if (metrics->usage)
        write_usage(metrics, to);
    if (metrics->honours_plans)
        write_plans(metrics, to);
    if (metrics->api.wanted)
        write_api(metrics, to);
    if (metrics->api.publish)
        write_publish(metrics->api.publish, &metrics->api.client, to);
    gt_prom_process(to);
}
