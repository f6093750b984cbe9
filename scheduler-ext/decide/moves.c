/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/moves.h"

#include <stdio.h>

enum { DOUBLINGS_MAX = 4 };

void gt_moves_text(const struct gt_job_view *view, uint32_t at, enum gt_cache_loss why, const char *because,
                   char to[static GT_MOVES_TEXT_MAX])
{
    static const char *const whys[] = {[GT_CACHE_LOSS_NONE] = "there is no room for it in its supernode",
                                       [GT_CACHE_LOSS_GONE] = "its node was deleted",
                                       [GT_CACHE_LOSS_TAINTED] = "its node has a taint NoExecute",
                                       [GT_CACHE_LOSS_NOT_READY] = "its node is not Ready",
                                       [GT_CACHE_LOSS_UNHEALTHY] = "a GPU of it is unhealthy or gone"};
    const struct gt_cache_pod *pod = view->members[at].pod;
    snprintf(to, GT_MOVES_TEXT_MAX, "unit %u, pod %s%s%s: %s", view->members[at].unit, pod->meta.name,
             pod->node_name ? " on node " : "", pod->node_name ? pod->node_name : "",
             because ? because : whys[why]);
}

bool gt_moves_leaving(const struct gt_job_view *view, uint32_t first, uint32_t end, const bool *leaves,
                      struct gt_node_set *to)
{
    gt_node_set_clear(to);
    for (uint32_t i = first; i < end; i++)
        if (leaves[i] && view->members[i].pod->node != GT_NONE &&
            gt_node_set_add(to, view->members[i].pod->node, NULL) < 0)
            return false;
    return true;
}

uint64_t gt_moves_begin(const struct gt_job_view *view, uint32_t first, uint32_t end, bool all)
{
    uint64_t leave_before_s = 1;
    for (const struct gt_cache_pod *pod = view->reservations->job->pods; pod; pod = pod->next)
        if (gt_job_view_counts(pod) && pod->created_s > leave_before_s)
            leave_before_s = pod->created_s;
    for (uint32_t i = 0; all && i < view->count; i++)
        if ((i < first || i >= end) && gt_job_view_stays(&view->members[i]) &&
            view->reservations->reservations[i].state == GT_RESERVATION_POD)
            gt_reservations_set_moving(view->reservations, i);
    return leave_before_s;
}

uint64_t gt_moves_damped_until(struct gt_moves *moves, enum gt_cache_loss why, uint64_t after_ms,
                               uint64_t now_ms)
{
    if (now_ms >= moves->last_ms + (after_ms << (DOUBLINGS_MAX + 1)))
        moves->count = 0;
    uint64_t until = moves->last_ms + (after_ms << moves->count);
    return moves->count && now_ms < until && why >= GT_CACHE_LOSS_NOT_READY ? until : 0;
}

void gt_moves_count(struct gt_moves *moves, uint64_t now_ms)
{
    moves->count += moves->count < DOUBLINGS_MAX;
    moves->last_ms = now_ms;
}
