/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/slow.h"

#include <stdlib.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/text.h"
#include "scheduler-ext/jobs/rules.h"

enum { SLOW_NODES_NAMED = 3 };

/* What one of its pods says counts for the job. */
static bool slow_is_any(const struct gt_cache_job *job)
{
    const struct gt_cache_pod *pod = job->pods;
    while (pod && gt_job_slow_use(gt_pod_annotation(&pod->meta, GT_KEY_SLOW)) != GT_SLOW_ANY)
        pod = pod->next;
    return pod;
}

/* The slow GPUs of a pod, and its node. */
static uint64_t slow_mask(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t *ret_node)
{
    struct gt_cluster *cluster = gt_cache_cluster((struct gt_cache *)(uintptr_t)cache);
    struct gt_cluster_node node;
    bool planned = pod->plan == GT_CACHE_PLAN_ASSUMED && pod->planned.node != GT_NONE;
    *ret_node = planned ? pod->planned.node : pod->node;
    if (pod->deleting || !gt_cluster_get_node(cluster, *ret_node, &node))
        return 0;
    return (planned ? pod->planned.mask : gt_cache_pod_gpus(cache, pod)) & node.slow;
}

/* A node of the supernode that holds such a pod without slow GPUs; GT_NONE: there is none. */
static uint32_t slow_other_node(const struct gt_cluster *cluster, uint32_t supernode, unsigned gpus)
{
    struct gt_cluster_node other;
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++)
        if (gt_cluster_get_node(cluster, n, &other) && other.supernode == supernode &&
            gt_bit_count(other.available & ~other.slow) >= gpus)
            return n;
    return GT_NONE;
}

/* Another supernode that holds so many pods without slow GPUs; GT_NONE: there is none. */
static uint32_t slow_other_supernode(const struct gt_cluster *cluster, uint32_t supernode, unsigned gpus,
                                     uint32_t pods)
{
    gt_auto_free uint32_t *slots = calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*slots));
    struct gt_cluster_node other;
    for (uint32_t n = 0; slots && n < gt_cluster_nodes(cluster); n++)
        if (gt_cluster_get_node(cluster, n, &other) && other.supernode != supernode &&
            (slots[other.supernode] += gt_bit_count(other.available & ~other.slow) / gpus) >= pods)
            return other.supernode;
    return GT_NONE;
}

/* The pods that have to lie in one supernode, where this is one of them. */
static uint32_t slow_run(const struct gt_cache_job *job, const struct gt_cache_pod *pod)
{
    const struct gt_job_texts texts = gt_cache_job_texts(job);
    struct gt_job_sizes sizes;
    if (gt_job_sizes_read(&texts, 1, &sizes, NULL) < 0)
        return job->pod_count;
    return sizes.whole    ? job->pod_count
           : sizes.atomic ? sizes.atomic / pod->gpus
           : sizes.group  ? sizes.group / pod->gpus
                          : 1;
}

static void slow_add_way_out(const struct gt_cluster *cluster, const struct gt_cache_job *job,
                             const struct gt_cache_pod *stuck, uint32_t supernode, struct gt_buf *to)
{
    struct gt_cluster_supernode other;
    uint32_t run = slow_run(job, stuck), id = slow_other_supernode(cluster, supernode, stuck->gpus, run);
    gt_buf_printf(
        to, ". To be free of it, pods like %s need %u GPUs that are not slow on a node of their supernode",
        stuck->meta.name, stuck->gpus);
    if (gt_cluster_get_supernode(cluster, id, &other))
        gt_buf_printf(to, ". Made again, %s room without them in supernode %s",
                      run > 1 ? "all of its unit has" : "it has", other.name);
}

uint64_t gt_slow_job_text(struct gt_cache *cache, const struct gt_cache_job *job, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    const struct gt_cache_pod *stuck = NULL, *may_move = NULL;
    uint32_t pods = 0, id, goes_to = GT_NONE, asked = GT_NONE;
    unsigned asked_gpus = 0; /* of the last supernode that was looked at: the next pod is mostly like it */
    struct gt_cluster_node node;
    uint64_t digest = GT_DIGEST_EMPTY;
    bool asks = gt_cluster_has_slow(cluster) && !slow_is_any(job);
    for (const struct gt_cache_pod *pod = asks ? job->pods : NULL; pod; pod = pod->next) {
        uint64_t mask = slow_mask(cache, pod, &id);
        if (!mask || !gt_cluster_get_node(cluster, id, &node))
            continue;
        if (pods < SLOW_NODES_NAMED) {
            gt_buf_puts(to, pods ? "; " : "it runs at the pace of slow or suspect GPUs: ");
            gt_buf_printf(to, "GPU%s ", gt_plural(gt_bit_count(mask)));
            gt_text_add_mask(to, mask);
            gt_buf_printf(to, " of node %s (pod %s)", node.name, pod->meta.name);
        }
        pods++;
        digest = gt_digest_number(gt_digest_number(digest, mask), id);
        if (stuck || (node.supernode == asked && pod->gpus == asked_gpus))
            continue;
        asked = node.supernode;
        asked_gpus = pod->gpus;
        uint32_t other = slow_other_node(cluster, asked, asked_gpus);
        stuck = other == GT_NONE ? pod : NULL;
        if (other != GT_NONE && !may_move) {
            may_move = pod;
            goes_to = other;
        }
    }
    if (!pods)
        return 0;
    if (pods > SLOW_NODES_NAMED)
        gt_buf_printf(to, "; %u more pods have such ones", pods - SLOW_NODES_NAMED);
    if (stuck)
        slow_add_way_out(cluster, job, stuck, asked, to);
    else if (gt_cluster_get_node(cluster, goes_to, &node))
        gt_buf_printf(to, ". Once it is made again, pod %s has room without them, as on node %s",
                      may_move->meta.name, node.name);
    return digest | 1;
}
