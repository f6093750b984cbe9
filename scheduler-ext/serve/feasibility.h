/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_FEASIBILITY_H
#define GPUTOPO_SERVE_FEASIBILITY_H

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/score.h"
#include "scheduler-ext/placement/controller.h"

/*
 * What the extenders say of nodes for one pod; the same for every scheduler. No I/O.
 *
 * Whether a node has GPUs enough, is healthy and tolerated is the scheduler's own business, and it knows
 * better and sooner. Three things are ours: a planned pod goes to its planned node and to no other, GPUs that
 * are promised to planned pods are kept from everybody else, and so are nodes that are kept for a large job
 * that has waited for long. A node without a NodeGPUTopology is
 * unknown: it passes, and is worth least.
 */
enum { GT_FEASIBILITY_REASON_MAX = 192 };

enum gt_feasibility {
    GT_FEASIBLE,
    GT_PLANNED_ELSEWHERE, /* the pod is planned for another node */
    GT_GPUS_RESERVED,     /* what is free there is promised to others */
    GT_NODE_KEPT,         /* the node is kept for a job that waits */
};

struct gt_extender_pod {
    const char *namespace_, *name, *uid;
    unsigned gpus;
    /* gt_extender_pod_find(): */
    const struct gt_cache_pod *known; /* NULL: the cache has not seen it */
    uint32_t planned;                 /* node of its plan, where it has one that holds; GT_NONE */
};

/* Finds the pod in the cache, for what is asked below. */
void gt_extender_pod_find(const struct gt_cache *cache, struct gt_extender_pod *pod);

/* One node, by id (GT_NONE: unknown). `placement` NULL: no nodes are kept. */
enum gt_feasibility gt_node_feasibility(struct gt_cache *cache, const struct gt_placement *placement,
                                        const struct gt_extender_pod *pod, uint32_t node);

/* Appends one sentence on a feasibility other than GT_FEASIBLE. */
void gt_feasibility_reason(struct gt_cache *cache, const struct gt_placement *placement,
                           const struct gt_extender_pod *pod, uint32_t node, enum gt_feasibility feasibility,
                           struct gt_buf *to);

/*
 * The values of nodes, in the order of the names: what gpu-aware says (score.h), for a planned pod +INFINITY
 * on its node; NAN where the node is unknown, has no room, or is not the planned one. `left` NULL, or for
 * each node how many GPUs the scheduler has left by its own count (negative: not known), which is less than
 * we know of when it has placed pods a moment ago. `ids` gets the node ids.
 */
void gt_node_values(struct gt_cache *cache, const struct gt_extender_pod *pod, const char *const *names,
                    const int32_t *left, uint32_t count, double *ret_values, uint32_t *ret_ids);

/*
 * Scores for kube-scheduler, 0 to 10. The best node, ties broken as score.h says, has 10 and no other has;
 * the others have 0 to 9, by their value between the least and the greatest that is possible: floor(9 x
 * (value / weight + loss_weight) / (score_weight + loss_weight)). 0 where the value is NAN.
 */
void gt_kube_scheduler_scores(struct gt_cache *cache, const struct gt_aware_weights *weights,
                              const double *values, const uint32_t *ids, uint32_t count, uint8_t *ret);

/*
 * Scores for Volcano, which adds them to those of its plugins (0 to 100 times their weight):
 * 100 x weight x (value / weight + loss_weight) / (score_weight + loss_weight), less a ten-thousandth for
 * each GPU that the node has left over, so that ties are broken; 0 where the value is NAN, and 1,000,000 on
 * the planned node, which outweighs every plugin. `ret` may be `values`.
 */
void gt_volcano_scores(struct gt_cache *cache, const struct gt_aware_weights *weights, const double *values,
                       const uint32_t *ids, uint32_t count, double *ret);

#endif
