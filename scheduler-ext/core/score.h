/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_SCORE_H
#define GPUTOPO_CORE_SCORE_H

#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/node_set.h"

/*
 * gpu-aware: how well a node suits a pod of k GPUs.
 *
 *   score part = score(F,k) / best score(k) on an empty node of any class in the cluster (1 for k = 1, and
 *                where no class has links)
 *   loss part  = (S(F) - score(F,k)) / largest S(all GPUs) of an empty node of any class in the cluster (0
 *                where that is 0)
 *   value      = weight x (score_weight x score part - loss_weight x loss part)
 *
 * with F the node's available GPUs and score and S as in topology/model/loss.h; both parts lie in 0..1. The
 * loss part counts the bandwidth of F that the pod does not get: what is cut, loss(F,k), and what the GPUs
 * left over have among themselves. By the cut alone one GPU of a broken group beside a whole one would be
 * cheaper than one of a pair without more, and nodes would be begun that best fit leaves alone. It is divided
 * by one number for the whole cluster, so that it is bandwidth: divided by S(F) one GPU of eight free ones
 * would look cheaper than one of two, and whole nodes would be broken first. Equal values: the node whose
 * number of available GPUs is nearest k, then the fullest (larger part of its GPUs taken), then by name.
 */
struct gt_aware_weights {
    double weight;       /* > 0 */
    double score_weight; /* >= 0, default 1 */
    double loss_weight;  /* >= 0 */
};

#define GT_AWARE_DEFAULT ((struct gt_aware_weights){.weight = 1, .score_weight = 1, .loss_weight = 0.5})

/* -EINVAL for NaN, infinite or negative weights. Call before scoring when they change; a new cluster has the
 * default. */
int gt_score_set_weights(struct gt_cluster *cluster, const struct gt_aware_weights *weights,
                         struct gt_err **err);

/* The value of every node id below gt_cluster_nodes(), NAN where k GPUs are not available. Returns how many
 * are feasible. */
uint32_t gt_score_all(struct gt_cluster *cluster, unsigned k, double *ret);

/* The same for names; NAN for an unknown one too. */
uint32_t gt_score_names(struct gt_cluster *cluster, unsigned k, const char *const *names, uint32_t count,
                        double *ret);

/* The best node that is not in `excluded` (NULL: of all), GT_NONE where none is feasible. */
uint32_t gt_score_best(struct gt_cluster *cluster, const struct gt_node_set *excluded, unsigned k);

/* One node in parts, for explanations; false where k GPUs are not available. */
struct gt_score_parts {
    double score_part, loss_part, value;
    struct gt_choice choice;
};
bool gt_score_one(struct gt_cluster *cluster, uint32_t node, unsigned k, struct gt_score_parts *ret);

/* The same as if these of its available GPUs were all: for a scheduler that has given some away already. */
bool gt_score_left(struct gt_cluster *cluster, uint32_t node, uint64_t left, unsigned k,
                   struct gt_score_parts *ret);

#endif
