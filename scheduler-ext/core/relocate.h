/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/advise.h"

/*
 * Which running pods to move, and where to, so that a pending job fits and the moved pods run again.
 * (gt_advise() only removes pods.) The cluster is not changed.
 *
 * A pod without a unit moves by itself; a unit moves with all its pods, into one supernode of tier 1. Each
 * new place is room that is available now, so that it can be promised before the first pod leaves and no move
 * waits for another. The best set costs least; of those it has the fewest jobs. A pod costs its GPUs, times
 * what its restart costs, and each move, of a unit or a single pod, as much as GT_RELOCATE_MOVE GPUs more.
 *
 * The search takes one supernode after the other, those first where one more run needs the fewest GPUs. First
 * it takes only sets that bring a further run in each supernode that they touch, which finds a good one soon;
 * then all others that could cost less: a pod may leave only because another one comes. Of a set that makes
 * room all places are tried, except equivalent ones. The places of the best set come from gt_plan_job(); if
 * the job would not fit beside those, they are limited to nodes that the search found.
 */

struct gt_relocation {
    bool possible; /* false: no solution was found */
    bool exact;    /* nothing else costs less, or there is no solution; false: the search was cut short, or
                      kubelets refuse pods that are spread over NUMA nodes */
    struct gt_relocate_move {
        uint32_t pod, node;           /* index of the pod; its new node */
        uint64_t mask;                /* its new GPUs */
        struct gt_promise_id promise; /* of them, between the calls of gt_relocate_promise() */
    } * moves;                        /* by index of the pod; NULL where there are none */
    uint32_t count, jobs, gpus;
    uint64_t cost;
};

enum {
    GT_RELOCATE_MOVE = 4, /* there are only so many moves a day: few large ones */
    GT_RELOCATE_WORK = 30000000,
    GT_RELOCATE_WORK_BRIEF = 250000, /* some 10 ms, for who does nothing else meanwhile */
};

struct gt_relocate_spec {
    struct gt_advise_job job;
    const struct gt_node_set *job_avoids, *moves_avoid;           /* nodes that they do not use; NULL: none */
    bool (*may_go)(const void *arg, uint32_t pod, uint32_t node); /* NULL: every pod may go everywhere */
    const void *arg;
    uint64_t work; /* bounds the steps of the search; 0: GT_RELOCATE_WORK, less than a second */
    unsigned tier; /* for gt_relocate_within() */
};

/* The caller frees ret->moves. A job that fits already needs no moves. */
int gt_relocate(struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
                const struct gt_relocate_spec *spec, struct gt_relocation *ret, struct gt_err **err);

/* The same, for a job that must lie in one supernode of the tier (0: anywhere), by a search in each. */
int gt_relocate_within(struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
                       const struct gt_relocate_spec *spec, struct gt_relocation *ret, struct gt_err **err);

/* Puts the pods on their new places, or (`undo`) ends that. False, and nothing is done: a place is taken. */
bool gt_relocate_promise(struct gt_cluster *cluster, const struct gt_relocation *relocation, bool undo);
