/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/core/plan_rules.h"
#include "scheduler-ext/decide/demands.h"
#include "scheduler-ext/decide/part.h"

/* The input of gt_plan_job() for one attempt to place a job. No I/O, no clock. */
struct gt_attempt {
    struct gt_plan_pod *pods; /* [member] */
    struct gt_node_set excluded;
    struct gt_node_set
        unusable; /* of the excluded ones, those where none of its pods may run, if they differ */
    struct gt_demands demands;
    struct gt_plan_failure last; /* of its last plan, where that failed */
    struct gt_plan_rules *rules; /* between its pods; NULL: none */
    struct gt_buf said;          /* what they are, for people: "; its pods ..." */
    uint32_t unsuitable;         /* of the excluded nodes: the job's pods may not run there */
    uint32_t by_people;          /* likewise, since people reserve them for others */
    uint32_t partly;             /* of the others: some of its pods may not run there */
    uint32_t refused;            /* of the others: its scheduler refused them */
    uint32_t reserved_nodes;     /* of the others: reserved for another job */
    uint32_t spares;             /* of the others: reserved for replacements */
    uint32_t reserved_gpus;      /* GPUs that are available there */
};

/* Makes an attempt. Excludes nodes that the job's pods may not use or that its scheduler refused, and those
 * of `avoid` and `leave` (NULL: none). Call gt_attempt_done() in any case. */
int gt_attempt_make(const struct gt_job_view *view, const struct gt_node_set *avoid,
                    const struct gt_node_set *leave, enum gt_cache_room room, struct gt_attempt *ret,
                    struct gt_err **err);
/* Adds the nodes where none of the job's pods may run, also those where nothing is placed now. */
int gt_attempt_unfit(const struct gt_job_view *view, struct gt_node_set *to, struct gt_err **err);
void gt_attempt_done(struct gt_attempt *attempt);
#define gt_auto_attempt __attribute__((cleanup(gt_attempt_done)))

/* A request without `limits` and `freed`; it borrows from view and attempt. */
struct gt_plan_request gt_attempt_request(const struct gt_job_view *view, const struct gt_attempt *attempt);

/* Restricts the attempt to `count` of the waiting units, from part->units[first] on; returns their GPUs. The
 * other waiting units count as running at an unknown place, so they restrict nothing. */
uint64_t gt_attempt_choose(struct gt_attempt *attempt, const struct gt_job_view *view,
                           const struct gt_waiting_units *part, uint32_t first, uint32_t count);
