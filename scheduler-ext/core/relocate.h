/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_RELOCATE_H
#define GPUTOPO_CORE_RELOCATE_H

#include "scheduler-ext/core/advise.h"

/*
 * Which running pods to move, and where to, so that a pending job fits and they run again. Like gt_advise(),
 * which lets pods leave for nowhere; the cluster is not changed.
 *
 * All of them stop first, then they start again. To move a pod interrupts its job. So least is: the fewest
 * jobs, then the fewest pods, then the fewest GPUs of pods that move.
 */
struct gt_relocate_pod {
    uint32_t node;
    uint64_t mask; /* GPUs it uses */
    uint32_t job;  /* the caller's number; GT_NONE: a job of itself */
    bool movable;
    bool tied; /* to its supernode: other pods of its unit are there */
};

struct gt_relocation {
    bool possible; /* false: nothing was found */
    bool exact;    /* nothing better, or nothing at all, is to be found; false: the search was cut short */
    struct gt_relocate_move {
        uint32_t pod, node; /* number of the pod; where it goes */
    } * moves;              /* by number; NULL where there are none */
    uint32_t count, jobs, gpus;
};

/* `work` bounds the steps of the search (0: 30 million, a fraction of a second). The caller frees ret->moves.
 * A job that fits already needs no moves. */
int gt_relocate(const struct gt_cluster *cluster, const struct gt_relocate_pod *pods, uint32_t pod_count,
                const struct gt_advise_job *job, uint64_t work, struct gt_relocation *ret,
                struct gt_err **err);

#endif
