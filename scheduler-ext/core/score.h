/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/mix.h"

/*
 * gpu-aware: how well a node suits a pod of k GPUs. The value depends on this node only, so no other node can
 * change the order of two nodes.
 *
 *   score part = 2 b / (b + 64)
 *     b: the mean bandwidth of a pair of the pod's GPUs in GB/s, score(F,k) over k (k - 1) / 2 pairs; 64 for
 *     k = 1. It is 1 for direct links, and below 2
 *   loss part = 2 L / (L + 1)
 *     L: what the pod takes away, relative to an idle node of 8 GPUs with direct links (28 pairs of 64 GB/s):
 *     a quarter is bandwidth, S(F) - score(F,k), the rest is pairs of free GPUs. It is below 2
 *   exact = 2 or 0 2 where just k GPUs are free, score(F,k) is at least a quarter of what k GPUs of an idle
 *     node of its kind have, and loss_weight is above 0. Such a node comes before all others
 *   value = weight x (score_weight x (score part + exact) - loss_weight x loss part)
 *
 * with F the node's available GPUs and score and S as in topology/model/loss.h. Bandwidth left counts what is
 * cut, loss(F,k), and what the remaining GPUs have among themselves. With the cut alone, a GPU of an
 * incomplete group next to a complete one would cost less than a GPU of a single pair, and nodes would be
 * started that best fit leaves idle. Pairs count the room: with bandwidth alone, idle nodes without direct
 * links would be started first.
 *
 * Where the mix of pods is known (mix.h), gt_score_strand() adds CPU and memory to this value:
 *
 *   stranded part = 4 s / (4 |s| + 1)
 *     s: the GPUs that the pod strands there. It lies between -1 and 1
 *   value = that value - weight x loss_weight x 4 x stranded part, and 8 x loss_weight x weight more for an
 *     exact fit, so that it still comes before all others
 *
 * A pod without GPUs begins with the value 0. Among equal values the order is: the number of available GPUs
 * nearest to k, then the fullest node (largest share of its GPUs taken), then the name.
 */
struct gt_aware_weights {
    double weight;           /* > 0 */
    double score_weight;     /* >= 0, default 1 */
    double loss_weight;      /* >= 0 */
    double closeness_weight; /* >= 0: of siblings that have a place (gt_node_values_near()); 0: 1 */
    unsigned close;          /* 1: jobs without units lie close; 0: those that ask for it do */
};

enum {
    GT_AWARE_DIRECT = 64,     /* GB/s of a direct link */
    GT_AWARE_NODE = 8,        /* GPUs of the node that is the measure */
    GT_AWARE_ROOM = 3,        /* weight of a pair of GPUs, in direct links */
    GT_AWARE_EXACT_SHARE = 4, /* one part of so many: a quarter */
    GT_AWARE_PART_MAX = 2,    /* no part is larger */
    GT_AWARE_EXACT_BONUS = 2,
    GT_AWARE_STRANDED = 4, /* weight of the stranded part, in loss parts, and its steepness */
};

#define GT_AWARE_DEFAULT ((struct gt_aware_weights){.weight = 1, .score_weight = 1, .loss_weight = 0.5})

/* Sets the weights of the cluster; a new one has GT_AWARE_DEFAULT. -EINVAL for NaN, infinite or negative
 * weights. */
int gt_score_set_weights(struct gt_cluster *cluster, const struct gt_aware_weights *weights,
                         struct gt_err **err);

/* Writes ret[id], the value of every node id below gt_cluster_nodes(); NAN where k GPUs are not available.
 * Returns the number of feasible nodes. */
uint32_t gt_score_all(struct gt_cluster *cluster, unsigned k, double *ret);

/* The same for `count` ids, ret[i] for ids[i]; NAN for GT_NONE, too. */
uint32_t gt_score_ids(struct gt_cluster *cluster, unsigned k, const uint32_t *ids, uint32_t count,
                      double *ret);

/* The value as a pod uses slow GPUs: where enough of the GPUs `left` are not slow, that of these; else below
 * all such values, NAN for GT_SLOW_NEVER. */
double gt_score_slow(struct gt_cluster *cluster, uint32_t node, uint64_t left, struct gt_numa_pod pod,
                     enum gt_slow_use use, double value);

/* The stranded part, and `value` changed by it; NAN stays NAN. */
double gt_score_stranded_part(struct gt_mix *mix, const struct gt_mix_amounts *left,
                              const struct gt_mix_amounts *amounts);
double gt_score_strand(const struct gt_cluster *cluster, struct gt_mix *mix,
                       const struct gt_mix_amounts *left, const struct gt_mix_amounts *amounts, double value);

/* The index of the best node, by values and the order of equal ones; GT_NONE where all values are NAN. An id
 * may be GT_NONE: a node without GPUs. */
uint32_t gt_score_first(const struct gt_cluster *cluster, const double *values, const uint32_t *ids,
                        uint32_t count);

/* Values lie between `least` and `most`; those of exact fits are at least `exact`, others are below. With
 * score_weight 0 there is no exact fit, and `exact` is INFINITY. */
struct gt_aware_range {
    double least, exact, most;
};
struct gt_aware_range gt_score_range(const struct gt_aware_weights *weights);

/* The worth of a value: for exact fits it rises linearly from 0.7 to 1 between `exact` and `most`; for others
 * from 0 to 0.7 between `least` and `exact`. */
double gt_score_worth(const struct gt_aware_weights *weights, double value);

/* Scores for kube-scheduler, 0 to 10. Only the best node, with ties broken as by gt_score_first(), gets 10;
 * where that is one without GPUs, all of these, so that kube-scheduler spreads pods over them as ever. The
 * others get 0 to 9: floor(9 x worth). 0 where the value is NAN. */
void gt_score_kube_scheduler(const struct gt_cluster *cluster, const struct gt_aware_weights *weights,
                             const double *values, const uint32_t *ids, uint32_t count, uint8_t *ret);

/* The parts of one node's value, for explanations; false where k GPUs are not available. */
struct gt_score_parts {
    double score_part, loss_part, value;
    bool exact; /* an exact fit, which comes first */
    struct gt_choice choice;
};
bool gt_score_one(struct gt_cluster *cluster, uint32_t node, unsigned k, struct gt_score_parts *ret);

/* The same as if only these of its GPUs were available: for a scheduler that has allocated others already. */
bool gt_score_left(struct gt_cluster *cluster, uint32_t node, uint64_t left, struct gt_numa_pod pod,
                   struct gt_score_parts *ret);
