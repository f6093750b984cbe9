/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_DECIDE_INTERNAL_H
#define GPUTOPO_PLACEMENT_DECIDE_INTERNAL_H

#include "scheduler-ext/placement/decide.h"

/* One attempt: what gt_plan_job() is given, and the nodes that are barred meanwhile. */
struct attempt {
    struct gt_plan_pod *pods;
    uint32_t *barred;
    uint32_t barred_count;
    uint32_t unsuitable; /* of the barred ones: the job's pods may not run there */
    uint32_t refused;    /* of the others: its scheduler refused them */
};

void gt_attempt_done(struct attempt *attempt);
#define auto_attempt __attribute__((cleanup(gt_attempt_done)))

/* Whether a member is to be placed now. */
static inline bool gt_is_to_place(const struct gt_job_view_member *member)
{
    return member->state == GT_MEMBER_TO_PLACE || member->state == GT_MEMBER_TO_RESERVE;
}

int gt_attempt_make(struct gt_cache *cache, const struct gt_job_view *view,
                    const struct gt_reservations *reservations, struct attempt *ret, struct gt_err **err);
/* Bars the nodes that the job's pods may not use, that its scheduler refused, and those of `avoid`; undone by
 * gt_attempt_open(). */
int gt_attempt_bar(struct gt_cache *cache, const struct gt_job_view *view, const struct gt_node_set *avoid,
                   struct attempt *attempt, struct gt_err **err);
void gt_attempt_open(struct gt_cache *cache, struct attempt *attempt);

#endif
