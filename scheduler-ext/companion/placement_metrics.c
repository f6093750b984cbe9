/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/placement_private.h"

#include <stdio.h>

#include "base/prometheus.h"

static void write_decisions(const struct gt_placement_counters *counters, struct gt_buf *to)
{
    static const char name[] = "gputopo_placement_decisions_total";
    static const char *const reasons[] = {
        [GT_PLAN_PLACED] = "none",
        [GT_PLAN_TOO_FEW_GPUS] = "too_few_gpus",
        [GT_PLAN_NO_SUPERNODE] = "no_supernode",
        [GT_PLAN_UNIT_TORN] = "unit_torn",
        [GT_PLAN_UNIT_STUCK] = "unit_stuck",
        [GT_PLAN_RESERVED] = "reserved",
        [GT_PLAN_TOO_FEW_RESOURCES] = "too_few_resources",
        [GT_PLAN_RULED] = "pod_rules",
        [GT_PLAN_NO_DOMAIN] = "no_domain",
        [GT_PLAN_NEVER_FITS] = "never_fits",
    };
    double limits[GT_PLACEMENT_BUCKETS - 1];
    for (unsigned i = 0; i < GT_PLACEMENT_BUCKETS - 1; i++)
        limits[i] = gt_placement_bucket_us[i] * 1e-6;
    gt_prom_head(to, name, "Decisions on jobs, by result and reason.");
    gt_buf_printf(to, "%s{result=\"placed\",reason=\"\"} %llu\n", name, (unsigned long long)counters->placed);
    for (unsigned i = GT_PLAN_TOO_FEW_GPUS; i < GT_COUNT(reasons); i++)
        gt_buf_printf(to, "%s{result=\"waits\",reason=\"%s\"} %llu\n", name, reasons[i],
                      (unsigned long long)counters->blocked[i]);
    gt_buf_printf(to, "%s{result=\"refused\",reason=\"rule\"} %llu\n", name,
                  (unsigned long long)counters->refused);
    gt_prom_histogram(to, "gputopo_placement_decision_seconds", "Time for one decision on a job.",
                      &(struct gt_prom_buckets){limits, counters->decisions, GT_PLACEMENT_BUCKETS,
                                                (double)counters->decision_us * 1e-6});
}

static void write_jobs(const struct gt_placement_counters *counters, struct gt_buf *to)
{
    static const char name[] = "gputopo_placement_jobs";
    gt_prom_head(to, name, "Jobs that the controller reconciles after, by state.");
    for (unsigned i = GT_PLACEMENT_NONE + 1; i < GT_PLACEMENT_STATES; i++)
        gt_buf_printf(to, "%s{state=\"%s\"} %u\n", name, gt_placement_state_name((enum gt_placement_state)i),
                      counters->jobs[i]);
}

static void write_waits(const struct gt_placement *placement, const struct gt_placement_counters *counters,
                        struct gt_buf *to)
{
    static const char wait[] = "gputopo_placement_wait_duration_seconds",
                      oldest[] = "gputopo_placement_oldest_wait_seconds",
                      fitting[] = "gputopo_placement_fitting_job_wait_seconds";
    struct gt_placement_waits waits;
    double limits[GT_WAIT_BUCKETS - 1];
    for (unsigned i = 0; i < GT_WAIT_BUCKETS - 1; i++)
        limits[i] = gt_wait_bucket_s[i];
    gt_prom_histogram_head(to, wait, "How long jobs waited for a place, by the GPUs of the job.");
    for (unsigned i = 0; i < GT_WAIT_SIZES; i++) {
        char label[32];
        snprintf(label, sizeof(label), "gpus=\"%s\"", gt_wait_size_names[i]);
        gt_prom_histogram_of(
            to, wait, label,
            &(struct gt_prom_buckets){limits, counters->waits[i], GT_WAIT_BUCKETS, counters->waited_s[i]});
    }
    gt_placement_waits(placement, &waits);
    gt_prom_head(to, oldest, "How long the job has waited for a place that waits longest.");
    for (unsigned i = 0; i < waits.count && i < GT_WAIT_NAMESPACES; i++) {
        gt_buf_printf(to, "%s{namespace=", oldest);
        gt_prom_label(to, waits.oldest[i].namespace_);
        gt_buf_printf(to, "} %llu\n", (unsigned long long)waits.oldest[i].age_s);
    }
    gt_buf_printf(to, "%s{namespace=\"(others)\"} %llu\n", oldest,
                  (unsigned long long)waits.oldest[GT_WAIT_NAMESPACES].age_s);
    gt_prom_head(to, fitting,
                 "How long the job has waited that waits longest although it fits, by why it waits.");
    for (unsigned i = 0; i < GT_FITS_REASONS; i++)
        gt_buf_printf(to, "%s{reason=\"%s\"} %llu\n", fitting, gt_fits_reason_names[i],
                      (unsigned long long)waits.fitting_s[i]);
}

void gt_placement_metrics(const struct gt_placement *placement, struct gt_buf *to)
{
    struct gt_placement_counters counters;
    gt_placement_counters(placement, &counters);
    write_decisions(&counters, to);
    write_jobs(&counters, to);
    write_waits(placement, &counters, to);
    gt_prom_number(to, "gputopo_placement_reconciles_total", "Reconciles of a job, for any reason.",
                   counters.reconciles);
    gt_prom_number(to, "gputopo_placement_reserved_gpus",
                   "GPUs reserved for pods of placed jobs that are not made yet.", counters.reserved_gpus);
    gt_prom_number(to, "gputopo_placement_reserved_nodes",
                   "Nodes reserved for jobs that have waited for long.", counters.reserved_node_count);
    gt_prom_number(to, "gputopo_placement_pods_planned_total", "Pods that were given a place.",
                   counters.pods.planned);
    gt_prom_number(to, "gputopo_placement_pods_admitted_total",
                   "Of them, those that were made with their plan, without a gate.", counters.pods.admitted);
    gt_prom_number(to, "gputopo_placement_pods_lifted_total", "Pods whose gate was lifted.",
                   counters.pods.lifted);
    gt_prom_number(to, "gputopo_placement_plans_lost_total",
                   "Pods whose place was taken before they were bound.", counters.pods.lost);
    gt_prom_number(to, "gputopo_placement_pods_recreated_total",
                   "Of them, those that were deleted for their owner to make again.",
                   counters.pods.recreated);
    gt_prom_number(to, "gputopo_placement_pods_evicted_total",
                   "Pods that were evicted, for their units to move or their jobs to be planned again.",
                   counters.pods.evicted);
    gt_prom_number(to, "gputopo_placement_pods_preempted_total",
                   "Pods that were chosen to leave for a job of higher priority.", counters.pods.preempted);
    gt_prom_number(to, "gputopo_placement_braked_total",
                   "Times that the brake kept pods from being evicted; it grows while the brake holds.",
                   counters.braked);
    gt_prom_number(to, "gputopo_placement_pods_refused_by_kubelet_total",
                   "Pods of jobs with a group size that the kubelet refused on their node.",
                   counters.pods.kubelet_refused);
    gt_prom_number(to, "gputopo_placement_writes_total", "Writes to pods and GPUPlacements.",
                   counters.writes.done);
    gt_prom_number(to, "gputopo_placement_write_failures_total", "Of them, those that failed.",
                   counters.writes.failures);
    gt_prom_number(to, "gputopo_placement_conflicts_total",
                   "Writes that came too late: the pod had changed, or was gone.", counters.writes.conflicts);
}
