/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "scheduler-ext/placement/reconcile.h"

/* Nodes to which other jobs' pods are pinned. */

/*
 * A pod without its gate is pinned to its node. Where its plan is lost nothing is reserved there, but others
 * should avoid the node, since the pod can only run when that node has room.
 */
void gt_placement_set_lost(struct pjob *pjob, bool lost)
{
    struct gt_placement *placement = pjob->placement;
    if (lost == pjob->has_lost)
        return;
    pjob->has_lost = lost;
    if (lost) {
        pjob->previous_lost = NULL;
        pjob->next_lost = placement->lost;
        placement->lost = pjob;
    } else if (pjob->previous_lost)
        pjob->previous_lost->next_lost = pjob->next_lost;
    else
        placement->lost = pjob->next_lost;
    if (pjob->next_lost)
        pjob->next_lost->previous_lost = lost ? pjob : pjob->previous_lost;
}

int gt_placement_pinned(const struct pjob *pjob, struct gt_node_set *to, struct gt_err **err)
{
    for (const struct pjob *other = pjob->placement->lost; other; other = other->next_lost) {
        if (other == pjob)
            continue;
        for (const struct gt_cache_pod *pod = other->job->pods; pod; pod = pod->next) {
            if (pod->state != GT_CACHE_WAITING || pod->deleting || pod->plan_node == GT_NONE)
                continue;
            int r = gt_node_set_add(to, pod->plan_node, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

void gt_placement_say_holder(const struct gt_placement *placement, char to[static PLACEMENT_HOLDER_SIZE])
{
    char until[GT_TIME_TEXT_SIZE];
    *to = '\0';
    if (!placement->holder)
        return;
    gt_time_text(placement->holder->reserved_until_s, until);
    snprintf(to, PLACEMENT_HOLDER_SIZE, "%s until %s", placement->holder->job->key, until);
}
