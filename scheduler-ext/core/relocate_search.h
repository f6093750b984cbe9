/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/relocate.h"

/* What the search for moves (relocate.c) and the planner's places for what it has found (relocate_plan.c)
 * share. */

struct move_item { /* a pod or a unit */
    uint32_t first, pods;
    uint32_t super, node, job; /* node: GT_NONE for a unit; job: counted from 0 */
    unsigned need;             /* GPUs of each pod */
    unsigned gain;             /* GPUs that become available */
    uint64_t cost;
};

struct relocate_super {
    uint32_t first, end;  /* its items */
    uint32_t slots;       /* with the items of earlier supernodes chosen */
    uint64_t least_slot;  /* at least so much costs one more slot */
    uint64_t least_run;   /* likewise one more run */
    uint64_t cost_before; /* of the items of earlier supernodes */
};

struct mover {
    struct gt_cluster *cluster;
    const struct gt_running_pod *pods;
    const struct gt_relocate_spec *spec;
    const struct gt_advise_job *job;
    struct gt_err **err;
    uint64_t work;
    bool exhausted;
    bool thorough; /* also sets of which some bring no run by themselves */
    bool judged;   /* kubelets refuse pods that are spread over NUMA nodes: it matters which GPUs are free */

    uint32_t node_count, super_count;
    uint64_t *available; /* [node] GPUs for the job */
    uint64_t *room;      /* [node] for pods that move: what is available now and not given to one */
    uint64_t *alone;     /* [node] that chosen single pods free there */
    uint32_t *super;     /* [node] */
    uint32_t *order;     /* nodes, by supernode */
    uint32_t *slots;     /* [supernode] */
    uint32_t *domains;   /* [supernode] the highest one above it that may hold a unit of runs */
    uint32_t *fitting;   /* [supernode] the runs that fit, where it is such a domain */
    uint64_t runs, free; /* that fit, of whole units; GPUs available */

    uint32_t *members; /* pods, by item */
    uint64_t *gains;   /* GPUs of each that the job can use once it has left */
    struct move_item *items;
    uint32_t item_count;
    struct relocate_super *supers; /* [supernode] */
    uint32_t *super_order;         /* those with items */
    uint32_t ordered;
    uint32_t *job_items; /* [job] how many are chosen */

    const struct move_item **chosen; /* that are to move */
    uint32_t chosen_count, chosen_pods, chosen_jobs;
    uint64_t cost;
    const struct move_item **placed; /* the chosen ones, large ones first */
    uint32_t *places;                /* where their pods go, in that order */

    const struct move_item **best; /* likewise */
    uint32_t *best_places;
    uint32_t best_count, best_pods, best_jobs; /* best_count 0: none is found */
    uint64_t best_cost;
};

/* How many runs of the job lie together. */
static inline uint32_t relocate_unit_runs(const struct mover *mover)
{
    return mover->job->unit ? mover->job->unit : 1;
}

static inline bool relocate_may_go(const struct mover *mover, uint32_t pod, uint32_t node)
{
    return !mover->spec->may_go || mover->spec->may_go(mover->spec->arg, pod, node);
}

/* Plans the moves of the best set, and the job. *ret is not possible if kubelets refuse some of that. */
int gt_relocate_plan(struct mover *mover, struct gt_relocation *ret);
