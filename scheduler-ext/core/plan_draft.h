/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_PLAN_DRAFT_H
#define GPUTOPO_CORE_PLAN_DRAFT_H

#include "scheduler-ext/core/internal.h"
#include "scheduler-ext/core/plan.h"

/* The slots of one pod size, all supernodes, as the plan in the making leaves them. */
struct room {
    unsigned gpus;         /* 0: not counted */
    uint32_t *slots;       /* [supernode], own nodes */
    const uint32_t *whole; /* own nodes, if all usable GPUs were available */
    uint32_t count;
};
enum {
    ROOM_OF_PODS,
    ROOM_OF_NODES,
    ROOMS
}; /* those of a unit, and where it is smaller than a node whole ones */

/*
 * A plan in the making. It does not change the cluster: what it leaves out, takes for free and has placed is
 * a draft beside it (plan_draft.c), so that the next unit sees what is left. Nothing is undone: the next plan
 * begins a new draft. Nothing is allocated: the scratch is the cluster's.
 */
struct job {
    struct gt_cluster *cluster; /* changed: the scratch, and which pod sizes are counted */
    struct gt_plan_unit *units;
    uint32_t unit_count;
    struct gt_plan_pod *pods;
    uint32_t pod_count;
    const struct gt_node_set *excluded;
    const uint64_t *freed;
    const struct gt_plan_limit *limits;
    uint32_t limit_count;
    bool any_running;
    bool any_open; /* a pod does not take all GPUs of its node */

    struct room rooms[ROOMS];
    /* As in the cluster. */
    uint32_t nodes_with[GT_GPUS_MAX + 1], idle_with[GT_GPUS_MAX + 1];
};

/* ---- the draft ---- */

/* Begins again: nothing is placed. */
void gt_draft_begin(struct job *job);
/* Counts the slots for pods of `gpus`, kept until the next call for the same place. NULL: no such pod fits
 * anywhere, or no memory to count. */
const struct room *gt_draft_room(struct job *job, unsigned place, unsigned gpus);
/* Takes so many GPUs of a node for pods; which ones is decided when all pods have a node. */
void gt_draft_take(struct job *job, uint32_t node, unsigned gpus);

/* What was available when the draft began. */
static inline uint64_t gt_draft_available(const struct job *job, uint32_t node)
{
    const struct gt_cluster *cluster = job->cluster;
    return cluster->draft_changed[node / 64] >> node % 64 & 1 ? cluster->draft_available[node]
                                                              : cluster->available[node];
}

/* How many are left of those, or may be taken of them. */
static inline unsigned gt_draft_count(const struct job *job, uint32_t node)
{
    return job->cluster->draft_count[node];
}

#endif
