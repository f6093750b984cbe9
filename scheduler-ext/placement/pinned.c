/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/reconcile.h"

/*
 * A pod without its gate has its node for good. Where its plan is lost nothing is reserved there, but others
 * had better run elsewhere: the pod may run only when that node has room.
 */
void gt_placement_set_lost(struct pjob *pjob, bool lost)
{
    pjob->placement->lost_jobs += lost;
    pjob->placement->lost_jobs -= pjob->has_lost;
    pjob->has_lost = lost;
}

int gt_placement_pinned(const struct pjob *pjob, struct gt_node_set *to, struct gt_err **err)
{
    const struct pjob *other = pjob->placement->lost_jobs > pjob->has_lost ? pjob->placement->jobs : NULL;
    for (; other; other = other->next) {
        if (other == pjob || !other->has_lost)
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
