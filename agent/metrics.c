/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "agent/process.h"
#include "base/text.h"
#include "base/version.h"

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

static void head(struct gt_buf *to, const char *name, const char *type, const char *help)
{
    gt_buf_printf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value in quotes: backslash, quote and line feed are escaped, what is not UTF-8 is replaced. */
static void label(struct gt_buf *to, const char *text)
{
    gt_buf_puts(to, "\"");
    bool valid = gt_text_is_utf8(text);
    for (const char *p = text; *p; p++) {
        if (*p == '\\' || *p == '"')
            gt_buf_printf(to, "\\%c", *p);
        else if (*p == '\n')
            gt_buf_puts(to, "\\n");
        else if (!valid && (unsigned char)*p >= 0x80)
            gt_buf_puts(to, "\xef\xbf\xbd");
        else
            gt_buf_add(to, p, 1);
    }
    gt_buf_puts(to, "\"");
}

static void number(struct gt_buf *to, const char *name, const char *type, const char *help, uint64_t value)
{
    head(to, name, type, help);
    gt_buf_printf(to, "%s %" PRIu64 "\n", name, value);
}

static void seconds(struct gt_buf *to, const char *name, const char *type, const char *help, double value)
{
    head(to, name, type, help);
    gt_buf_printf(to, "%s %.9g\n", name, value);
}

static void histogram(struct gt_buf *to, const char *name, const char *help, const double *limits,
                      const uint64_t *buckets, unsigned count, double sum)
{
    uint64_t total = 0;
    head(to, name, "histogram", help);
    for (unsigned i = 0; i < count; i++) {
        total += buckets[i];
        if (i + 1 < count)
            gt_buf_printf(to, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, limits[i], total);
        else
            gt_buf_printf(to, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, total);
    }
    /* The count is made from the buckets, so that the three agree even in the midst of a request. */
    gt_buf_printf(to, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name, sum, name, total);
}

static void write_gpus(const struct gt_inventory *inventory, struct gt_buf *to)
{
    unsigned healthy = 0, unhealthy = 0, lost = 0;
    const struct gt_node *node = inventory ? inventory->node : NULL;
    for (unsigned i = 0; node && i < node->gpu_count; i++)
        node->gpus[i].healthy ? healthy++ : unhealthy++;
    for (unsigned i = 0; inventory && i < inventory->device_count; i++)
        if (inventory->devices[i].gpu < 0)
            lost++;
    head(to, "gputopo_gpus", "gauge", "GPUs of the node by health; lost: seen before, now gone.");
    gt_buf_printf(to, "gputopo_gpus{health=\"healthy\"} %u\n", healthy);
    gt_buf_printf(to, "gputopo_gpus{health=\"unhealthy\"} %u\n", unhealthy);
    gt_buf_printf(to, "gputopo_gpus{health=\"lost\"} %u\n", lost);
}

static void write_links(const struct gt_node *node, struct gt_buf *to)
{
    unsigned counts[GT_LINK_UNKNOWN + 1][GT_LINK_STATE_DOWN + 1] = {0};
    for (unsigned i = 0; node && i < node->link_count; i++)
        counts[node->links[i].kind][node->links[i].state]++;
    head(to, "gputopo_links", "gauge", "Pairs of GPUs by the kind of their best link and its state.");
    for (unsigned kind = GT_LINK_MX; kind <= GT_LINK_UNKNOWN; kind++)
        for (unsigned state = 0; state <= GT_LINK_STATE_DOWN; state++)
            if (counts[kind][state] || (kind == GT_LINK_MX && state != GT_LINK_STATE_UNKNOWN))
                gt_buf_printf(to, "gputopo_links{kind=\"%s\",state=\"%s\"} %u\n",
                              gt_link_kind_name((enum gt_link_kind)kind),
                              gt_link_state_name((enum gt_link_state)state), counts[kind][state]);
}

static void write_node(const struct gt_inventory *inventory, struct gt_buf *to)
{
    const struct gt_node *node = inventory ? inventory->node : NULL;
    write_gpus(inventory, to);
    write_links(node, to);
    number(to, "gputopo_missing", "gauge", "Things about the node that could not be read.",
           node ? node->missing_count : 0);
    if (!node)
        return;
    head(to, "gputopo_node_info", "gauge", "The node as it was found; always 1.");
    gt_buf_puts(to, "gputopo_node_info{node=");
    label(to, node->name);
    gt_buf_puts(to, ",product=");
    label(to, node->gpu_count ? node->gpus[0].product : "");
    gt_buf_puts(to, ",driver=");
    label(to, node->driver_version);
    gt_buf_puts(to, "} 1\n");
}

static void write_scans(const struct gt_metrics *metrics, struct gt_buf *to)
{
    const struct gt_scan_counts *scans = &metrics->scans;
    head(to, "gputopo_scans_total", "counter", "Scans of the node by result.");
    gt_buf_printf(to,
                  "gputopo_scans_total{result=\"done\"} %" PRIu64 "\n"
                  "gputopo_scans_total{result=\"failed\"} %" PRIu64 "\n",
                  scans->done, scans->failed);
    histogram(to, "gputopo_scan_duration_seconds", "Time of one scan, the vendor library's part included.",
              scan_limits, scans->bucket, GT_SCAN_BUCKETS, scans->sum_s);
    if (scans->last_s > 0) {
        head(to, "gputopo_last_scan_timestamp_seconds", "gauge", "When the last scan was done.");
        gt_buf_printf(to, "gputopo_last_scan_timestamp_seconds %.3f\n", scans->last_s);
    }
    number(to, "gputopo_health_checks_total", "counter", "Short looks at the vendor library between scans.",
           scans->health_checks);
    number(to, "gputopo_hotplug_events_total", "counter", "Hotplug events that called for a scan.",
           metrics->hotplug_events);
    if (!metrics->has_probe)
        return;
    number(to, "gputopo_vendor_events_total", "counter",
           "Events of the vendor library that called for a scan.", metrics->vendor_events);
    number(to, "gputopo_probe_restarts_total", "counter", "Restarts of gputopo-probe or its worker.",
           metrics->probe.restarts);
    number(to, "gputopo_probe_failures_total", "counter", "Questions that gputopo-probe did not answer.",
           metrics->probe.failures);
}

static void write_plugin(const struct gt_plugin_stats *stats, struct gt_buf *to)
{
    number(to, "gputopo_plugin_registered", "gauge",
           "1 while the kubelet has registered the plugin and listens to its list of devices.",
           stats->registered && stats->streaming);
    number(to, "gputopo_registrations_total", "counter", "Registrations that the kubelet accepted.",
           stats->registrations);
    number(to, "gputopo_registration_failures_total", "counter", "Registrations that failed.",
           stats->registration_failures);
    number(to, "gputopo_streams_total", "counter", "ListAndWatch streams that the kubelet opened.",
           stats->streams);
    number(to, "gputopo_allocations_total", "counter", "Containers that were given their GPUs.",
           stats->allocations);
    number(to, "gputopo_allocation_errors_total", "counter", "Containers whose Allocate was refused.",
           stats->allocation_errors);
    number(to, "gputopo_preferred_allocations_total", "counter", "Answers to GetPreferredAllocation.",
           stats->preferred);
    number(to, "gputopo_unknown_methods_total", "counter", "Calls of methods that the plugin does not have.",
           stats->unknown_methods);
    number(to, "gputopo_refused_connections_total", "counter", "Connections to the plugin that were refused.",
           stats->refused_connections);
    histogram(to, "gputopo_allocate_duration_seconds", "Time in the Allocate handler, without gRPC.",
              latency_limits, stats->allocate.bucket, GT_LATENCY_BUCKETS,
              (double)stats->allocate.sum_us / 1e6);
    histogram(to, "gputopo_preferred_allocation_duration_seconds",
              "Time in the GetPreferredAllocation handler, without gRPC.", latency_limits,
              stats->prefer.bucket, GT_LATENCY_BUCKETS, (double)stats->prefer.sum_us / 1e6);
}

static void write_owners(const struct gt_usage *usage, const struct gt_inventory *inventory,
                         struct gt_buf *to)
{
    const struct gt_node *node = inventory ? inventory->node : NULL;
    head(to, "gputopo_gpu_used", "gauge", "Who holds a GPU; always 1.");
    for (unsigned i = 0; node && i < usage->gpu_count && i < node->gpu_count; i++) {
        const struct gt_usage_owner *owner = &usage->owners[i];
        if (!(usage->used >> i & 1))
            continue;
        gt_buf_printf(to, "gputopo_gpu_used{gpu=\"%u\",uuid=", i);
        label(to, node->gpus[i].uuid);
        gt_buf_puts(to, ",namespace=");
        label(to, owner->namespace);
        gt_buf_puts(to, ",pod=");
        label(to, owner->pod);
        gt_buf_puts(to, ",container=");
        label(to, owner->container);
        gt_buf_puts(to, "} 1\n");
    }
}

static void write_usage(const struct gt_metrics *metrics, struct gt_buf *to)
{
    const struct gt_usage *usage = metrics->usage;
    const struct gt_podresources_stats *lists = &metrics->lists;
    number(to, "gputopo_usage_known", "gauge",
           "1 while the kubelet says who uses the GPUs; 0: it has not yet, or not for a while.",
           usage->known && !usage->stale);
    if (usage->known) {
        number(to, "gputopo_gpus_in_use", "gauge", "GPUs that a container holds.",
               (uint64_t)__builtin_popcountll(usage->used));
        number(to, "gputopo_gpus_free", "gauge", "GPUs that a new container may get.",
               (uint64_t)__builtin_popcountll(usage->free));
        number(to, "gputopo_gpus_owned_twice", "gauge", "GPUs that more than one container holds.",
               (uint64_t)__builtin_popcountll(usage->twice));
        number(to, "gputopo_unknown_devices_in_use", "gauge",
               "Devices that containers hold and that are no GPU of this node.", usage->strangers);
        write_owners(usage, metrics->inventory, to);
    }
    head(to, "gputopo_podresources_lists_total", "counter",
         "Questions to the kubelet who uses the GPUs, by result; limited: it was asked too often.");
    gt_buf_printf(to,
                  "gputopo_podresources_lists_total{result=\"done\"} %" PRIu64 "\n"
                  "gputopo_podresources_lists_total{result=\"failed\"} %" PRIu64 "\n"
                  "gputopo_podresources_lists_total{result=\"limited\"} %" PRIu64 "\n",
                  lists->done, lists->failed, lists->limited);
    if (lists->last_s > 0) {
        head(to, "gputopo_last_podresources_list_timestamp_seconds", "gauge",
             "When the kubelet last answered.");
        gt_buf_printf(to, "gputopo_last_podresources_list_timestamp_seconds %.3f\n", lists->last_s);
    }
}

static void write_publish(const struct gt_publish_stats *stats, const struct gt_kube_counters *client,
                          struct gt_buf *to)
{
    head(to, "gputopo_publish_writes_total", "counter", "Requests to the API server that it accepted.");
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        gt_buf_printf(to, "gputopo_publish_writes_total{what=\"%s\"} %" PRIu64 "\n",
                      gt_publish_lane_name((enum gt_publish_lane)i), stats->writes[i]);
    head(to, "gputopo_publish_failures_total", "counter", "Those that it refused or did not answer.");
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        gt_buf_printf(to, "gputopo_publish_failures_total{what=\"%s\"} %" PRIu64 "\n",
                      gt_publish_lane_name((enum gt_publish_lane)i), stats->failures[i]);
    number(to, "gputopo_publish_current", "gauge",
           "1 while the API server has everything that is to be published.", stats->current);
    number(to, "gputopo_publish_away", "gauge", "1 while the API server does not answer.", stats->away);
    if (stats->last_s > 0) {
        head(to, "gputopo_publish_last_timestamp_seconds", "gauge", "When a status was last written.");
        gt_buf_printf(to, "gputopo_publish_last_timestamp_seconds %.0f\n", stats->last_s);
    }
    number(to, "gputopo_publish_requests_total", "counter", "Tries of requests to the API server.",
           client->requests);
    number(to, "gputopo_publish_retries_total", "counter", "Of them, those that were not the first.",
           client->retries);
    number(to, "gputopo_publish_throttled_total", "counter",
           "Answers by which the API server asks for patience.", client->throttled);
    number(to, "gputopo_publish_unauthorized_total", "counter", "Answers that the token is not valid.",
           client->unauthorized);
}

static void write_process(struct gt_buf *to)
{
    struct gt_process process;
    if (!gt_process_read(&process))
        return;
    seconds(to, "process_cpu_seconds_total", "counter", "Processor time used.", process.cpu_s);
    number(to, "process_resident_memory_bytes", "gauge", "Resident memory.", process.resident_bytes);
    number(to, "process_open_fds", "gauge", "Open descriptors.", process.descriptors);
    head(to, "process_start_time_seconds", "gauge", "When the process started.");
    gt_buf_printf(to, "process_start_time_seconds %.2f\n", process.start_s);
}

void gt_metrics_write(const struct gt_metrics *metrics, struct gt_buf *to)
{
    head(to, "gputopo_build_info", "gauge", "The program's version; always 1.");
    gt_buf_puts(to, "gputopo_build_info{version=");
    label(to, gt_version);
    gt_buf_puts(to, ",commit=");
    label(to, gt_commit);
    gt_buf_puts(to, "} 1\n");
    write_node(metrics->inventory, to);
    write_scans(metrics, to);
    if (metrics->has_plugin)
        write_plugin(&metrics->plugin, to);
    if (metrics->usage)
        write_usage(metrics, to);
    if (metrics->publish)
        write_publish(metrics->publish, &metrics->client, to);
    write_process(to);
}
