/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "scheduler-ext/core/internal.h"
#include "scheduler-ext/core/numa_room.h"

/* Adds CPU and memory to the values of score.c. */

struct gt_aware_range gt_score_range(const struct gt_aware_weights *weights)
{
    double score = weights->score_weight, stranded = weights->loss_weight * GT_AWARE_STRANDED;
    bool has_exact = score > 0 && weights->loss_weight > 0;
    double exact = score * GT_AWARE_EXACT_BONUS + stranded;
    return (struct gt_aware_range){
        .least = weights->weight * (-weights->loss_weight * GT_AWARE_PART_MAX - stranded),
        .exact = has_exact ? weights->weight * exact : (double)INFINITY,
        .most = weights->weight * (score * GT_AWARE_PART_MAX + (has_exact ? exact + stranded : 0) + stranded +
                                   weights->closeness_weight)};
}

double gt_score_slow(struct gt_cluster *cluster, uint32_t node, uint64_t left, struct gt_numa_pod pod,
                     enum gt_slow_use use, double value)
{
    struct gt_aware_range range = gt_score_range(&cluster->weights);
    struct gt_score_parts parts;
    if (use == GT_SLOW_ANY || isnan(value) || !gt_core_has_node(cluster, node) ||
        !(cluster->slow[node] & cluster->available[node]))
        return value;
    if (use == GT_SLOW_NEVER && gt_numa_judges(cluster, node)) /* its kubelet may give any */
        return (double)NAN;
    if (gt_score_left(cluster, node, left & ~cluster->slow[node], pod, &parts))
        return parts.value;
    return use == GT_SLOW_NEVER ? (double)NAN : value - (range.most - range.least);
}

double gt_score_stranded_part(struct gt_mix *mix, const struct gt_mix_amounts *left,
                              const struct gt_mix_amounts *amounts)
{
    double steep = GT_AWARE_STRANDED * gt_mix_stranded(mix, left, amounts);
    return steep / (fabs(steep) + 1);
}

double gt_score_strand(const struct gt_cluster *cluster, struct gt_mix *mix,
                       const struct gt_mix_amounts *left, const struct gt_mix_amounts *amounts, double value)
{
    const struct gt_aware_weights *weights = &cluster->weights;
    double unit = weights->weight * weights->loss_weight * GT_AWARE_STRANDED;
    bool exact = weights->score_weight > 0 && weights->loss_weight > 0 && amounts->gpus &&
                 value >= weights->weight * weights->score_weight * GT_AWARE_EXACT_BONUS;
    return value - unit * gt_score_stranded_part(mix, left, amounts) + (exact ? 2 * unit : 0);
}

/* Whether node a comes before b at equal values: fewer available GPUs, then more GPUs in all, then by
 * name. */
static bool wins_tie(const struct gt_cluster *cluster, uint32_t a, uint32_t b)
{
    if (a == GT_NONE || b == GT_NONE)
        return b != GT_NONE;
    if (cluster->count[a] != cluster->count[b])
        return cluster->count[a] < cluster->count[b];
    if (cluster->size[a] != cluster->size[b])
        return cluster->size[a] > cluster->size[b];
    return strcmp(cluster->node_names.text[a], cluster->node_names.text[b]) < 0;
}

uint32_t gt_score_first(const struct gt_cluster *cluster, const double *values, const uint32_t *ids,
                        uint32_t count)
{
    uint32_t best = GT_NONE;
    for (uint32_t i = 0; i < count; i++)
        if (!isnan(values[i]) && (best == GT_NONE || values[i] > values[best] ||
                                  (values[i] == values[best] && wins_tie(cluster, ids[i], ids[best]))))
            best = i;
    return best;
}

/* The worth from which on fits are exact. */
static const double EXACT_FROM = 0.7;

double gt_score_worth(const struct gt_aware_weights *weights, double value)
{
    struct gt_aware_range range = gt_score_range(weights);
    if (value >= range.exact)
        return EXACT_FROM + (1 - EXACT_FROM) * fmin((value - range.exact) / (range.most - range.exact), 1);
    double most = isinf(range.exact) ? range.most : range.exact;
    return most > range.least ? EXACT_FROM * fmax((value - range.least) / (most - range.least), 0) : 1;
}

void gt_score_kube_scheduler(const struct gt_cluster *cluster, const struct gt_aware_weights *weights,
                             const double *values, const uint32_t *ids, uint32_t count, uint8_t *ret)
{
    for (uint32_t i = 0; i < count; i++)
        ret[i] = isnan(values[i]) ? 0 : (uint8_t)(9 * gt_score_worth(weights, values[i]));
    uint32_t best = gt_score_first(cluster, values, ids, count);
    for (uint32_t i = 0; i < count && best != GT_NONE; i++)
        if (i == best || (ids[i] == GT_NONE && ids[best] == GT_NONE && !isnan(values[i])))
            ret[i] = 10;
}
