/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "scheduler-ext/placement/reconcile.h"

/* How long places are reserved for missing pods of a job. */

uint64_t gt_reserve_missing_ms(const struct reconcile *reconcile)
{
    const struct gt_placement_options *options = &reconcile->placement->spec.options;
    return reconcile->owner && reconcile->owner->sequential ? options->reserve.coming_ms
                                                            : options->reserve.missing_ms;
}

uint64_t gt_reserve_missing_end(const struct reconcile *reconcile)
{
    return reconcile->pjob->lift.new_pod_ms + gt_reserve_missing_ms(reconcile);
}

static uint64_t newest_pod_s(const struct gt_cache_job *job)
{
    uint64_t newest = 0;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        newest = pod->created_s > newest ? pod->created_s : newest;
    return newest;
}

void gt_reserve_missing_adopt(struct reconcile *reconcile, const struct placement_known *known)
{
    struct pjob *pjob = reconcile->pjob;
    if (!reconcile->owner)
        return; /* nothing is reserved, and the wait for its owner object begins now */
    uint64_t span = gt_reserve_missing_ms(reconcile), end = gt_placement_time_of_text(known->promised_until);
    uint64_t newest = gt_placement_time_of_unix((int64_t)newest_pod_s(pjob->job));
    uint64_t last = end > span ? end - span : 0;
    last = newest > last ? newest : last;
    pjob->lift.new_pod_ms = last && last < reconcile->now ? last : reconcile->now;
}

/* Pods that were created later show that its controller can create them again. Both times are in whole
 * seconds: within the same second the failure counts as later. */
static bool fails(const struct reconcile *reconcile)
{
    const struct gt_owner *owner = reconcile->owner;
    return owner && owner->failed_s && owner->failed_s >= newest_pod_s(reconcile->pjob->job);
}

enum gt_none_come gt_reserve_missing_none_come(const struct reconcile *reconcile)
{
    return reconcile->owner && reconcile->owner->stopped ? GT_OWNER_STOPPED
           : fails(reconcile)                            ? GT_OWNER_FAILS
                                                         : GT_PODS_COME;
}

/* ---- reported texts ---- */

static const char *const names[] = {
    [GT_PODS_COME] = "PodsMissing", [GT_OWNER_STOPPED] = "OwnerStopped", [GT_OWNER_FAILS] = "FailedCreate"};

static void why(const struct reconcile *reconcile, enum gt_none_come cause, char *to, size_t size)
{
    switch (cause) {
    case GT_OWNER_STOPPED:
        snprintf(to, size, "its %s is suspended, has ended or is being deleted",
                 gt_owner_type(reconcile->kind)->kind);
        break;
    case GT_OWNER_FAILS:
        snprintf(to, size, "its %s cannot create more, as its Events say",
                 gt_owner_type(reconcile->kind)->kind);
        break;
    case GT_PODS_COME:
        snprintf(to, size, "none has come for %llu seconds",
                 (unsigned long long)(gt_reserve_missing_ms(reconcile) / 1000));
        break;
    }
}

/* Counts members whose pods may still be created, without a reservation. */
static uint32_t unreserved(const struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    uint32_t count = 0;
    if (reconcile->owner->spec.at_once)
        return 0; /* they are created when others have ended */
    for (uint32_t i = 0; view->states[GT_MEMBER_ABSENT] && i < view->count; i++)
        count +=
            view->members[i].state == GT_MEMBER_ABSENT && !gt_job_view_has_ended(view, reconcile->owner, i);
    return count;
}

void gt_reserve_missing_report(struct reconcile *reconcile)
{
    enum gt_none_come cause = gt_reserve_missing_none_come(reconcile);
    const struct gt_job_view *view = reconcile->view;
    uint64_t end = gt_reserve_missing_end(reconcile);
    uint32_t missing = reconcile->owner ? unreserved(reconcile) : 0;
    bool may_come = cause == GT_PODS_COME && reconcile->now < end;
    if (missing && may_come)
        gt_placement_due(reconcile->pjob, end);
    if (!missing || (may_come && !reconcile->pjob->move.yielded)) {
        gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_PLACED, "", "");
        return;
    }
    char text[256], because[128];
    why(reconcile, cause, because, sizeof(because));
    if (may_come)
        snprintf(because, sizeof(because), "they were given to a job of another namespace");
    snprintf(text, sizeof(text), "%u of its %u pods are there; no places are reserved for %u others: %s",
             view->count - view->missing, view->count, missing, because);
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_PLACED, names[cause], text);
}

bool gt_reserve_missing_waits(struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    enum gt_none_come cause = gt_reserve_missing_none_come(reconcile);
    uint64_t end = gt_reserve_missing_end(reconcile);
    if (cause == GT_PODS_COME ||
        (cause == GT_OWNER_FAILS && (!view->missing || gt_job_view_has_begun(view) || reconcile->now >= end)))
        return false;
    char text[256], because[128];
    why(reconcile, cause, because, sizeof(because));
    snprintf(text, sizeof(text), "%u of its %u pods are there: %s", view->count - view->missing, view->count,
             because);
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_GATHERS, names[cause], text);
    if (cause == GT_OWNER_FAILS)
        gt_placement_due(reconcile->pjob, end);
    return true;
}
