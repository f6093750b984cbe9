/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/decide/node_values.h"
#include "scheduler-ext/placement/controller.h"

/*
 * The feasibility of nodes for one pod, as the extenders report it to every scheduler. No I/O.
 *
 * Whether a node has enough GPUs, is healthy and is tolerated is checked by the scheduler itself, which knows
 * it earlier. Three checks are ours: a planned pod may run on its planned node only; GPUs that are reserved
 * for planned pods are refused to other pods; and so are nodes that are reserved for a large job that has
 * waited for long. A node without a NodeGPUTopology is unknown: it is feasible, with the lowest score.
 */
enum { GT_FEASIBILITY_REASON_MAX = 192 };

enum gt_feasibility {
    GT_FEASIBLE,
    GT_PLANNED_ELSEWHERE, /* the pod is planned for another node */
    GT_GPUS_RESERVED,     /* its free GPUs are reserved for others */
    GT_NODE_RESERVED,     /* the node is reserved for a waiting job */
};

struct gt_extender_pod {
    const char *namespace_, *name, *uid;
    /* From the cache if it knows the pod, else from the request, which does not show GPUs of claims: */
    unsigned gpus;
    struct gt_mix_amounts asked;
    /* Set by gt_extender_pod_find(): */
    const struct gt_cache_pod *known; /* NULL: the cache has not seen it */
    uint32_t planned;                 /* node of its valid plan; GT_NONE: none */
};

/* Finds the pod in the cache; to be called before the functions below. */
void gt_extender_pod_find(const struct gt_cache *cache, struct gt_extender_pod *pod);

/* One node, by id (GT_NONE: unknown). `placement` NULL: no nodes are reserved. */
enum gt_feasibility gt_node_feasibility(struct gt_cache *cache, const struct gt_placement *placement,
                                        const struct gt_extender_pod *pod, uint32_t node);

/* Appends one sentence on a feasibility other than GT_FEASIBLE. */
void gt_feasibility_reason(struct gt_cache *cache, const struct gt_placement *placement,
                           const struct gt_extender_pod *pod, uint32_t node, enum gt_feasibility feasibility,
                           struct gt_buf *to);
