/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_PLAN_INTERNAL_H
#define GPUTOPO_CORE_PLAN_INTERNAL_H

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
    bool any_running;

    struct room rooms[ROOMS];
    /* As in the cluster. */
    uint32_t nodes_with[GT_GPUS_MAX + 1], idle_with[GT_GPUS_MAX + 1];
};

/* ---- the draft ---- */

/* Begins anew: nothing is placed. */
void gt_draft_begin(struct job *job);
/* Counts the slots for pods of `gpus`, kept until the next call for the same place. NULL: no such pod fits
 * anywhere, or no memory to count. */
const struct room *gt_draft_room(struct job *job, unsigned place, unsigned gpus);
/* Takes GPUs of a node for a pod. */
void gt_draft_take(struct job *job, uint32_t node, uint64_t mask);

static inline uint64_t gt_draft_available(const struct job *job, uint32_t node)
{
    const struct gt_cluster *cluster = job->cluster;
    return cluster->draft_changed[node / 64] >> node % 64 & 1 ? cluster->draft_available[node]
                                                              : cluster->available[node];
}

/* How many those are. */
static inline unsigned gt_draft_count(const struct job *job, uint32_t node)
{
    return job->cluster->draft_count[node];
}

/* ---- the min-loss rule ---- */

enum { RULE_TABLE = 512 };

/*
 * Which sizes of the chain lose a place when q slots leave a supernode of f: the larger ones whose remainder
 * in f is smaller than q. Depends on f alone, so it is looked up.
 */
struct rule {
    uint32_t q;
    uint32_t levels[GT_CHAIN_MAX]; /* in slots */
    unsigned level_count;
    uint32_t known;           /* key[] is filled below this */
    uint32_t key[RULE_TABLE]; /* [f] */
};

enum { RULE_LOST_SHIFT = 24 }; /* a key: sizes that lose a place, then f; the least key is the best */
_Static_assert((uint64_t)GT_CLUSTER_NODES_MAX *GT_GPUS_MAX < 1 << RULE_LOST_SHIFT, "f fits into a key");

void gt_rule_make(const struct gt_cluster *cluster, uint32_t q, unsigned gpus, struct rule *ret);
uint32_t gt_rule_key(struct rule *rule, uint32_t f); /* f >= q */

/* ---- units and runs ---- */

/* Pods that must lie in one supernode. */
static inline uint32_t gt_unit_run(const struct gt_plan_unit *unit)
{
    return unit->atom ? unit->atom : unit->pods;
}

/* Units of one kind (GPUs of a pod, pods, pods of a run) are decided one after the other. */
static inline bool gt_unit_is_kind(const struct gt_plan_unit *a, const struct gt_plan_unit *b)
{
    return a->pods == b->pods && a->gpus == b->gpus && gt_unit_run(a) == gt_unit_run(b);
}

/* Whether every pod of the run has a node; whether one of it runs. */
bool gt_run_is_placed(const struct job *job, uint32_t first, uint32_t count);
bool gt_run_has_started(const struct job *job, uint32_t first, uint32_t count);

/* The supernode of a pod that has a node; GT_NONE where that node is gone. */
uint32_t gt_pod_super(const struct job *job, uint32_t pod);

/* Places the pods of a run that have no place yet into one supernode. False: it has too little room; what was
 * placed stays taken. */
bool gt_place_in_super(struct job *job, uint32_t super, unsigned gpus, uint32_t first, uint32_t count);

/* The first of `count` pods and those after it, on one node that holds them. */
void gt_place_on_node(struct job *job, uint32_t node, unsigned gpus, struct gt_plan_pod *pods,
                      uint32_t count);

/* Whether a unit of a kind has neither places nor running pods. */
bool gt_unit_is_fresh(const struct job *job, const struct gt_plan_unit *unit,
                      const struct gt_plan_unit *kind);

/* Moves the entry at `at` down a heap with the least in front. */
void gt_sift_down(uint64_t *heap, uint32_t size, uint32_t at);

/* Places the fresh units of a kind, each whole in one supernode, as far as there is room, by the rule that
 * the cluster has. */
void gt_place_whole(struct job *job, const struct gt_plan_unit *kind, const struct room *room);

/* The same by GT_RULE_CHURN; there are `fresh` of them, 1 or more. */
void gt_place_churn(struct job *job, const struct gt_plan_unit *kind, const struct room *room,
                    uint32_t fresh);

/* Units of a kind with atoms and running pods: those that can stay whole do, the smallest rests first. */
void gt_complete_started(struct job *job, const struct gt_plan_unit *kind, const struct room *room);

/* The atoms of one unit that have no place, over several supernodes. False: not all found one, nothing was
 * placed. */
bool gt_place_split(struct job *job, struct gt_plan_unit *unit, const struct room *room);

/* ---- the end ---- */

/* Describes why the unit found no place in what is left of the cluster. */
void gt_plan_fail(struct job *job, uint32_t unit, struct gt_plan_failure *ret);
/* The same for a run with running pods: they lie apart (super GT_NONE), or `super` has too little room. */
void gt_plan_fail_started(struct job *job, uint32_t unit, uint32_t first, uint32_t super,
                          struct gt_plan_failure *ret);

#endif
