/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/* Writes the plans to gated pods and removes their gates, after the API server has acknowledged the plan. */

bool gt_reconcile_may_lift(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    bool come = pjob->units_placed ? !reconcile->view->states[GT_MEMBER_RESERVED]
                                   : gt_job_view_is_complete(reconcile->view);
    if (come || (reconcile->owner && reconcile->owner->sequential))
        return true;
    if (!pjob->lift.late_ms)
        pjob->lift.late_ms = reconcile->now + reconcile->placement->times.gang_ms;
    gt_placement_due(pjob, pjob->lift.late_ms);
    return reconcile->now >= pjob->lift.late_ms;
}

/* A unit waits for its members that are still to be placed, and for its pods that have to leave. */
static bool is_to_lift(const struct gt_job_view *view, uint32_t at)
{
    uint32_t unit = view->members[at].unit;
    return view->members[at].state == GT_MEMBER_PLANNED && !view->open[unit] &&
           !gt_job_view_unit_moves(view, unit);
}

static int lift_make_text(const struct reconcile *reconcile, uint32_t at, unsigned tier,
                          struct gt_plan_texts *ret)
{
    const struct gt_job *job = reconcile->view->job;
    const struct gt_job_view_member *member = &reconcile->view->members[at];
    const struct gt_plan_unit *unit =
        member->unit < job->units.count ? &job->units.units[member->unit] : NULL;
    const struct gt_planned_place place = {.place = member->pod->planned,
                                           .unit = member->unit,
                                           .unit_rank = unit ? at - unit->first : 0,
                                           .rank = job->members[at].rank,
                                           .tier = tier};
    return gt_plan_texts_make(reconcile->placement->spec.cache, member->pod, &place, ret, NULL);
}

/* Makes the texts of all plans of gated pods, by member. False where one fails: that pod is planned again in
 * the next reconcile. */
static bool lift_make_texts(struct reconcile *reconcile, struct gt_plan_texts *texts)
{
    uint32_t unit = GT_NONE;
    unsigned tier = 0;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        if (!is_to_lift(reconcile->view, i))
            continue;
        if (member->unit != unit) /* they come in the order of units */
            tier = gt_job_view_tier(reconcile->view, member->unit);
        unit = member->unit;
        if (lift_make_text(reconcile, i, tier, &texts[i]) < 0) {
            gt_cache_unplan_pod(reconcile->placement->spec.cache, member->pod);
            gt_placement_mark(reconcile->pjob);
            return false;
        }
    }
    return true;
}

/* Volcano tries only the nominated node, and all nodes without one; its scheduler name is not fixed.
 * kube-scheduler uses the node affinity, so for it the hint would be a useless request. */
static bool wants_hint(const char *scheduler)
{
    return scheduler && strcmp(scheduler, "default-scheduler") != 0;
}

/* Writes what must be in a pod's status before its gate is removed, since then the scheduler may be faster:
 * the hint, and the end of a condition that it waits. False while that is not written. */
static bool report_planned(struct reconcile *reconcile, const struct gt_cache_pod *pod, struct record *record,
                           const struct gt_plan_texts *texts)
{
    /* One that stands there keeps others off its node; it stays until the scheduler takes the pod. */
    const char *hint = wants_hint(pod->scheduler) || record->object.nominated ? texts->node : NULL;
    char message[GT_CLUSTER_NAME_MAX + 128];
    snprintf(message, sizeof(message), "rank %s of the job, in unit %s, on node %s", texts->rank, texts->unit,
             texts->node);
    const struct gt_condition_text condition = {.is_true = true, .reason = "Planned", .message = message};
    bool reported = !record->object.condition || record->object.condition == gt_condition_digest(&condition);
    if (reported && (!hint || record->object.nominated == gt_digest_keyed(hint)))
        return true;
    gt_write_condition(reconcile->placement, reconcile->pjob, record, &condition, true, hint);
    return false;
}

/* Only once, since whoever removes the hint has a reason. */
void gt_reconcile_hint(struct reconcile *reconcile)
{
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        const struct gt_cache_pod *pod = member->pod;
        struct gt_plan_texts texts;
        if (member->state != GT_MEMBER_LIFTED || !wants_hint(pod->scheduler))
            continue;
        struct record *record = gt_record_writable(reconcile->pjob, pod, reconcile->now);
        if (!record || record->hinted || record->object.nominated ||
            lift_make_text(reconcile, i, 0, &texts) < 0)
            continue;
        report_planned(reconcile, pod, record, &texts);
        gt_plan_texts_done(&texts);
    }
}

/* No gate is removed before all can be: those of a gang are removed together. */
static void lift_gates(struct reconcile *reconcile, const struct gt_plan_texts *texts)
{
    const struct gt_job_view *view = reconcile->view;
    uint32_t left = gt_kubelet_refusals_left(reconcile);
    bool ready = true;
    for (uint32_t i = 0; i < view->count; i++) {
        if (!is_to_lift(view, i))
            continue;
        const struct gt_cache_pod *pod = view->members[i].pod;
        struct record *record = gt_record_writable(reconcile->pjob, pod, reconcile->now);
        if (record ? !report_planned(reconcile, pod, record, &texts[i]) : !gt_job_view_has_begun(view))
            ready = false;
        if (!gt_claim_is_ready(reconcile, pod, record))
            ready = false;
    }
    for (uint32_t i = 0; ready && left && i < view->count; i++) {
        struct record *record =
            is_to_lift(view, i) ? gt_record_writable(reconcile->pjob, view->members[i].pod, reconcile->now)
                                : NULL;
        if (!record)
            continue;
        gt_write_lift(reconcile->placement, reconcile->pjob, record, &texts[i]);
        left--;
    }
}

void gt_reconcile_write_plans(struct reconcile *reconcile)
{
    gt_auto_free struct gt_plan_texts *texts = calloc((size_t)reconcile->view->count + 1, sizeof(*texts));
    if (!texts)
        gt_placement_due(reconcile->pjob, reconcile->now + reconcile->placement->times.retry_ms);
    else if (lift_make_texts(reconcile, texts))
        lift_gates(reconcile, texts);
    for (uint32_t i = 0; texts && i < reconcile->view->count; i++)
        gt_plan_texts_done(&texts[i]);
}
