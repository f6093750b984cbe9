/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/* Gated pods of jobs that are not planned: without a group size their gates are removed. */

/* Before its gate is removed, its condition must not say any more that it is held; false: not yet. */
static bool ends_condition(struct pjob *pjob, struct record *record)
{
    const struct gt_condition_text condition = {.reason = pjob->report.reason, .message = pjob->report.text};
    if (!record->object.condition || record->object.condition == gt_condition_digest(&condition))
        return true;
    gt_write_condition(pjob->placement, pjob, record, &condition, true, NULL);
    return false;
}

void gt_reconcile_let_go(struct reconcile *reconcile, const struct gt_cache_pod *first_gated)
{
    struct pjob *pjob = reconcile->pjob;
    const char *warning = reconcile->view->job->units.warning;
    gt_placement_set_state(pjob, GT_PLACEMENT_NONE, "NoGroup",
                           warning ? warning : "no gpu-group-size: there is nothing to plan");
    if (pjob->report.digest != 1)
        gt_placement_event(pjob, first_gated, warning != NULL, "NoGroup", "Place", pjob->report.text);
    pjob->report.digest = 1;
    for (const struct gt_cache_pod *pod = pjob->job->pods; pod; pod = pod->next) {
        struct record *record = pod->state == GT_CACHE_GATED && !pod->deleting
                                    ? gt_record_writable(reconcile->pjob, pod, reconcile->now)
                                    : NULL;
        if (record && !record->lifted && ends_condition(pjob, record))
            gt_write_lift(pjob->placement, pjob, record, NULL);
    }
}
