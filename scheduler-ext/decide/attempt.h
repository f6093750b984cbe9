/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_ATTEMPT_H
#define GPUTOPO_DECIDE_ATTEMPT_H

#include "scheduler-ext/decide/demands.h"
#include "scheduler-ext/decide/part.h"

/* One attempt to place a job: what gt_plan_job() is given. No I/O, no clock. */
struct gt_attempt {
    struct gt_plan_pod *pods; /* [member] */
    struct gt_node_set excluded;
    struct gt_demands demands;
    uint32_t unsuitable;     /* of those: the job's pods may not run there */
    uint32_t refused;        /* of the others: its scheduler refused them */
    uint32_t reserved_nodes; /* of the others: reserved for somebody else */
    uint32_t spares;         /* of the others: reserved for replacements */
    uint32_t reserved_gpus;  /* GPUs that are available there */
};

/* Leaves out the nodes that the job's pods may not use, that its scheduler refused, and those of `avoid` and
 * `leave` (NULL: none). gt_attempt_done() in any case. */
int gt_attempt_make(struct gt_cache *cache, const struct gt_job_view *view,
                    const struct gt_reservations *reservations, const struct gt_node_set *avoid,
                    const struct gt_node_set *leave, enum gt_cache_room room, struct gt_attempt *ret,
                    struct gt_err **err);
void gt_attempt_done(struct gt_attempt *attempt);
#define gt_auto_attempt __attribute__((cleanup(gt_attempt_done)))

/* Without limits and GPUs that become free. It borrows. */
struct gt_plan_request gt_attempt_request(const struct gt_job_view *view, const struct gt_attempt *attempt);

/* It is about `count` of the units that wait, from `first` on; returns their GPUs. Those that are left out
 * stand there as if they ran somewhere, and bind nothing. */
uint64_t gt_attempt_choose(struct gt_attempt *attempt, const struct gt_job_view *view,
                           const struct gt_waiting_units *part, uint32_t first, uint32_t count);

#endif
