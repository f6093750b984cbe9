/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/advise.h"

/*
 * Which running pods to move, and where to, so that a pending job fits and the moved pods run again.
 * (gt_advise() only removes pods.) The cluster is not changed.
 *
 * All moved pods stop first, then they start again. Moving a pod interrupts its job, so the best set has the
 * fewest jobs, then the fewest pods, then the fewest GPUs of moved pods.
 */

struct gt_relocation {
    bool possible; /* false: no solution was found */
    bool exact;    /* the result is optimal, or there is no solution; false: the search was cut short */
    struct gt_relocate_move {
        uint32_t pod, node; /* index of the pod; its new node */
    } * moves;              /* by index of the pod; NULL where there are none */
    uint32_t count, jobs, gpus;
};

/* `work` bounds the steps of the search (0: 30 million, a fraction of a second). The caller frees ret->moves.
 * A job that fits already needs no moves. */
int gt_relocate(const struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
                const struct gt_advise_job *job, uint64_t work, struct gt_relocation *ret,
                struct gt_err **err);
