/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/err.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/jobs/rules.h"
#include "scheduler-ext/serve/explain.h"

/* The pods of the job that lie together; 0: not known, or nothing would be closer. */
static uint32_t explain_run_of(const struct gt_debug_view *view, const struct gt_cache_job *job)
{
    struct gt_job_texts texts;
    struct gt_job_sizes sizes;
    unsigned gpus = job->pods->gpus;
    gt_debug_job_texts(view, job, &texts);
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        if (pod->gpus != gpus || pod->meta.requests != job->pods->meta.requests)
            return 0;
    if (!gpus || !texts.of[GT_KEY_GROUP] || gt_job_sizes_read(&texts, 1, &sizes, NULL) < 0 || sizes.flat ||
        sizes.within || sizes.unit_within)
        return 0;
    uint32_t size = sizes.atomic ? sizes.atomic : sizes.whole ? gt_cache_job_gpus(job) : sizes.group;
    return size % gpus ? 0 : size / gpus;
}

/* Adds the nodes that the job's pods, which are alike, may not use. */
static int explain_add_unfit(struct gt_cache *cache, const struct gt_cache_job *job, struct gt_node_set *to)
{
    const struct gt_cache_request *request = gt_cache_pod_request(job->pods);
    for (uint32_t id = 0; id < gt_cluster_nodes(gt_cache_cluster(cache)); id++)
        if (!gt_cache_successor_fits_node(cache, job->pods, id) ||
            (request && !gt_cache_room_for(cache, id, request, GT_CACHE_ROOM_EMPTIED)))
            GT_TRY(gt_node_set_add(to, id, NULL));
    return 0;
}

/* Who would have to move so that it lies in one domain less. What cannot be found out is left out. */
static void explain_add_closer(const struct gt_debug_view *view, const struct gt_cache_job *job,
                               const struct gt_crossing *crossing, const uint32_t *nodes, uint32_t count,
                               struct gt_buf *to)
{
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    gt_auto_movable_pods struct gt_movable_pods movable = {0};
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set unfit = {0};
    struct gt_closer closer;
    uint32_t run = explain_run_of(view, job);
    if (!run || explain_add_unfit(view->cache, job, &unfit) < 0 ||
        (view->placement && gt_placement_movable_pods(view->placement, false, &movable, NULL) < 0))
        return;
    for (uint32_t i = 0; i < movable.count; i++)
        movable.running[i].movable = movable.pods[i]->job != job;
    const struct gt_closer_spec spec = {.crossing = crossing,
                                        .nodes = nodes,
                                        .count = count,
                                        .run = run,
                                        .gpus = job->pods->gpus,
                                        .requests = job->pods->meta.requests,
                                        .avoids = &unfit,
                                        .placed = true,
                                        .pods = movable.running,
                                        .pod_count = movable.count,
                                        .may_go = gt_movable_pods_may_go,
                                        .arg = &movable,
                                        .work = GT_RELOCATE_WORK_BRIEF};
    if (gt_closer_find(cluster, &spec, &closer, NULL) < 0)
        return;
    const struct gt_cache_job *other =
        closer.others.count ? movable.pods[closer.others.moves[0].pod]->job : NULL;
    gt_closer_text(cluster, crossing, &closer, other ? gt_job_key_name(other->key) : "", to);
    free(closer.others.moves);
}

void gt_explain_crossing(const struct gt_debug_view *view, const struct gt_cache_job *job,
                         const struct gt_cache_pod *const *pods, uint32_t count, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    gt_auto_free uint32_t *nodes = calloc((size_t)count + 1, sizeof(*nodes));
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    struct gt_crossing crossing;
    uint32_t placed = 0;
    for (uint32_t i = 0; nodes && i < count; i++) {
        gt_debug_pod_gpus(view, pods[i], &nodes[placed]);
        placed += nodes[placed] != GT_NONE;
    }
    if (!nodes || !gt_crossing_find(cluster, nodes, placed, &crossing)) {
        to->failed = true;
        return;
    }
    gt_crossing_text(cluster, &crossing, &text);
    if (text.len && placed == count)
        explain_add_closer(view, job, &crossing, nodes, count, &text);
    if (text.len)
        gt_buf_printf(to, "It lies in %s\n", text.data);
}
