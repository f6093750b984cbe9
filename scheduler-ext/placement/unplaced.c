/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/*
 * Places a job again whose pods run without a plan, for jobs with the annotation on-unplaced: recreate. All
 * its pods are evicted, come back with the gate, and are planned together. Until the last one is gone nothing
 * of the job is planned: the places would be chosen around pods that leave. Nothing is evicted where the job
 * would not fit into what is free and what it has itself.
 */
enum { RECREATE_AGAIN_MS = 3600000, UNPLACED_TEXT_MAX = 512 };

/* A member that was created after `leave_before_s` was gated, and stays. */
static bool has_to_leave(const struct gt_job_view_member *member, uint64_t leave_before_s)
{
    return gt_job_view_stays(member) && member->pod->created_s <= leave_before_s;
}

struct unplaced_count {
    uint32_t unplaced, ownerless;
    uint32_t leaving; /* have to leave, by a round of evictions that has begun */
    uint64_t last_s;  /* when the last one was created */
};

static struct unplaced_count count_unplaced(const struct gt_job_view *view, uint64_t leave_before_s)
{
    struct unplaced_count ret = {0};
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        if (!gt_job_view_stays(member))
            continue;
        ret.unplaced += member->state == GT_MEMBER_PLACED && gt_cache_pod_is_unplaced(member->pod);
        ret.ownerless += !member->pod->meta.owner_controls;
        ret.leaving += has_to_leave(member, leave_before_s);
        ret.last_s = member->pod->created_s > ret.last_s ? member->pod->created_s : ret.last_s;
    }
    return ret;
}

/* Whether the whole job has room once its pods are gone. */
static bool fits_as_whole(struct reconcile *reconcile)
{
    struct gt_placement *placement = reconcile->placement;
    struct gt_job_view *view = reconcile->view;
    struct gt_cache *cache = placement->spec.cache;
    gt_auto_free uint64_t *freed =
        calloc((size_t)gt_cluster_nodes(gt_cache_cluster(cache)) + 1, sizeof(*freed));
    gt_auto_free enum gt_member_state *states = calloc((size_t)view->count + 1, sizeof(*states));
    gt_auto_free struct gt_plan_pod *places = NULL;
    const bool whole = view->whole;
    if (!freed || !states)
        return false;
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gt_cache_pod *pod = view->members[i].pod;
        states[i] = view->members[i].state;
        if (pod && pod->node != GT_NONE)
            freed[pod->node] |= gt_cache_pod_gpus(cache, pod);
        gt_job_view_set_state(view, i, GT_MEMBER_TO_RESERVE);
    }
    const struct gt_decide_victims spec = {.avoid = gt_placement_kept_nodes(reconcile->pjob), .freed = freed};
    view->whole = true;
    bool fits = gt_decide_victims(view, &spec, &places);
    view->whole = whole;
    for (uint32_t i = 0; i < view->count; i++)
        gt_job_view_set_state(view, i, states[i]);
    return fits;
}

/* The pods stay where they are. True: nothing of the job has a plan or waits for one, so it must not be
 * called placed. */
static bool stay(struct reconcile *reconcile, const struct unplaced_count *count, const char *why)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_job_view *view = reconcile->view;
    bool all = count->unplaced == view->count - view->missing;
    char text[UNPLACED_TEXT_MAX];
    snprintf(text, sizeof(text), "%u of its pods run without a plan, and stay where they are: %s",
             count->unplaced, why);
    uint64_t digest = gt_digest_keyed(why);
    if (view->job->sizes.recreate && pjob->report.said.unplaced != digest)
        gt_placement_event(pjob, pjob->job->pods, true, "Unplaced", "Recreate", text);
    pjob->report.said.unplaced = digest;
    if (all)
        gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "Unplaced", text);
    return all;
}

/* *ret_stays: nothing is to be evicted now, and this is what to return. */
static uint64_t begin_round(struct reconcile *reconcile, const struct unplaced_count *count, bool *ret_stays)
{
    struct pjob *pjob = reconcile->pjob;
    char text[UNPLACED_TEXT_MAX], braked[GT_BRAKE_WHY_SIZE];
    const char *why = NULL;
    if (!reconcile->view->job->sizes.recreate)
        why = "on-unplaced: recreate on the job would place it again";
    else if (count->ownerless)
        why = "some have no owner that would make them again";
    else if (!fits_as_whole(reconcile)) {
        why = "there is no room for the job as a whole, even with its own GPUs";
        gt_placement_due(pjob, reconcile->now + reconcile->placement->times.retry_ms);
    } else if (gt_placement_brake_keeps(reconcile, NULL, braked))
        why = braked;
    if (why) {
        *ret_stays = stay(reconcile, count, why);
        return 0;
    }
    snprintf(text, sizeof(text),
             "%u of its pods run without a plan: all its pods are evicted, to be placed together",
             count->unplaced);
    gt_placement_event(pjob, pjob->job->pods, false, "Recreate", "Recreate", text);
    gt_placement_brake_take(reconcile);
    gt_backoff_set_recreated(&reconcile->placement->backoffs, pjob->job->key, count->last_s,
                             reconcile->now + RECREATE_AGAIN_MS);
    return count->last_s;
}

static void evict_all(struct reconcile *reconcile, uint64_t leave_before_s)
{
    const struct gt_job_view *view = reconcile->view;
    uint32_t leaving = 0;
    char text[UNPLACED_TEXT_MAX];
    for (uint32_t i = 0; i < view->count; i++)
        if (has_to_leave(&view->members[i], leave_before_s)) {
            gt_evict_pod(reconcile, view->members[i].pod);
            leaving++;
        }
    const char *refusal = gt_evict_refusal(reconcile->pjob, NULL);
    snprintf(text, sizeof(text), "%u of its pods have still to leave, before all are placed together%s%.300s",
             leaving, refusal ? ": " : "", refusal ? refusal : "");
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_GATHERS, "Unplaced", text);
}

bool gt_unplaced_handle(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_job_view *view = reconcile->view;
    uint64_t leave_before_s =
        gt_backoff_recreated(&reconcile->placement->backoffs, pjob->job->key, reconcile->now);
    struct unplaced_count count = count_unplaced(view, leave_before_s);
    uint64_t quiet_ms = pjob->lift.new_pod_ms + reconcile->placement->times.settle_ms;
    bool stays = false;
    if (!count.unplaced && !count.leaving)
        return false;
    if (leave_before_s && !count.leaving)
        return stay(reconcile, &count,
                    "they were evicted within the last hour, and the webhook did not see them again");
    if (!leave_before_s && reconcile->now < quiet_ms) { /* its other pods may come */
        gt_placement_due(pjob, quiet_ms);
        if (view->states[GT_MEMBER_PLACED] != count.unplaced)
            return false;
        gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "PodsMissing",
                               "pods of it run without a plan, and others may come");
        return true;
    }
    if (!leave_before_s && !(leave_before_s = begin_round(reconcile, &count, &stays)))
        return stays;
    evict_all(reconcile, leave_before_s);
    return true;
}

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
    if (pjob->report.said.state != 1)
        gt_placement_event(pjob, first_gated, warning != NULL, "NoGroup", "Place", pjob->report.text);
    pjob->report.said.state = 1;
    for (const struct gt_cache_pod *pod = pjob->job->pods; pod; pod = pod->next) {
        struct record *record = pod->state == GT_CACHE_GATED && !pod->deleting
                                    ? gt_record_writable(reconcile->pjob, pod, reconcile->now)
                                    : NULL;
        if (record && !record->lifted && ends_condition(pjob, record))
            gt_write_lift(pjob->placement, pjob, record, NULL);
    }
}
