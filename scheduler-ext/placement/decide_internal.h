/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_DECIDE_INTERNAL_H
#define GPUTOPO_PLACEMENT_DECIDE_INTERNAL_H

#include "scheduler-ext/placement/decide.h"

/* One attempt: what gt_plan_job() is given. */
struct attempt {
    struct gt_plan_pod *pods;
    struct gt_node_set excluded;
    uint32_t unsuitable; /* of those: the job's pods may not run there */
    uint32_t refused;    /* of the others: its scheduler refused them */
    uint32_t kept;       /* of the others: kept for somebody else */
};

void gt_attempt_done(struct attempt *attempt);
#define auto_attempt __attribute__((cleanup(gt_attempt_done)))

/* Whether a member is to be placed now. */
static inline bool gt_is_to_place(const struct gt_job_view_member *member)
{
    return member->state == GT_MEMBER_TO_PLACE || member->state == GT_MEMBER_TO_RESERVE;
}

/* Leaves out the nodes that the job's pods may not use, that its scheduler refused, and those of `avoid`
 * (NULL: none). gt_attempt_done() in any case. */
int gt_attempt_make(struct gt_cache *cache, const struct gt_job_view *view,
                    const struct gt_reservations *reservations, const struct gt_node_set *avoid,
                    struct attempt *ret, struct gt_err **err);
struct gt_plan_request gt_attempt_request(const struct gt_job_view *view, const struct attempt *attempt);

#endif
