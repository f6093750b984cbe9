/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_NODE_VALUES_H
#define GPUTOPO_DECIDE_NODE_VALUES_H

#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/score.h"

/* What nodes are worth to a pod, in the numbers that each scheduler expects. No I/O. */

/* GPUs that are reserved for no job, also on a node that no plan would use: a scheduler may. `remote`: of
 * others that are reserved, as another replica reports. */
uint64_t gt_node_unpromised(const struct gt_cluster_node *node, uint64_t remote);
/* Whether what is free would do for a pod of so many GPUs, if it were not reserved for others. */
bool gt_node_gpus_are_reserved(const struct gt_cluster_node *node, uint64_t remote, unsigned gpus);

/*
 * The values of nodes, in the order of the names: what gpu-aware says (score.h) for a pod that asks for so
 * much; where it has a plan (`planned` is not GT_NONE) +INFINITY on its node. NAN where the node is unknown,
 * has no room, or is not the planned one. A pod that asks for CPU and memory alone is worth something
 * everywhere. `left` NULL, or for each node how many GPUs the scheduler has left by its
 * own count (negative: not known), which is less than we know of when it has placed pods a moment ago. `ids`
 * gets the node ids.
 */
void gt_node_values(struct gt_cache *cache, const struct gt_mix_amounts *pod, uint32_t planned,
                    const char *const *names, const int32_t *left, uint32_t count, double *ret_values,
                    uint32_t *ret_ids);

/* The value of one node from that of score.h: what is left there of CPU and memory counts, too. */
double gt_node_value(struct gt_cache *cache, const struct gt_mix_amounts *pod, uint32_t id, double value);

/*
 * What a value is worth to a scheduler lies between 0 and 1: for exact fits (score.h) from 0.7 on, for
 * others up to 0.7, by the value between the least and the greatest that is possible.
 *
 * Scores for kube-scheduler, 0 to 10. The best node, ties broken as score.h says, has 10 and no other has;
 * the others have 0 to 9: floor(9 x worth). 0 where the value is NAN.
 */
void gt_kube_scheduler_scores(struct gt_cache *cache, const struct gt_aware_weights *weights,
                              const double *values, const uint32_t *ids, uint32_t count, uint8_t *ret);

/*
 * Scores for Volcano, which adds them to those of its plugins (0 to 100 times their weight):
 * 100 x weight x worth, less a ten-thousandth for each GPU that the node has available, so that ties are
 * broken; 0 where the value is NAN, and 1,000,000 on the planned node, which outweighs every plugin. `ret`
 * may be `values`.
 */
void gt_volcano_scores(struct gt_cache *cache, const struct gt_aware_weights *weights, const double *values,
                       const uint32_t *ids, uint32_t count, double *ret);

#endif
