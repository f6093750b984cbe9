/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "scheduler-ext/placement/reconcile.h"

/* Whether what a job wants promised may be promised to its namespace. */

static uint64_t wanted_gpus(const struct gt_job_view *view)
{
    uint64_t gpus = 0;
    for (uint32_t i = 0; view->states[GT_MEMBER_TO_RESERVE] && i < view->count; i++)
        if (view->members[i].state == GT_MEMBER_TO_RESERVE)
            gpus += view->job->units.units[view->members[i].unit].gpus;
    return gpus;
}

uint64_t gt_placement_promise_room(const struct pjob *pjob)
{
    uint64_t limit = pjob->placement->spec.options.reserve_gpus_per_namespace;
    uint64_t others = pjob->tenant->reserved - gt_reservations_gpus(&pjob->reservations);
    return limit > others ? limit - others : 0;
}

/* Of a sequential owner the next pod comes only when this one runs: its unit is reserved where nothing else
 * is. */
static bool is_first_unit(const struct reconcile *reconcile)
{
    const struct pjob *pjob = reconcile->pjob;
    return reconcile->owner && reconcile->owner->sequential &&
           pjob->tenant->reserved == gt_reservations_gpus(&pjob->reservations);
}

bool gt_placement_may_promise(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_job_view *view = reconcile->view;
    uint64_t wanted = wanted_gpus(view), has = pjob->tenant->reserved;
    uint64_t limit = reconcile->placement->spec.options.reserve_gpus_per_namespace;
    if (!wanted || wanted + has <= limit || is_first_unit(reconcile))
        return true;
    char text[256];
    snprintf(text, sizeof(text),
             "%u of its %u pods are there, and %llu GPUs would be reserved for the others; its namespace may "
             "have %llu GPUs reserved for pods that do not exist, and has %llu",
             view->count - view->missing, view->count, (unsigned long long)wanted, (unsigned long long)limit,
             (unsigned long long)has);
    gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "ReserveLimit", text);
    gt_placement_due(pjob, reconcile->now + reconcile->placement->times.retry_ms);
    return false;
}
