/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/debug_view.h"

#include <string.h>

void gt_debug_job(const struct gt_debug_view *view, const struct gt_cache_job *job,
                  struct gt_placement_job *ret)
{
    if (view->placement)
        gt_placement_job(view->placement, job, ret);
    else
        *ret = (struct gt_placement_job){.place = GT_NONE, .reason = "", .text = "", .plan = ""};
}

static void debug_view_count_pods(const struct gt_cache_job *job, uint32_t counts[GT_CACHE_RUNNING + 1])
{
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        counts[pod->state]++;
}

const char *gt_debug_job_state(const struct gt_cache_job *job, const struct gt_placement_job *info)
{
    uint32_t counts[GT_CACHE_RUNNING + 1] = {0};
    if (info->state != GT_PLACEMENT_NONE)
        return gt_placement_state_name(info->state);
    debug_view_count_pods(job, counts);
    return counts[GT_CACHE_GATED]     ? "gated"
           : counts[GT_CACHE_WAITING] ? "pending"
           : counts[GT_CACHE_BOUND]   ? "starting"
                                      : "running";
}

bool gt_debug_is_settled(const struct gt_debug_view *view, const struct gt_cache_job *job,
                         const struct gt_placement_job *info)
{
    uint32_t counts[GT_CACHE_RUNNING + 1] = {0};
    debug_view_count_pods(job, counts);
    return (info->state == GT_PLACEMENT_NONE || info->state == GT_PLACEMENT_PLACED) &&
           !counts[GT_CACHE_GATED] && !counts[GT_CACHE_WAITING] && !gt_debug_job_unplaced(view, job);
}

const char *gt_debug_pod_state(const struct gt_cache_pod *pod)
{
    static const char *const names[] = {"gated", "pending", "starting", "running"};
    return names[pod->state];
}

const char *gt_debug_plan_state(const struct gt_cache_pod *pod)
{
    static const char *const names[] = {"none", "assumed", "lost", "running", "broken"};
    return names[pod->plan];
}

uint64_t gt_debug_pod_gpus(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                           uint32_t *ret_node)
{
    struct gt_cluster_node node;
    bool planned = pod->plan == GT_CACHE_PLAN_ASSUMED || pod->plan == GT_CACHE_PLAN_RUNNING;
    *ret_node = planned && pod->planned.node != GT_NONE ? pod->planned.node : pod->node;
    if (!gt_cluster_get_node(gt_cache_cluster(view->cache), *ret_node, &node)) {
        *ret_node = GT_NONE;
        return 0;
    }
    if (planned && pod->planned.node != GT_NONE)
        return pod->planned.mask;
    return gt_cache_pod_gpus(view->cache, pod);
}

uint64_t gt_debug_job_gpus(const struct gt_cache_job *job)
{
    uint64_t gpus = 0;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        gpus += pod->gpus;
    return gpus;
}

uint32_t gt_debug_job_units(const struct gt_cache_job *job)
{
    uint32_t units = 0;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        uint32_t unit = gt_cache_pod_number(pod, GT_KEY_PLAN_UNIT);
        units = unit != GT_NONE && unit >= units ? unit + 1 : units;
    }
    return units;
}

void gt_debug_job_texts(const struct gt_debug_view *view, const struct gt_cache_job *job,
                        struct gt_job_texts *ret)
{
    *ret = gt_cache_job_texts(job);
    if (view->placement && job->pods)
        gt_placement_add_texts(view->placement, job->pods, ret);
}

uint32_t gt_debug_job_unplaced(const struct gt_debug_view *view, const struct gt_cache_job *job)
{
    struct gt_job_texts texts;
    uint32_t count = 0;
    gt_debug_job_texts(view, job, &texts);
    for (const struct gt_cache_pod *pod = job->pods; view->placement && texts.of[GT_KEY_GROUP] && pod;
         pod = pod->next)
        count += gt_cache_pod_is_unplaced(pod);
    return count;
}

const char *gt_debug_job_kind(const struct gt_cache_job *job)
{
    const struct gt_cache_pod *pod = job->pods;
    if (pod->identity.kind == GT_JOB_OWNED && pod->meta.owner_kind)
        return pod->meta.owner_kind;
    return gt_job_kind_name(pod->identity.kind);
}
