/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/decide/decide.h"

/* Reserves new places for members that have to leave theirs. */

static bool has_reservation(const struct gt_job_view *view, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (view->members[i].state == GT_MEMBER_PLANNED || view->members[i].state == GT_MEMBER_RESERVED)
            return true;
    return false;
}

/* Treats leaving members as gone. Waiting members of other runs must not block this run. */
static void pretend(struct gt_job_view *view, uint32_t first, uint32_t end, const bool *leaves)
{
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        bool in_run = i >= first && i < end, leaving = in_run && (!leaves || leaves[i]);
        bool waits = member->state == GT_MEMBER_TO_PLACE || member->state == GT_MEMBER_TO_RESERVE;
        if (!in_run && waits)
            gt_job_view_set_state(view, i, GT_MEMBER_ABSENT);
        else if (leaving && (gt_job_view_stays(member) || (!leaves && member->state == GT_MEMBER_ABSENT)))
            gt_job_view_set_state(view, i, GT_MEMBER_TO_RESERVE);
    }
}

enum gt_decision gt_decide_move(struct gt_cache *cache, struct gt_job_view *view,
                                struct gt_reservations *reservations, uint32_t first, uint32_t end,
                                const bool *leaves, const struct gt_decide_spec *given,
                                struct gt_plan_failure *ret_failure, struct gt_buf *text)
{
    gt_auto_free enum gt_member_state *states = calloc((size_t)view->count + 1, sizeof(*states));
    struct gt_decide_spec spec = *given;
    spec.keep = true;
    if (!states) {
        gt_buf_puts(text, "out of memory");
        return GT_DECISION_FAILED;
    }
    if (!leaves && has_reservation(view, first, end)) {
        gt_buf_puts(text, "pods of the unit are being placed");
        return GT_DECISION_WAITS;
    }
    for (uint32_t i = 0; i < view->count; i++)
        states[i] = view->members[i].state;
    pretend(view, first, end, leaves);
    enum gt_decision decision = gt_decide(cache, view, reservations, &spec, ret_failure, text);
    for (uint32_t i = 0; i < view->count; i++) {
        bool leaving = decision == GT_DECISION_PLACED && i >= first && i < end &&
                       view->members[i].state == GT_MEMBER_TO_RESERVE;
        if (leaving)
            gt_reservations_set_moving(reservations, i);
        else
            gt_job_view_set_state(view, i, states[i]);
    }
    return decision == GT_DECISION_BOUND ? GT_DECISION_WAITS : decision;
}
