/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/node_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "scheduler-ext/core/numa_room.h"

uint64_t gt_node_available(const struct gt_cluster_node *node, uint64_t remote)
{
    return node->free & node->healthy & ~node->assumed & ~remote;
}

bool gt_node_gpus_are_reserved(const struct gt_cluster_node *node, uint64_t remote, unsigned gpus)
{
    /* Where there is no room even without reservations, the scheduler detects it itself, or knows of GPUs
     * that have become free since the last report. */
    return gt_bit_count(gt_node_available(node, remote)) < gpus &&
           gt_bit_count(node->free & node->healthy) >= gpus && node->assumed | remote;
}

bool gt_node_kubelet_refuses(struct gt_cache *cache, uint32_t id, uint64_t remote, struct gt_numa_pod pod)
{
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    struct gt_cluster_node node;
    struct gt_cache_node cached;
    if (!pod.gpus || !gt_numa_judges(cluster, id) || !gt_cluster_get_node(cluster, id, &node) ||
        (gt_cache_get_node(cache, id, &cached) && cached.stale))
        return false;
    return !gt_numa_pods(cluster, id, gt_node_available(&node, remote), pod);
}

bool gt_node_slow_refuses(struct gt_cache *cache, uint32_t id, uint64_t remote,
                          const struct gt_mix_amounts *asked)
{
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    struct gt_cluster_node node;
    if (asked->slow != GT_SLOW_NEVER || !gt_cluster_get_node(cluster, id, &node))
        return false;
    uint64_t available = gt_node_available(&node, remote);
    return available & node.slow &&
           (gt_numa_judges(cluster, id) || gt_bit_count(available & ~node.slow) < asked->gpus);
}

/* The available GPUs that are left when the scheduler has allocated some already: those are taken to be the
 * agent's choice. */
static uint64_t what_is_left(const struct gt_cluster_node *node, unsigned left)
{
    struct gt_choice choice;
    unsigned gone = gt_bit_count(node->available) - left;
    if (!gt_choose(node->class, node->available, 0, gone, 0, &choice))
        return node->available;
    return node->available & ~choice.mask;
}

/* `has_left`: available GPUs by the scheduler's count; negative: not known. */
static double node_values_of(struct gt_cache *cache, const struct gt_mix_amounts *amounts, uint32_t id,
                             int32_t has_left, double value)
{
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    struct gt_mix_amounts left;
    struct gt_cluster_node node;
    struct gt_score_parts parts;
    uint64_t mask = UINT64_MAX;
    gt_cache_left(cache, id, &left);
    if (amounts->requests && gt_numa_judges(cluster, id))
        value =
            gt_score_left(cluster, id, mask, gt_mix_numa_pod(amounts), &parts) ? parts.value : (double)NAN;
    if (has_left >= 0 && (unsigned)has_left < left.gpus && gt_cluster_get_node(cluster, id, &node)) {
        left.gpus = (unsigned)has_left;
        mask = what_is_left(&node, left.gpus);
        value = !amounts->gpus                                                       ? value
                : gt_score_left(cluster, id, mask, gt_mix_numa_pod(amounts), &parts) ? parts.value
                                                                                     : (double)NAN;
    }
    if (amounts->gpus)
        value = gt_score_slow(cluster, id, mask, gt_mix_numa_pod(amounts), amounts->slow, value);
    return isnan(value) ? value : gt_score_strand(cluster, gt_cache_mix(cache), &left, amounts, value);
}

double gt_node_value(struct gt_cache *cache, const struct gt_mix_amounts *amounts, uint32_t id, double value)
{
    return node_values_of(cache, amounts, id, -1, value);
}

/* Whether it asks for CPU or memory; otherwise a node without GPUs is not evaluated. */
static bool asks(const struct gt_mix_amounts *amounts)
{
    return amounts->gpus || amounts->of[GT_MIX_CPU] > 0 || amounts->of[GT_MIX_MEMORY] > 0;
}

void gt_node_values(struct gt_cache *cache, const struct gt_mix_amounts *amounts, uint32_t planned,
                    const char *const *names, const int32_t *left, uint32_t count, double *ret_values,
                    uint32_t *ret_ids)
{
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    for (uint32_t i = 0; i < count; i++)
        ret_ids[i] = gt_cluster_find_node(cluster, names[i]);
    if (planned != GT_NONE) {
        for (uint32_t i = 0; i < count; i++)
            ret_values[i] = ret_ids[i] == planned ? (double)INFINITY : (double)NAN;
        return;
    }
    if (amounts->gpus)
        gt_score_ids(cluster, amounts->gpus, ret_ids, count, ret_values);
    for (uint32_t i = 0; i < count; i++)
        ret_values[i] = asks(amounts) ? node_values_of(cache, amounts, ret_ids[i], left ? left[i] : -1,
                                                       amounts->gpus ? ret_values[i] : 0)
                                      : (double)NAN;
}

/* Counts in each supernode the other pods of the job that have a place there or below. */
static uint32_t count_siblings(const struct gt_cluster *cluster, const struct gt_cache_pod *pod,
                               uint32_t *siblings)
{
    uint32_t count = 0;
    for (const struct gt_cache_pod *other = pod->job->pods; other; other = other->next) {
        struct gt_cluster_node node;
        struct gt_cluster_supernode super;
        uint32_t place = other->node != GT_NONE                 ? other->node
                         : other->plan == GT_CACHE_PLAN_ASSUMED ? other->planned.node
                                                                : GT_NONE;
        if (other == pod || other->deleting || !gt_cluster_get_node(cluster, place, &node))
            continue;
        count++;
        for (uint32_t at = node.supernode; gt_cluster_get_supernode(cluster, at, &super); at = super.parent)
            siblings[at]++;
    }
    return count;
}

static bool is_kept_close(const struct gt_cache *cache, const struct gt_aware_weights *weights,
                          const struct gt_cache_pod *pod)
{
    const char *said = gt_pod_annotation(&pod->meta, GT_KEY_JOB_TOPOLOGY);
    enum gt_closeness closeness = gt_cache_namespace_closeness(cache, pod->namespace_->name);
    return pod->plan == GT_CACHE_PLAN_NONE && gt_job_kind_is_gang(pod->identity.kind) &&
           (said                               ? strcmp(said, "none") != 0
            : closeness != GT_CLOSENESS_UNSAID ? closeness == GT_CLOSENESS_PREFERRED
                                               : weights->close);
}

struct gt_aware_weights gt_node_weights(const struct gt_cache *cache, const struct gt_aware_weights *weights,
                                        const struct gt_cache_pod *pod)
{
    struct gt_aware_weights ret = *weights;
    ret.closeness_weight = !pod || !is_kept_close(cache, weights, pod) ? 0
                           : weights->closeness_weight > 0             ? weights->closeness_weight
                                                                       : 1;
    return ret;
}

void gt_node_values_near(struct gt_cache *cache, const struct gt_aware_weights *weights,
                         const struct gt_cache_pod *pod, const uint32_t *ids, uint32_t count, double *values)
{
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    if (!(weights->closeness_weight > 0))
        return;
    gt_auto_free uint32_t *siblings = calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*siblings));
    uint32_t all = siblings ? count_siblings(cluster, pod, siblings) : 0;
    for (uint32_t i = 0; i < count && all; i++) {
        struct gt_cluster_node node;
        struct gt_cluster_supernode super;
        double near = 0;
        if (isnan(values[i]) || !gt_cluster_get_node(cluster, ids[i], &node))
            continue;
        for (uint32_t at = node.supernode, below = 0; gt_cluster_get_supernode(cluster, at, &super);
             below = siblings[at], at = super.parent)
            near += (siblings[at] - below) * (GT_TIERS_MAX + 1.0 - super.tier) / GT_TIERS_MAX;
        values[i] += weights->weight * weights->closeness_weight * near / all;
    }
}

void gt_volcano_scores(struct gt_cache *cache, const struct gt_aware_weights *weights, const double *values,
                       const uint32_t *ids, uint32_t count, double *ret)
{
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    for (uint32_t i = 0; i < count; i++) {
        struct gt_cluster_node node;
        double value = values[i];
        ret[i] = 0;
        if (isinf(value))
            ret[i] = 1e6;
        else if (!isnan(value) && gt_cluster_get_node(cluster, ids[i], &node))
            ret[i] =
                100 * weights->weight * gt_score_worth(weights, value) - 1e-4 * gt_bit_count(node.available);
    }
}
