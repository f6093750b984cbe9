/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/debug_view.h"

static const char *const pod_states[] = {"gated", "pending", "starting", "running"};

struct gt_debug_pods gt_debug_count_pods(const struct gt_cache_job *job)
{
    struct gt_debug_pods ret = {.created_s = UINT64_MAX, .priority = INT32_MIN};
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        ret.counts[pod->state]++;
        ret.created_s = pod->created_s < ret.created_s ? pod->created_s : ret.created_s;
        ret.priority = pod->priority > ret.priority ? pod->priority : ret.priority;
    }
    return ret;
}

const char *gt_debug_job_state(const struct gt_cache_job *job, const struct gt_placement_job *info)
{
    enum gt_cache_pod_state first = GT_CACHE_RUNNING;
    if (info->state != GT_PLACEMENT_NONE)
        return gt_placement_state_name(info->state);
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        first = pod->state < first ? pod->state : first;
    return pod_states[first];
}

bool gt_debug_is_settled(const struct gt_debug_view *view, const struct gt_cache_job *job,
                         const struct gt_placement_job *info)
{
    const struct gt_debug_pods pods = gt_debug_count_pods(job);
    return (info->state == GT_PLACEMENT_NONE || info->state == GT_PLACEMENT_PLACED) &&
           !pods.counts[GT_CACHE_GATED] && !pods.counts[GT_CACHE_WAITING] &&
           !gt_debug_job_unplaced(view, job);
}

const char *gt_debug_pod_state(const struct gt_cache_pod *pod)
{
    return pod_states[pod->state];
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
