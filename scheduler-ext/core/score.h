/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_SCORE_H
#define GPUTOPO_CORE_SCORE_H

#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/mix.h"
#include "scheduler-ext/core/node_set.h"

/*
 * gpu-aware: how well a node suits a pod of k GPUs. It depends on that node alone: no other node can turn the
 * order of two round.
 *
 *   score part = 2 b / (b + 64)
 *     b: the mean bandwidth of a pair of the pod's GPUs in GB/s, score(F,k) over k (k - 1) / 2 pairs; 64 for
 *     k = 1. It is 1 for direct links, and below 2
 *   loss part = 2 L / (L + 1)
 *     L: what the pod leaves free, a quarter of it bandwidth, S(F) - score(F,k), and the rest pairs of GPUs,
 *     each over what an idle node of 8 GPUs with direct links has: 28 pairs of 64 GB/s. It is below 2
 *   exact = 2 or 0
 *     2 where just k GPUs are free, score(F,k) is at least a quarter of what k GPUs of an idle node of its
 *     kind have, and loss_weight is above 0. So such a node comes before all others
 *   value = weight x (score_weight x (score part + exact) - loss_weight x loss part)
 *
 * with F the node's available GPUs and score and S as in topology/model/loss.h. Bandwidth left counts what is
 * cut, loss(F,k), and what the GPUs left over have among themselves: by the cut alone one GPU of a broken
 * group beside a whole one would be cheaper than one of a pair without more, and nodes would be begun that
 * best fit leaves alone. Pairs count the room: by bandwidth alone idle nodes without direct links would be
 * begun first.
 *
 * Where it is known what pods ask for besides GPUs (mix.h), gt_score_strand() goes on from that value:
 *
 *   stranded part = 4 s / (4 |s| + 1)
 *     s: the GPUs that the pod strands there. It lies between -1 and 1
 *   value = that value - weight x loss_weight x 4 x stranded part, and 8 x loss_weight x weight more for an
 *     exact fit, which so still comes before all others
 *
 * and for a pod without GPUs from 0. Equal values: the node whose number of available GPUs is nearest k, then
 * the fullest (larger part of its GPUs taken), then by name.
 */
struct gt_aware_weights {
    double weight;       /* > 0 */
    double score_weight; /* >= 0, default 1 */
    double loss_weight;  /* >= 0 */
};

enum {
    GT_AWARE_DIRECT = 64,     /* GB/s of a direct link */
    GT_AWARE_NODE = 8,        /* GPUs of a node to measure by */
    GT_AWARE_ROOM = 3,        /* a pair of GPUs, in direct links between them */
    GT_AWARE_EXACT_SHARE = 4, /* one part of so many: a quarter */
    GT_AWARE_PART_MAX = 2,    /* no part is larger */
    GT_AWARE_EXACT_BONUS = 2,
    GT_AWARE_STRANDED = 4, /* what the stranded part weighs, in loss parts; and how steep it is */
};

#define GT_AWARE_DEFAULT ((struct gt_aware_weights){.weight = 1, .score_weight = 1, .loss_weight = 0.5})

/* -EINVAL for NaN, infinite or negative weights. Call before scoring when they change; a new cluster has the
 * default. */
int gt_score_set_weights(struct gt_cluster *cluster, const struct gt_aware_weights *weights,
                         struct gt_err **err);

/* The value of every node id below gt_cluster_nodes(), NAN where k GPUs are not available. Returns how many
 * are feasible. */
uint32_t gt_score_all(struct gt_cluster *cluster, unsigned k, double *ret);

/* The same for some ids; NAN for GT_NONE too. */
uint32_t gt_score_ids(struct gt_cluster *cluster, unsigned k, const uint32_t *ids, uint32_t count,
                      double *ret);

/* The stranded part, and the value with it; NAN stays. */
double gt_score_stranded_part(struct gt_mix *mix, const struct gt_mix_amounts *left,
                              const struct gt_mix_amounts *pod);
double gt_score_strand(const struct gt_cluster *cluster, struct gt_mix *mix,
                       const struct gt_mix_amounts *left, const struct gt_mix_amounts *pod, double value);

/* Which of the nodes comes first, by their values and the rule for equal ones; GT_NONE where all values are
 * NAN. An id may be GT_NONE: a node without GPUs. */
uint32_t gt_score_first(const struct gt_cluster *cluster, const double *values, const uint32_t *ids,
                        uint32_t count);

/* Values lie between the two; an exact fit's at `exact` or above, others below. For score_weight 0 there is
 * no exact fit: `exact` is INFINITY. */
struct gt_aware_range {
    double least, exact, most;
};
struct gt_aware_range gt_score_range(const struct gt_aware_weights *weights);

/*
 * The best nodes for pods alike, one pod after the other, by values and the rule for equal ones, at the cost
 * of one walk for all of them. After a node was chosen its available GPUs may be fewer, and no other's may
 * have changed.
 */
struct gt_score_rank;
int gt_score_rank_new(struct gt_cluster *cluster, unsigned k, struct gt_score_rank **ret,
                      struct gt_err **err);
uint32_t gt_score_rank_best(struct gt_score_rank *rank); /* GT_NONE: none is feasible */
void gt_score_rank_free(struct gt_score_rank *rank);
GT_DEFINE_CLEANUP(struct gt_score_rank *, gt_score_rank_free)

/* One node in parts, for explanations; false where k GPUs are not available. */
struct gt_score_parts {
    double score_part, loss_part, value;
    bool exact; /* it fits exactly, and comes first */
    struct gt_choice choice;
};
bool gt_score_one(struct gt_cluster *cluster, uint32_t node, unsigned k, struct gt_score_parts *ret);

/* The same as if these of its available GPUs were all: for a scheduler that has given some away already. */
bool gt_score_left(struct gt_cluster *cluster, uint32_t node, uint64_t left, unsigned k,
                   struct gt_score_parts *ret);

#endif
