/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/node_values.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

static unsigned bits(uint64_t mask)
{
    return gt_bit_count(mask);
}

uint64_t gt_node_unpromised(const struct gt_cluster_node *node, uint64_t remote)
{
    return node->free & node->healthy & ~node->assumed & ~remote;
}

bool gt_node_is_promised(const struct gt_cluster_node *node, uint64_t remote, unsigned gpus)
{
    /* Without room even if nothing were promised: the scheduler says so itself, or knows of GPUs that have
     * become free since the node reported. */
    return bits(gt_node_unpromised(node, remote)) < gpus && bits(node->free & node->healthy) >= gpus &&
           node->assumed | remote;
}

/* Of so many available GPUs the scheduler has given some away: those that the agent would have chosen. */
static uint64_t what_is_left(const struct gt_cluster_node *node, unsigned left)
{
    struct gt_choice choice;
    unsigned gone = bits(node->available) - left;
    if (!gt_choose(node->class, node->available, 0, gone, 0, &choice))
        return node->available;
    return node->available & ~choice.mask;
}

static void take_away(struct gt_cluster *cluster, unsigned gpus, uint32_t id, int32_t left, double *value)
{
    struct gt_cluster_node node;
    struct gt_score_parts parts;
    if (left < 0 || !gt_cluster_get_node(cluster, id, &node) || (unsigned)left >= bits(node.available))
        return;
    *value = gt_score_left(cluster, id, what_is_left(&node, (unsigned)left), gpus, &parts) ? parts.value
                                                                                           : (double)NAN;
}

void gt_node_values(struct gt_cache *cache, unsigned gpus, uint32_t planned, const char *const *names,
                    const int32_t *left, uint32_t count, double *ret_values, uint32_t *ret_ids)
{
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    for (uint32_t i = 0; i < count; i++)
        ret_ids[i] = gt_cluster_find_node(cluster, names[i]);
    if (planned != GT_NONE) {
        for (uint32_t i = 0; i < count; i++)
            ret_values[i] = ret_ids[i] == planned ? (double)INFINITY : (double)NAN;
        return;
    }
    gt_score_names(cluster, gpus, names, count, ret_values);
    for (uint32_t i = 0; left && i < count; i++)
        take_away(cluster, gpus, ret_ids[i], left[i], &ret_values[i]);
}

/* Where the value lies between the least that is possible, 0, and the greatest, 1: an exact fit from
 * EXACT_FROM on, others up to it. */
static const double EXACT_FROM = 0.7;

static double share_of(const struct gt_aware_weights *weights, double value)
{
    double own = value / weights->weight, bonus = weights->score_weight * GT_AWARE_EXACT_BONUS;
    double least = -weights->loss_weight * GT_AWARE_PART_MAX,
           most = weights->score_weight * GT_AWARE_PART_MAX;
    if (bonus > 0 && own >= bonus)
        return EXACT_FROM + (1 - EXACT_FROM) * fmin((own - bonus) / most, 1);
    return most > least ? EXACT_FROM * fmax((own - least) / (most - least), 0) : 1;
}

/* Whether node a goes before b at equal value: fewer GPUs available, then more in all, then by name. */
static bool wins_tie(const struct gt_cluster *cluster, uint32_t a, uint32_t b)
{
    struct gt_cluster_node x, y;
    if (!gt_cluster_get_node(cluster, a, &x) || !gt_cluster_get_node(cluster, b, &y))
        return false;
    if (bits(x.available) != bits(y.available))
        return bits(x.available) < bits(y.available);
    if (bits(x.all) != bits(y.all))
        return bits(x.all) > bits(y.all);
    return strcmp(x.name, y.name) < 0;
}

void gt_kube_scheduler_scores(struct gt_cache *cache, const struct gt_aware_weights *weights,
                              const double *values, const uint32_t *ids, uint32_t count, uint8_t *ret)
{
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    uint32_t best = GT_NONE;
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = isnan(values[i]) ? 0 : (uint8_t)(9 * share_of(weights, values[i]));
        if (!isnan(values[i]) && (best == GT_NONE || values[i] > values[best] ||
                                  (values[i] == values[best] && wins_tie(cluster, ids[i], ids[best]))))
            best = i;
    }
    if (best != GT_NONE)
        ret[best] = 10;
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
            ret[i] = 100 * weights->weight * share_of(weights, value) - 1e-4 * bits(node.available);
    }
}
