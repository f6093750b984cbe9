/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/internal.h"
#include "scheduler-ext/core/plan.h"

/* The slots for one pod size in all supernodes, as left by the plan in progress. */
struct room {
    unsigned gpus;         /* 0: not counted */
    uint32_t *slots;       /* [supernode] on its own nodes */
    const uint32_t *whole; /* the same if all usable GPUs were available */
    uint32_t count;
};
enum {
    ROOM_OF_PODS,
    ROOM_OF_NODES,
    ROOMS
}; /* rooms for pods of a unit, and for whole nodes where the unit is smaller */

/*
 * A plan in progress. It does not change the cluster's state: excluded nodes, GPUs that count as free and
 * placed pods are kept in a draft beside it (plan_draft.c), from which the next unit sees what is left.
 * Nothing has to be undone, since the next plan begins a new draft, and nothing is allocated: the draft uses
 * scratch memory of the cluster.
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
    bool several;
    bool close; /* brought together above the supernode (plan_close.h) */
    bool any_running;
    /* Supernodes have pods of the job, or of the unit that is split: those whose mark is this. */
    bool any_touched, any_touched_unit;
    uint32_t touch, touch_unit;
    bool any_open; /* some pod does not take all GPUs of its node */

    struct room rooms[ROOMS];
    /* As in the cluster. */
    uint32_t nodes_with[GT_GPUS_MAX + 1], idle_with[GT_GPUS_MAX + 1];
};

/* ---- the draft ---- */

/* Begins a new draft, in which nothing is placed. */
void gt_draft_begin(struct job *job);
/* Counts the slots for pods of `gpus` GPUs; the result is valid until the next call with the same `place`
 * (ROOM_OF_...). NULL: no such pod fits anywhere, or no memory. */
const struct room *gt_draft_room(struct job *job, unsigned place, unsigned gpus);
/* Takes a number of GPUs of a node; which ones is decided when all pods have a node. */
void gt_draft_take(struct job *job, uint32_t node, unsigned gpus);

/* The GPUs that were available when the draft began. */
static inline uint64_t gt_draft_available(const struct job *job, uint32_t node)
{
    const struct gt_cluster *cluster = job->cluster;
    return cluster->draft_changed[node / 64] >> node % 64 & 1 ? cluster->draft_available[node]
                                                              : cluster->available[node];
}

/* How many of these are left and may be taken. */
static inline unsigned gt_draft_count(const struct job *job, uint32_t node)
{
    return job->cluster->draft_count[node];
}
