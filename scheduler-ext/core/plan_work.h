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
    enum gt_slow_use slow; /* ANY where nothing is slow */
    bool close;            /* brought together above the supernode (plan_close.h) */
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

/* ---- its units and runs, and the steps that place them ---- */

/* The number of pods of a run, which must lie in one supernode. */
static inline uint32_t gt_unit_run(const struct gt_plan_unit *unit)
{
    return unit->atom ? unit->atom : unit->pods;
}

/* Units of one kind have the same GPUs of a pod, pods, and pods of a run; they are placed together. */
static inline bool gt_unit_is_kind(const struct gt_plan_unit *a, const struct gt_plan_unit *b)
{
    return a->pods == b->pods && a->gpus == b->gpus && gt_unit_run(a) == gt_unit_run(b);
}

/* Whether every pod of the run has a node; whether one of its pods runs. */
bool gt_run_is_placed(const struct job *job, uint32_t first, uint32_t count);
bool gt_run_has_started(const struct job *job, uint32_t first, uint32_t count);

/* The supernode of a pod that has a node; GT_NONE where that node is gone. */
uint32_t gt_pod_super(const struct job *job, uint32_t pod);

/* Marks a supernode, and what lies above it, as one where the job has pods (plan_close.h). */
void gt_run_touch(struct job *job, uint32_t super);

/* Marks the tier-1 supernodes that have pods of the unit with the current stamp, and returns their number.
 * *ret_shared is the lowest supernode that contains all of them; GT_NONE: none. */
uint32_t gt_unit_mark_supernodes(const struct job *job, const struct gt_plan_unit *unit,
                                 uint32_t *ret_shared);

/* Whether a unit is of this kind and none of its pods is placed or runs. */
bool gt_unit_is_fresh(const struct job *job, const struct gt_plan_unit *unit,
                      const struct gt_plan_unit *kind);

/* Moves the entry at `at` down in a min-heap. */
static inline void gt_sift_down(uint64_t *heap, uint32_t size, uint32_t at)
{
    uint64_t moving = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < size; at = child) {
        child += child + 1 < size && heap[child + 1] < heap[child];
        if (moving <= heap[child])
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

/* Places the fresh units of a kind by the cluster's rule, each whole in one supernode, as many as have room.
 */
void gt_place_whole(struct job *job, const struct gt_plan_unit *kind, const struct room *room);

/* The same by GT_RULE_CHURN; there are `fresh` of them, 1 or more. */
void gt_place_churn(struct job *job, const struct gt_plan_unit *kind, const struct room *room,
                    uint32_t fresh);

/* Completes units of a kind with atoms and running pods within their supernodes where possible; those that
 * miss the fewest pods first. */
void gt_complete_started(struct job *job, const struct gt_plan_unit *kind, const struct room *room);

/* Places the remaining atoms of one unit in several supernodes. False: not all have room; nothing was placed.
 */
bool gt_place_split(struct job *job, struct gt_plan_unit *unit, const struct room *room);

/* ---- begin and end ---- */

struct job gt_plan_begin(struct gt_cluster *cluster, const struct gt_plan_request *request);
/* Begins a draft in which no pod of the job but the running ones has a place. */
void gt_plan_clear(struct job *job);
/* Gives all pods, which have nodes now, their GPUs, and describes the units. */
void gt_plan_finish(struct job *job);

/* Describes why the unit has no room in what is left of the cluster. */
void gt_plan_fail(struct job *job, uint32_t unit, struct gt_plan_failure *ret);
/* The same for a run with running pods: they lie in different supernodes (super GT_NONE), or `super` has too
 * little room. */
void gt_plan_fail_started(struct job *job, uint32_t unit, uint32_t first, uint32_t super,
                          struct gt_plan_failure *ret);
