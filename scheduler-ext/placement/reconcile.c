/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/time_text.h"
#include "scheduler-ext/cache/peers.h"
#include "scheduler-ext/core/queue.h"
#include "scheduler-ext/decide/part.h"
#include "scheduler-ext/decide/slow.h"
#include "scheduler-ext/placement/objects.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/* Reconciles one job: takes its next step, based only on the cache, its reservations, and the last state of
 * its pods' objects. */

enum { REPORT_AFTER_MS = 800 }; /* people see within a second why a job does not go on */
enum { SLOW_TEXT_MAX = 1000 };
/* Pause after a reconcile: so many times the milliseconds that making the view has cost. None where it cost
 * less: meanwhile the place of a pod that has just left would be free for others. */
enum { RECONCILE_REST = 16 };

static void reconcile_remove_from_queue(struct pjob *pjob)
{
    if (pjob->wait.queued)
        gt_queue_remove(pjob->placement->queue, pjob);
    pjob->wait.queued = false;
    pjob->wait.since_ms = 0;
}

static void reconcile_find_owner(struct reconcile *reconcile)
{
    reconcile->kind = GT_JOB_KINDS;
    for (const struct gt_cache_pod *pod = reconcile->pjob->job->pods; pod && !reconcile->owner;
         pod = pod->next) {
        const char *name;
        if (pod->deleting)
            continue;
        reconcile->kind = gt_owner_of_pod(&pod->meta, &pod->identity, pod->owner_api_version, &name);
        reconcile->owner = gt_owners_find(reconcile->placement->spec.owners, reconcile->kind,
                                          pod->meta.namespace_, name, pod->identity.role);
        reconcile->expected = reconcile->kind < GT_JOB_KINDS &&
                              gt_owner_makes(reconcile->kind, pod->owner_api_version, pod->meta.owner_kind);
        return;
    }
}

/* When a job without a known owner object has waited long enough for it, and for pods. */
static uint64_t settled(const struct reconcile *reconcile)
{
    const struct gt_placement_times *times = &reconcile->placement->times;
    return reconcile->pjob->lift.new_pod_ms + (reconcile->expected ? times->owner_ms : times->settle_ms);
}

/* The API server has answered so; the watch may show it much later. */
static bool is_lifted(const void *arg, const struct gt_cache_pod *pod)
{
    const struct record *record = gt_record_of(((const struct reconcile *)arg)->placement, pod);
    return record && record->lifted;
}

/* A new leader continues from the state in the job's object. */
static void reconcile_adopt(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_placement *placement = reconcile->placement;
    struct placement_plan plan;
    if (pjob->lift.adopted || !gt_placement_object_plan(&placement->objects, pjob->object, &plan))
        return;
    const struct placement_known *content = pjob->object->content;
    pjob->lift.adopted = reconcile->owner || !reconcile->expected;
    gt_reserve_missing_adopt(reconcile, content);
    gt_node_loss_adopt(pjob, content);
    uint64_t until = gt_reserve_missing_end(reconcile);
    const struct placement_adopt how = {.until = until,
                                        .promised_until =
                                            *content->promised_until && until > reconcile->now ? until : 0,
                                        .moves = pjob->move.moving != PLACEMENT_STAYS,
                                        .all_move = pjob->move.moving == PLACEMENT_JOB_MOVES,
                                        .leave_before_s = pjob->move.leave_before_s,
                                        .moving_until = gt_node_loss_until(reconcile)};
    gt_placement_adopt(reconcile->view, reconcile->owner, &plan, &how);
}

int gt_reconcile_make(struct reconcile *reconcile, struct gt_err **err)
{
    const struct gt_placement_options *options = &reconcile->placement->spec.options;
    uint32_t reserved_nodes = gt_reservations_gpus(&reconcile->pjob->place.reservations);
    uint64_t backoff_ms = gt_backoff_job_until(&reconcile->placement->backoffs, reconcile->pjob->job->key);
    uint64_t wanted_until =
        backoff_ms > reconcile->now ? reconcile->now : reconcile->now + reconcile->placement->times.return_ms;
    const struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    reconcile_find_owner(reconcile);
    gt_backoff_nodes(&reconcile->placement->backoffs, cluster, reconcile->pjob->job->key, reconcile->now,
                     &reconcile->refused);
    const struct gt_job_view_spec spec = {
        .owner = reconcile->owner,
        .ranks = &reconcile->placement->jobs.ranks,
        .refused = &reconcile->refused,
        .spares = &reconcile->placement->nodes.spares,
        .is_lifted = is_lifted,
        .arg = reconcile,
        .now = reconcile->now,
        .wanted_until = wanted_until,
        .minimum = gt_reconcile_together(reconcile),
        .leave_before_s = reconcile->pjob->move.moving ? reconcile->pjob->move.leave_before_s : 0,
        .moving_until = gt_node_loss_until(reconcile),
        .none_come = gt_reserve_missing_none_come(reconcile) != GT_PODS_COME,
        .missing_until = gt_reserve_missing_end(reconcile),
        .ahead_gpus = options->reserve.gpus,
        .missing_gpus = gt_placement_missing_room(reconcile->pjob)};
    int r = gt_job_view_make(reconcile->placement->spec.cache, reconcile->pjob->job, &spec,
                             &reconcile->pjob->place.reservations, &reconcile->view, err);
    if (gt_reservations_gpus(&reconcile->pjob->place.reservations) < reserved_nodes)
        reconcile->placement->round.more_room = true;
    if (r < 0)
        return r;
    reconcile_adopt(reconcile);
    gt_placement_due(reconcile->pjob, gt_reservations_next_end(&reconcile->pjob->place.reservations));
    reconcile->pjob->place.wants = gt_reservations_wanted(&reconcile->pjob->place.reservations);
    gt_placement_count_kept(reconcile->pjob);
    gt_yield_count(reconcile);
    return r;
}

void gt_reconcile_done(struct reconcile *reconcile)
{
    if (reconcile->view)
        gt_job_view_free(reconcile->view);
    gt_node_set_done(&reconcile->refused);
    gt_node_set_done(&reconcile->pinned);
}

static const struct gt_cache_pod *first_gated(const struct gt_cache_job *job)
{
    const struct gt_cache_pod *pod = job->pods;
    while (pod && (pod->state != GT_CACHE_GATED || pod->deleting))
        pod = pod->next;
    return pod;
}

/* ---- before a plan ---- */

/* Other gates that must be removed first: the job's state names them. */
static bool other_gates(const struct reconcile *reconcile)
{
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        const struct record *record =
            member->state == GT_MEMBER_TO_PLACE ? gt_record_of(reconcile->placement, member->pod) : NULL;
        if (!record || (!record->object.others && !record->object.kueue_gate))
            continue;
        char text[400] = "other scheduling gates of its pods have to go first";
        if (record->object.kueue_gate)
            snprintf(text, sizeof(text), "Kueue has not let it in: pod %s has the gate %s",
                     member->pod->meta.name, record->object.kueue_gate);
        gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_GATHERS,
                               record->object.kueue_gate ? "NotAdmitted" : "OtherGates", text);
        return true;
    }
    return false;
}

/* For pods that have only their PodGroup in common, or say themselves how many they are, until the first gate
 * is removed. */
static bool lacks_members(struct reconcile *reconcile)
{
    const struct gt_cache_pod *pods = reconcile->pjob->job->pods;
    uint32_t least = pods && pods->identity.pods ? pods->identity.pods : gt_reconcile_minimum(reconcile);
    uint32_t there = 0;
    char text[160];
    if (!pods || (pods->identity.kind != GT_JOB_POD_GROUP && pods->identity.kind != GT_JOB_PODS))
        return false;
    for (const struct gt_cache_pod *pod = pods; pod; pod = pod->next) {
        there += gt_job_view_counts(pod);
        if (pod->state != GT_CACHE_GATED || pod->identity.pods != pods->identity.pods)
            return false;
    }
    if (there >= least)
        return false;
    snprintf(text, sizeof(text),
             pods->identity.pods ? "%u of the %u pods are there that its pods speak of"
                                 : "%u of its pods are there, its PodGroup needs %u",
             there, least);
    reconcile->pjob->wait.awaits_admission = !pods->identity.pods; /* it may change */
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_GATHERS, "PodsMissing", text);
    return true;
}

/* Whether the job can only be planned after more pods are created. In a running job, missing members have
 * ended, and new pods replace others. */
static bool lacks_pods(struct reconcile *reconcile)
{
    uint32_t missing = reconcile->view->missing;
    char text[160];
    if (lacks_members(reconcile))
        return true;
    if (!reconcile->owner || missing <= reconcile->owner->ended || gt_job_view_has_begun(reconcile->view))
        return false;
    if (reconcile->view->job->kind == GT_JOB_OWNED) {
        snprintf(text, sizeof(text), "%u of its %u pods are there; names give no rank, so all must be",
                 reconcile->view->count - missing, reconcile->view->count);
    } else {
        /* Pods are created in a burst; planned alone, the first one could get any place. */
        uint64_t until = reconcile->pjob->lift.new_pod_ms + reconcile->placement->times.settle_ms;
        if (!reconcile->owner->ended || reconcile->owner->ended_at || reconcile->now >= until)
            return false;
        snprintf(text, sizeof(text), "%u of its pods have ended, and nothing says which: more may come",
                 reconcile->owner->ended);
        gt_placement_due(reconcile->pjob, until);
    }
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_GATHERS, "PodsMissing", text);
    return true;
}

/* Whether enough of the job is known to plan it. */
bool gt_reconcile_is_ready(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    if (gt_placement_wait_refused(reconcile) || gt_kubelet_refusals_wait(reconcile) ||
        other_gates(reconcile) || lacks_pods(reconcile) ||
        (reconcile->view->grouped &&
         (gt_reserve_missing_waits(reconcile) || !gt_reconcile_is_admitted(reconcile))))
        return false;
    uint64_t backoff_ms = gt_backoff_job_until(&reconcile->placement->backoffs, pjob->job->key);
    if (backoff_ms > reconcile->now) {
        if (!gt_lost_plans_wait(reconcile, backoff_ms))
            gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "Evicted",
                                   "its pods were evicted for others, which are let in first");
        gt_placement_due(pjob, backoff_ms);
        return false;
    }
    const struct gt_cache_pod *pods = pjob->job->pods;
    bool is_whole = reconcile->view->job->kind == GT_JOB_POD || (pods && pods->identity.pods);
    if (!reconcile->owner && !is_whole && reconcile->now < settled(reconcile)) {
        gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "OwnerUnknown",
                               "the object that makes its pods is not known: more pods may come");
        gt_placement_due(pjob, settled(reconcile));
        return false;
    }
    return gt_placement_may_reserve(reconcile);
}

/* The shape of a job: jobs of one shape either all fit or all do not. Node constraints, refused nodes, or
 * places that are reserved for it make a difference. */
static uint64_t shape_of(const struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    uint64_t shape = GT_DIGEST_EMPTY;
    if (!view->whole || reconcile->refused.nodes || gt_reservations_gpus(view->reservations))
        return 0;
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gt_cache_pod *pod = view->members[i].pod;
        if ((gt_part_is_allowed(view) && view->job->members[i].needed) ||
            (pod && (gt_cache_pod_is_constrained(reconcile->placement->spec.cache, pod) ||
                     gt_cache_pod_has_peers(reconcile->placement->spec.cache, pod))))
            return 0;
        shape = gt_digest_number(shape, view->job->members[i].gpus.requests);
        if (pod) /* equal requests are shared, and aligned */
            shape = gt_digest_number(shape, (uintptr_t)gt_cache_pod_request(pod) + pod->preempts_never);
    }
    shape = gt_digest_number(shape, view->minimum);
    shape = gt_digest_number(shape, view->job->sizes.within);
    shape = gt_digest_number(shape, view->job->sizes.slow);
    if (reconcile->placement->jobs.reserving) /* what others have to give up depends on it */
        shape = gt_digest_number(shape, (uintptr_t)reconcile->pjob->tenant);
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        const uint64_t parts[] = {unit->pods, unit->gpus, unit->atom, unit->within};
        for (unsigned i = 0; i < GT_COUNT(parts); i++)
            shape = gt_digest_number(shape, parts[i]);
    }
    return shape ? shape : 1;
}

/* The GPUs of all members without a place. */
static uint64_t reconcile_gpus_of(const struct gt_job_view *view)
{
    uint64_t gpus = 0;
    for (uint32_t u = 0; u < view->job->units.count; u++)
        gpus += gt_part_gpus(view, u);
    return gpus;
}

/* For a new leader: takes over since when the job has waited, and whether nodes were reserved for it. */
static void adopt_wait(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct placement_known *content = pjob->object ? pjob->object->content : NULL;
    pjob->wait.since_ms = reconcile->now;
    pjob->wait.since_s = (int64_t)gt_placement_now_s();
    if (!pjob->lift.began_in_term && !pjob->lift.object_read) { /* the job waits since then, whoever led */
        int64_t recorded =
            gt_placement_recorded_since(reconcile->placement, pjob->job, content, GT_PLACEMENT_WAITS);
        pjob->wait.since_s = recorded && recorded < pjob->wait.since_s ? recorded : pjob->wait.since_s;
    }
    if (!pjob->wait.ended) /* a plan that was given back has ended no wait */
        pjob->wait.start_ms =
            (int64_t)reconcile->now - ((int64_t)gt_placement_now_s() - pjob->wait.since_s) * 1000;
    if (pjob->lift.began_in_term || pjob->lift.object_read || !content ||
        content->phase != GT_GPU_PLACEMENT_WAITING)
        return;
    uint64_t since = gt_placement_time_of_text(content->waiting_since);
    pjob->lift.object_read = true;
    pjob->place.reserved_until_ms = gt_placement_time_of_text(content->reserved_until);
    pjob->place.reserved_until_s = gt_time_of_text(content->reserved_until);
    if (since && since < pjob->wait.since_ms)
        pjob->wait.since_ms = since;
}

static void reconcile_enqueue(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_job_view *view = reconcile->view;
    struct gt_queue_entry entry = {.job = pjob,
                                   .share = &pjob->tenant->share,
                                   .gpus = view->whole ? reconcile_gpus_of(view) : 0,
                                   .grows = gt_part_grows(view) &&
                                            !(reconcile->owner && reconcile->owner->spec.at_once),
                                   .number = pjob->job->number,
                                   .shape = shape_of(reconcile)};
    entry.partial = !entry.grows && (view->states[GT_MEMBER_PLACED] || view->states[GT_MEMBER_LIFTED]);
    gt_placement_precedence(pjob->job, &entry.priority, &entry.created_s);
    for (const struct gt_cache_pod *pod = pjob->job->pods; pod && !view->whole; pod = pod->next)
        if (gt_job_view_counts(pod) && pod->plan != GT_CACHE_PLAN_ASSUMED && pod->node == GT_NONE)
            entry.gpus += pod->gpus;
    if (!pjob->wait.since_ms)
        adopt_wait(reconcile);
    entry.since_ms = pjob->wait.since_ms;
    entry.reserved_until_ms = pjob->place.reserved_until_ms;
    if (gt_queue_put(reconcile->placement->queue, &entry, NULL) < 0) {
        gt_placement_due(pjob, reconcile->now + reconcile->placement->times.retry_ms);
        return;
    }
    pjob->wait.queued = true;
    if (pjob->state != GT_PLACEMENT_WAITS)
        gt_placement_set_state(pjob, GT_PLACEMENT_WAITS, "NotTried", "it is not yet first in the queue");
    else if (gt_placement_renew_text(pjob) || pjob->report.pending)
        gt_placement_report(pjob, view, reconcile->owner, false);
}

/* ---- after a plan ---- */

/* An Event, once for each change. */
static void report_slow(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    gt_auto_buf struct gt_buf text = GT_BUF(SLOW_TEXT_MAX);
    uint64_t digest = gt_slow_job_text(pjob->placement->spec.cache, pjob->job, &text);
    if (digest && digest != pjob->report.slow_digest && text.data)
        gt_placement_event(pjob, pjob->job->pods, true, GT_REASON_SLOW_GPUS, "Place", text.data);
    pjob->report.slow_digest = digest;
}

static void bring_in(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    char text[128];
    report_slow(reconcile);
    reconcile_remove_from_queue(pjob);
    gt_reconcile_hint(reconcile);
    if (!gt_job_view_gated(reconcile->view)) {
        pjob->lift.late_ms = 0;
        pjob->lift.refusal_reported = false;
        if (reconcile->view->job->rest && !reconcile->lost) {
            /* What follows the whole units of a job that was made smaller. */
            gt_placement_set_state(pjob, GT_PLACEMENT_PLACED, "RuleBroken", reconcile->view->job->rest_text);
            gt_placement_report(pjob, reconcile->view, reconcile->owner, true);
        } else if (reconcile->view->states[GT_MEMBER_EARLY]) {
            snprintf(text, sizeof(text),
                     "%u of its pods wait for others of their units, which come when pods end",
                     reconcile->view->states[GT_MEMBER_EARLY]);
            gt_placement_set_state(pjob, GT_PLACEMENT_PLACED, "PodsMissing", text);
            gt_placement_report(pjob, reconcile->view, reconcile->owner, false);
        } else
            pjob->report.digest = 0;
        if (!reconcile->lost && !reconcile->view->states[GT_MEMBER_EARLY] && !reconcile->view->job->rest &&
            !gt_reconcile_awaits_scheduler(reconcile))
            gt_reserve_missing_report(reconcile);
        if (gt_placement_acknowledge(reconcile))
            gt_placement_publish(pjob, reconcile->view, reconcile->owner);
        return;
    }
    bool waits = gt_reserve_missing_waits(reconcile) || gt_kubelet_refusals_wait(reconcile);
    bool moves = reconcile->view->states[GT_MEMBER_MOVING]; /* then its state says so */
    bool offers =
        pjob->state == GT_PLACEMENT_GATHERS && pjob->lift.offers_end_ms > reconcile->now; /* likewise */
    if (!waits && !moves && !offers)
        gt_placement_set_state(pjob, GT_PLACEMENT_WRITES, "Planned", "its plan is being written");
    if (!gt_placement_acknowledge(reconcile))
        return;
    if (waits || moves)
        gt_placement_publish(pjob, reconcile->view, reconcile->owner);
    if (!waits && (moves || gt_reconcile_may_lift(reconcile)))
        gt_reconcile_write_plans(reconcile);
    else if (!waits)
        gt_placement_set_state(pjob, GT_PLACEMENT_WRITES, "PodsMissing",
                               "its gates are lifted when its other pods are there");
}

/* Units that may run while the others wait in the queue. */
static void bring_in_part(struct reconcile *reconcile)
{
    gt_reconcile_hint(reconcile);
    if (!gt_placement_acknowledge(reconcile) || gt_reserve_missing_waits(reconcile) ||
        gt_kubelet_refusals_wait(reconcile))
        return;
    if (!reconcile->view->states[GT_MEMBER_PLANNED])
        reconcile->pjob->lift.late_ms = 0;
    else if (gt_reconcile_may_lift(reconcile))
        gt_reconcile_write_plans(reconcile);
}

/* ---- jobs that are not planned ---- */

/* It is gated nevertheless: by a user, or because its owner was not known. */
static void reconcile_keep_unplanned(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_cache_pod *first = first_gated(pjob->job);
    reconcile_remove_from_queue(pjob);
    gt_reconcile_dequeue(pjob);
    gt_evict_begin(pjob);
    gt_unhealthy_evict(reconcile);
    gt_evict_end(pjob);
    if (!first)
        gt_placement_set_state(pjob, GT_PLACEMENT_NONE, "", "");
    else if (gt_reconcile_is_ready(reconcile))
        gt_reconcile_let_go(reconcile, first);
}

/* A running job was changed in this way. */
static void warn_of_rule(struct pjob *pjob, const char *text)
{
    uint64_t digest = gt_digest_keyed(text);
    if (pjob->report.digest != digest)
        gt_placement_event(pjob, pjob->job->pods, true, "RuleBroken", "Place", text);
    pjob->report.digest = digest;
}

static void reconcile_refuse(struct reconcile *reconcile, const char *text)
{
    struct pjob *pjob = reconcile->pjob;
    reconcile_remove_from_queue(pjob);
    gt_reconcile_dequeue(pjob);
    if (!first_gated(pjob->job)) {
        gt_placement_set_state(pjob, GT_PLACEMENT_NONE, "", "");
        if (reconcile->owner)
            warn_of_rule(pjob, text);
        return;
    }
    if (pjob->state != GT_PLACEMENT_REFUSED)
        pjob->placement->counters.refused++;
    gt_placement_set_state(pjob, GT_PLACEMENT_REFUSED, "RuleBroken", text);
    gt_placement_report(pjob, NULL, NULL, true);
}

/* A state that will end soon by itself is not written. */
static void report_if_it_lasts(struct reconcile *reconcile)
{
    uint64_t settle_ms = reconcile->placement->times.settle_ms;
    uint64_t when =
        reconcile->pjob->report.since_ms + (settle_ms < REPORT_AFTER_MS ? settle_ms : REPORT_AFTER_MS);
    if (reconcile->now >= when)
        gt_placement_report(reconcile->pjob, reconcile->view, reconcile->owner, false);
    else
        gt_placement_due(reconcile->pjob, when);
}

static void reconcile_job(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_job_view *view = reconcile->view;
    if (!view->grouped) {
        gt_placement_list(pjob, PJOBS_LEFT, false);
        reconcile_keep_unplanned(reconcile);
        return;
    }
    gt_reconcile_count_unbound(reconcile);
    gt_lost_plans_handle(reconcile);
    gt_claims_clear(reconcile);
    if (pjob->lift.writes)
        return;
    if (gt_placement_give_back(reconcile) || gt_yield_give_up(reconcile))
        return;
    if (!gt_node_loss_handle(reconcile))
        return;
    gt_claims_handle_refused(reconcile);
    gt_unhealthy_evict(reconcile);
    gt_preempt_evict(reconcile);
    bool leaves = gt_unplaced_handle(reconcile) || gt_lost_plans_replan(reconcile);
    gt_evict_end(pjob);
    if (leaves) {
        gt_placement_list(pjob, PJOBS_LEFT, false);
        reconcile_remove_from_queue(pjob);
        report_if_it_lasts(reconcile);
        return;
    }
    if (gt_decide_repair(view, true)) {
        if (!gt_placement_may_give_up(reconcile))
            return;
        gt_decide_repair(view, false);
    }
    gt_placement_list(pjob, PJOBS_LEFT, false);
    bool waits = view->states[GT_MEMBER_TO_PLACE] || view->states[GT_MEMBER_TO_RESERVE];
    pjob->units = view->job->units.count;
    pjob->units_placed = waits && gt_part_suffices(view) ? gt_part_units(view) : 0;
    if (pjob->units_placed)
        bring_in_part(reconcile);
    if (!waits) {
        bring_in(reconcile);
    } else if (gt_reconcile_is_ready(reconcile)) {
        reconcile_enqueue(reconcile);
    } else {
        reconcile_remove_from_queue(pjob);
        report_if_it_lasts(reconcile);
    }
}

static void reconcile_round(struct pjob *pjob)
{
    auto_reconcile struct reconcile reconcile = {
        .pjob = pjob, .placement = pjob->placement, .now = gt_clock_ms()};
    gt_auto_err struct gt_err *error = NULL;
    pjob->lift.retry_ms = 0;
    pjob->placement->counters.reconciles++;
    uint64_t began = gt_clock_thread_ns();
    int r = gt_reconcile_make(&reconcile, &error);
    pjob->rest_ms = gt_clock_ms() + RECONCILE_REST * ((gt_clock_thread_ns() - began) / 1000000);
    if (r < 0) {
        gt_placement_list(pjob, PJOBS_LEFT, false);
        if (r == -ENOMEM) { /* which is not about a rule of the job */
            reconcile_remove_from_queue(pjob);
            gt_placement_fail(pjob, gt_err_text(error));
            gt_placement_due(pjob, reconcile.now + pjob->placement->times.retry_ms);
            return;
        }
        /* Without its owner object, a job that is still being created seems to break rules: wait for its
         * other pods. */
        if (!reconcile.owner && reconcile.now < settled(&reconcile)) {
            reconcile_remove_from_queue(pjob);
            gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "OwnerUnknown", gt_err_text(error));
            gt_placement_due(pjob, settled(&reconcile));
            return;
        }
        if (lacks_members(&reconcile)) {
            reconcile_remove_from_queue(pjob);
            gt_placement_report(pjob, NULL, NULL, false);
            return;
        }
        reconcile_refuse(&reconcile, gt_err_text(error));
        return;
    }
    bool offered = pjob->lift.offers_end_ms > reconcile.now;
    reconcile_job(&reconcile);
    if (offered || pjob->lift.offers_end_ms > reconcile.now)
        gt_placement_report(pjob, reconcile.view, reconcile.owner, false);
}

/* Pods may be created while it waits for answers: the last answer marks the job again. */
void gt_placement_reconcile(struct pjob *pjob)
{
    uint64_t when = pjob->lift.retry_ms > pjob->rest_ms ? pjob->lift.retry_ms : pjob->rest_ms;
    pjob->due_ms = UINT64_MAX;
    if (pjob->lift.writes)
        return;
    if (when > gt_clock_ms()) {
        gt_placement_due(pjob, when);
        return;
    }
    if (gt_placement_awaits_successor(pjob, gt_clock_ms()))
        return;
    gt_evict_begin(pjob);
    reconcile_round(pjob);
    gt_evict_withdraw(pjob);
}
