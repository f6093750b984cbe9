/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

uint32_t gt_pod_super(const struct job *job, uint32_t pod)
{
    uint32_t node = job->pods[pod].node;
    return gt_core_has_node(job->cluster, node) ? job->cluster->super[node] : GT_NONE;
}

bool gt_run_is_placed(const struct job *job, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (!job->pods[i].running && job->pods[i].node == GT_NONE)
            return false;
    return true;
}

bool gt_run_has_started(const struct job *job, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; job->any_running && i < first + count; i++)
        if (job->pods[i].running && gt_pod_super(job, i) != GT_NONE)
            return true;
    return false;
}

bool gt_unit_is_fresh(const struct job *job, const struct gt_plan_unit *unit, const struct gt_plan_unit *kind)
{
    return gt_unit_is_kind(unit, kind) && !gt_run_is_placed(job, unit->first, unit->pods) &&
           !gt_run_has_started(job, unit->first, unit->pods);
}

uint32_t gt_unit_mark_supernodes(const struct job *job, const struct gt_plan_unit *unit, uint32_t *ret_shared)
{
    struct gt_cluster *cluster = job->cluster;
    uint32_t count = 0, shared = GT_NONE, stamp = gt_core_stamp(cluster);
    for (uint32_t pod = unit->first; pod < unit->first + unit->pods; pod++) {
        uint32_t super = gt_pod_super(job, pod);
        if (super == GT_NONE || cluster->mark[super] == stamp)
            continue;
        cluster->mark[super] = stamp;
        if (count++ == 0)
            shared = super;
        while (shared != GT_NONE && !gt_core_is_below(cluster, super, shared))
            shared = cluster->supers[shared].parent;
    }
    *ret_shared = shared;
    return count;
}

void gt_run_touch(struct job *job, uint32_t super)
{
    struct gt_cluster *cluster = job->cluster;
    for (; super != GT_NONE && cluster->touched[super] != job->touch; super = cluster->supers[super].parent) {
        cluster->touched[super] = job->touch;
        job->any_touched = true;
    }
}
