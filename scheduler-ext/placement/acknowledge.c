/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/reconcile.h"

#include <string.h>

#include "base/clock.h"
#include "base/time_text.h"
#include "scheduler-ext/placement/objects.h"
#include "scheduler-ext/placement/write.h"

enum {
    PUBLISH_AGAIN_MS = 60000, /* interval of updates where only the end of its reservations changes */
    TIME_OFF_S = 2,           /* times that differ by less are equal */
    NAME_MAX_BYTES = 1024,
};

/* ---- the object of a job ---- */

/* "ns/PyTorchJob/demo" and "ns/Owned/ReplicaSet/demo": the kind is the part before the name. */
static bool acknowledge_name_of(const char *key, struct gt_buf *name, size_t *ret_namespace_len)
{
    const char *first = strchr(key, '/'), *last = strrchr(key, '/'), *kind = last;
    char text[64];
    if (!first || first == last)
        return false;
    while (kind[-1] != '/')
        kind--;
    snprintf(text, sizeof(text), "%.*s", (int)(last - kind), kind);
    gt_gpu_placement_name(text, gt_job_key_name(key), name);
    *ret_namespace_len = (size_t)(first - key);
    return name->data && !name->failed;
}

static char *namespace_of(const char *key, struct gt_buf *name)
{
    size_t len;
    return acknowledge_name_of(key, name, &len) ? strndup(key, len) : NULL;
}

void gt_placement_attach(struct pjob *pjob)
{
    gt_auto_buf struct gt_buf name = GT_BUF(NAME_MAX_BYTES);
    gt_auto_free char *namespace_ = namespace_of(pjob->job->key, &name);
    if (namespace_)
        pjob->object = gt_placement_object_get(&pjob->placement->objects, namespace_, name.data);
    if (pjob->object)
        pjob->object->job = pjob;
}

/* A new leader reads the last state that has the phase; GATHERS: none has. */
static const enum gt_gpu_placement_phase phases[GT_PLACEMENT_STATES] = {
    [GT_PLACEMENT_WAITS] = GT_GPU_PLACEMENT_WAITING, [GT_PLACEMENT_REFUSED] = GT_GPU_PLACEMENT_REFUSED,
    [GT_PLACEMENT_WRITES] = GT_GPU_PLACEMENT_PLACED, [GT_PLACEMENT_PLACED] = GT_GPU_PLACEMENT_PLACED,
    [GT_PLACEMENT_LOST] = GT_GPU_PLACEMENT_STALLED, /* others: PENDING */
};

static enum gt_placement_state acknowledge_state_of(enum gt_gpu_placement_phase phase)
{
    enum gt_placement_state state = GT_PLACEMENT_STATES - 1;
    while (state > GT_PLACEMENT_GATHERS && phases[state] != phase)
        state--;
    return state;
}

void gt_placement_read_job(const struct gt_placement *placement, const struct gt_cache_job *job,
                           struct gt_placement_job *to)
{
    gt_auto_buf struct gt_buf name = GT_BUF(NAME_MAX_BYTES);
    gt_auto_free char *namespace_ = namespace_of(job->key, &name);
    const struct placement_object *object =
        namespace_ ? gt_placement_object_find(&placement->objects, namespace_, name.data) : NULL;
    if (!object || !object->content)
        return;
    to->state = acknowledge_state_of(object->content->phase);
    to->reason = object->content->reason;
    to->text = object->content->message;
    to->since_s = gt_placement_recorded_since(placement, job, object->content, to->state);
}

void gt_placement_forget_acknowledged(struct gt_placement *placement)
{
    size_t slot = 0;
    for (struct placement_object *object; (object = gt_placement_objects_next(&placement->objects, &slot));) {
        object->acknowledged = false;
        object->rest_ms = 0;
        gt_placement_object_clear_refusal(object);
        if (object->write)
            gt_write_drop(object->write);
    }
}

static bool is_parked(const struct pjob *pjob)
{
    return pjob && !pjob->job;
}

void gt_placement_collect(struct gt_placement *placement)
{
    size_t slot = 0;
    uint64_t now = gt_clock_ms();
    for (struct placement_object *object; (object = gt_placement_objects_next(&placement->objects, &slot));) {
        if (object->write || object->rest_ms > now)
            continue;
        if (object->is_unknown && !object->job) {
            gt_write_object_get(placement, object, NULL);
        } else if (gt_placement_is_left_over(placement, object)) {
            gt_write_object_delete(placement, object);
        } else if (object->content && placement->term.began_ms + placement->times.request_ms <= now &&
                   !is_parked(object->job) &&
                   !gt_cache_find_job(placement->spec.cache, object->content->job)) {
            gt_write_object_delete(placement, object);
        } else if (!object->content && !object->job) {
            gt_placement_object_drop(&placement->objects, object);
            slot--; /* it may be another job's object now */
        }
    }
}

/* ---- the content to be written ---- */

/* Texts that the object borrows. */
struct object_times {
    char waiting[GT_TIME_TEXT_SIZE], reserved[GT_TIME_TEXT_SIZE], planned[GT_TIME_TEXT_SIZE],
        promised[GT_TIME_TEXT_SIZE], moving[GT_TIME_TEXT_SIZE];
};

static void acknowledge_add_state(const struct pjob *pjob, struct gt_gpu_placement *to,
                                  struct object_times *times)
{
    const struct placement_object *object = pjob->object;
    to->namespace_ = object->namespace_;
    to->name = object->name;
    to->job = pjob->job->key;
    to->uid = object->content ? object->content->uid : "";
    to->resource_version = object->content ? object->content->resource_version : "";
    to->on_lost_plan = pjob->placement->spec.options.lost_plan == GT_LOST_RECREATE ? "Recreate" : "Report";
    to->phase = phases[pjob->state];
    to->reason = pjob->state == GT_PLACEMENT_WRITES ? "" : pjob->report.reason;
    to->message = pjob->state == GT_PLACEMENT_WRITES || !pjob->report.text ? "" : pjob->report.text;
    to->epoch = object->epoch;
    if (pjob->units_placed && pjob->state != GT_PLACEMENT_LOST) { /* others wait; the text says so */
        to->phase = GT_GPU_PLACEMENT_PLACED;
        to->reason = *to->reason ? to->reason : "NotTried";
    }
    const struct pjob *before =
        pjob->state == GT_PLACEMENT_WAITS ? gt_queue_before(pjob->placement->queue, pjob) : NULL;
    to->behind = before ? before->job->key : "";
    to->planned_at = object->content ? object->content->planned_at : "";
    to->promised_until = object->content ? object->content->promised_until : "";
    if (pjob->move.moving) {
        to->moving = pjob->move.moving == PLACEMENT_JOB_MOVES ? "Job" : "Unit";
        gt_time_text((int64_t)pjob->move.leave_before_s, times->moving);
        to->moving_before = times->moving;
    }
    const struct placement_moves *moves = &pjob->placement->moves;
    if (moves->waiting == pjob && (pjob->state == GT_PLACEMENT_WAITS || pjob->state == GT_PLACEMENT_GATHERS))
        to->moves = moves->text;
    if (pjob->wait.since_ms) {
        gt_time_text(pjob->wait.since_s, times->waiting);
        to->waiting_since = times->waiting;
    }
    if (pjob->place.reserved_until_ms) {
        gt_time_text(pjob->place.reserved_until_s, times->reserved);
        to->reserved_until = times->reserved;
    }
}

/* Until when places are reserved for missing pods. */
static void add_reserved_until(const struct pjob *pjob, const struct gt_job_view *view,
                               struct gt_gpu_placement *to, struct object_times *times)
{
    uint64_t end = gt_reservations_reserved_end(&pjob->place.reservations);
    to->promised_until = "";
    if (!view->states[GT_MEMBER_RESERVED] || end == UINT64_MAX)
        return;
    gt_placement_time_text(end, times->promised);
    to->promised_until = times->promised;
}

/* `same`: the places are those that the object has. */
static bool acknowledge_write_plan(struct reconcile *reconcile, uint64_t epoch, bool same)
{
    struct pjob *pjob = reconcile->pjob;
    struct placement_object *object = pjob->object;
    auto_placement_content struct placement_content content = {0};
    gt_auto_err struct gt_err *error = NULL;
    struct object_times times = {0};
    if (gt_placement_content_make(pjob->job, reconcile->view, reconcile->owner, &content, &error) < 0) {
        gt_placement_fail(pjob, gt_err_text(error));
        return false;
    }
    acknowledge_add_state(pjob, &content.object, &times);
    add_reserved_until(pjob, reconcile->view, &content.object, &times);
    content.object.epoch = epoch;
    if (!same || !*content.object.planned_at) {
        gt_placement_time_text(reconcile->now, times.planned);
        content.object.planned_at = times.planned;
    }
    int r = gt_placement_make_parts(reconcile, &content, &error);
    if (r > 0)
        gt_write_object(pjob, object, &content.object, true);
    else if (r < 0)
        gt_placement_fail(pjob, gt_err_text(error));
    return r >= 0;
}

static bool is_same_time(const char *a, const char *b)
{
    int64_t off = gt_time_of_text(a) - gt_time_of_text(b);
    return off <= TIME_OFF_S && off >= -TIME_OFF_S;
}

/* Where no reservation is left since all pods exist, no extra write is made. */
static bool is_reserved_until_reported(const struct placement_known *reported,
                                       const struct gt_gpu_placement *now)
{
    return !*now->promised_until || is_same_time(reported->promised_until, now->promised_until);
}

static bool is_reported(const struct placement_known *reported, const struct gt_gpu_placement *now)
{
    return reported->phase == now->phase && strcmp(reported->reason, now->reason) == 0 &&
           strcmp(reported->moves, now->moves) == 0 &&
           is_same_time(reported->reserved_until, now->reserved_until) &&
           (!*now->waiting_since || is_same_time(reported->waiting_since, now->waiting_since));
}

/* The state does not change: a placed job is placed even where this cannot be written. */
static void say_failure(struct pjob *pjob, const char *text)
{
    struct gt_placement *placement = pjob->placement;
    placement->counters.failed++;
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, true, pjob->job->key, text);
}

void gt_placement_publish(struct pjob *pjob, const struct gt_job_view *view, const struct gt_owner *owner)
{
    struct placement_object *object = pjob->object;
    auto_placement_content struct placement_content content = {0};
    gt_auto_err struct gt_err *error = NULL;
    struct object_times times = {0};
    uint64_t now = gt_clock_ms();
    if (!object || object->write || object->is_unknown || object->rest_ms > now) {
        pjob->report.pending =
            pjob->report.pending || (object && object->write); /* it may have another text */
        return;
    }
    if (gt_placement_content_make(pjob->job, view, owner, &content, &error) < 0) {
        say_failure(pjob, gt_err_text(error));
        gt_placement_due(pjob, now + pjob->placement->times.retry_ms);
        return;
    }
    acknowledge_add_state(pjob, &content.object, &times);
    if (view)
        add_reserved_until(pjob, view, &content.object, &times);
    const struct placement_known *reported = object->content;
    bool same_state = reported && is_reported(reported, &content.object);
    if (same_state && strcmp(reported->message, content.object.message) == 0 &&
        (is_reserved_until_reported(reported, &content.object) ||
         now - pjob->report.published_ms < PUBLISH_AGAIN_MS))
        return;
    pjob->report.published_ms = now;
    gt_placement_set_told(pjob);
    content.object.pod_count = 0; /* a plan is written by the code that puts it into force */
    gt_write_object(pjob, object, &content.object, false);
}

/* ---- whether it is written ---- */

struct comparison {
    struct placement_plan plan;
    bool known;          /* the acknowledged plan */
    bool changed;        /* the object has other places, or not all */
    bool moves;          /* a reserved place differs */
    uint64_t offered_ms; /* the last offer of such a place; 0: none */
    bool waits;          /* epoch for fences */
    uint64_t epoch;
};

static enum placement_match match_of(const struct reconcile *reconcile, const struct placement_plan *plan,
                                     uint32_t at)
{
    const struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    uint64_t mask;
    uint32_t node = gt_job_view_place(reconcile->view, at, &mask);
    if (node == GT_NONE || !mask)
        return PLACEMENT_MATCHES; /* nothing that the object could name */
    return gt_placement_match(cluster, plan, reconcile->view->job->members[at].rank, node, mask);
}

/* The epoch of the next plan: higher than that of the object and of all fences, except for valid fences of
 * this leader. */
static uint64_t next_epoch(const struct reconcile *reconcile)
{
    uint64_t epoch = reconcile->pjob->object->epoch + 1;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_cache_pod *pod = reconcile->view->members[i].pod;
        const struct record *record = pod ? gt_record_of(reconcile->placement, pod) : NULL;
        uint64_t fence = record ? record->object.fence + (record->object.fence != record->own_fence) : 0;
        epoch = record && record->object.fence && fence > epoch ? fence : epoch;
    }
    return epoch;
}

/* Whether a write of an older plan to this pod would fail, if one is in flight. A fence of another leader
 * does not count, since that leader may have written its plan afterwards. */
static bool is_fenced(struct reconcile *reconcile, const struct gt_cache_pod *pod, uint64_t epoch)
{
    struct record *record = gt_record_writable(reconcile->pjob, pod, reconcile->now);
    if (record && record->own_fence >= epoch && record->object.fence >= epoch)
        return true;
    if (record)
        gt_write_fence(reconcile->pjob, record, epoch);
    return false;
}

/* Whether the plan has places for ranks that the job no longer has, since it was made smaller. */
static bool names_others(const struct gt_job_view *view, const struct placement_plan *plan)
{
    uint32_t named = 0;
    uint64_t gpus;
    for (uint32_t i = 0; i < view->count; i++)
        named += gt_placement_plan_place(plan, view->job->members[i].rank, &gpus) != NULL;
    return named < gt_placement_plan_pods(plan);
}

static void note_moved(const struct reconcile *reconcile, uint32_t at, struct comparison *comparison)
{
    uint64_t offered_ms = gt_reservations_offered_ms(&reconcile->pjob->place.reservations, at);
    comparison->moves = true;
    comparison->offered_ms = offered_ms > comparison->offered_ms ? offered_ms : comparison->offered_ms;
}

/* `all`: every reservation counts as changed. */
static void acknowledge_compare(struct reconcile *reconcile, bool all, struct comparison *ret)
{
    bool facts_too = !reconcile->pjob->object->acknowledged; /* otherwise this leader wrote them */
    ret->known =
        gt_placement_object_plan(&reconcile->placement->objects, reconcile->pjob->object, &ret->plan);
    /* Whether there may have been a plan that is no longer known. */
    bool gone = !ret->known && (reconcile->pjob->object->epoch || !reconcile->pjob->lift.began_in_term);
    ret->changed = ret->known && reconcile->owner && !reconcile->owner->stopped &&
                   names_others(reconcile->view, &ret->plan);
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        bool only_reserved = member->state == GT_MEMBER_PLANNED || member->state == GT_MEMBER_RESERVED ||
                             member->state == GT_MEMBER_MOVING; /* so that the object must have it */
        if (!only_reserved && !facts_too)
            continue;
        enum placement_match match = match_of(reconcile, &ret->plan, i);
        if (all && match == PLACEMENT_MATCHES)
            match = PLACEMENT_DIFFERS;
        ret->changed = ret->changed || match != PLACEMENT_MATCHES;
        if (match == PLACEMENT_MATCHES || (match == PLACEMENT_UNNAMED && !gone))
            continue;
        if (member->state == GT_MEMBER_PLANNED)
            ret->waits = !is_fenced(reconcile, member->pod, ret->epoch) || ret->waits;
        if (member->state == GT_MEMBER_RESERVED)
            note_moved(reconcile, i, ret);
    }
}

/* Whether the API server's state of the object is known, and no write of it is in flight. */
static bool is_certain(struct reconcile *reconcile)
{
    struct placement_object *object = reconcile->pjob->object;
    if (!object || object->write)
        return false;
    if (object->rest_ms > reconcile->now) {
        gt_placement_due(reconcile->pjob, object->rest_ms);
        return false;
    }
    if (object->is_unknown)
        gt_write_object_get(reconcile->placement, object, reconcile->pjob);
    return !object->is_unknown;
}

uint64_t gt_placement_offer_end(const struct gt_placement *placement, uint64_t offered_ms)
{
    uint64_t own_end_ms = offered_ms ? offered_ms + placement->times.request_ms : 0;
    return own_end_ms > placement->term.earlier_end_ms ? own_end_ms : placement->term.earlier_end_ms;
}

/* Changes of reserved places wait until no pod can be created any more to which one was offered. */
static void wait_for_offers(struct reconcile *reconcile, struct comparison *comparison)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_placement *placement = reconcile->placement;
    char text[160], when[GT_TIME_TEXT_SIZE];
    uint64_t end_ms = gt_placement_offer_end(placement, comparison->offered_ms);
    bool own = end_ms > placement->term.earlier_end_ms;
    pjob->lift.offers_end_ms = 0;
    if (!comparison->moves || reconcile->now >= end_ms)
        return;
    pjob->lift.offers_end_ms = end_ms;
    comparison->waits = true;
    gt_placement_due(pjob, end_ms);
    gt_placement_time_text(end_ms, when);
    snprintf(text, sizeof(text),
             "its plan is written at %s: until then a pod may come that %s has offered another place", when,
             own ? "this leader" : "an earlier leader");
    gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "OffersPending", text);
}

/* ---- places that cannot be written ---- */

static bool is_unwritten(const struct reconcile *reconcile, const struct placement_plan *plan, uint32_t at)
{
    enum gt_member_state state = reconcile->view->members[at].state;
    return (state == GT_MEMBER_PLANNED || state == GT_MEMBER_RESERVED) &&
           match_of(reconcile, plan, at) != PLACEMENT_MATCHES;
}

/* The API server refuses the plan: its places are of use to others until the next try. No pod has them yet,
 * since pods get a place only from an object that was written. */
static void give_back_unwritten(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_cache *cache = reconcile->placement->spec.cache;
    struct placement_plan plan = {0};
    uint32_t given = 0;
    gt_placement_object_plan(&reconcile->placement->objects, pjob->object, &plan);
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        struct gt_job_view_member *member = &reconcile->view->members[i];
        if (!is_unwritten(reconcile, &plan, i))
            continue;
        given++;
        if (member->pod)
            gt_cache_unplan_pod(cache, member->pod);
        else
            gt_reservations_release(&pjob->place.reservations, gt_cache_cluster(cache), i);
    }
    if (!given)
        return;
    reconcile->placement->round.more_room = true;
    gt_placement_wait_refused(reconcile);
    gt_placement_mark(pjob);
}

bool gt_placement_wait_refused(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct placement_object *object = pjob->object;
    char text[GT_GPU_PLACEMENT_MESSAGE_MAX], when[GT_TIME_TEXT_SIZE];
    if (!object || !object->refusal || object->rest_ms <= reconcile->now)
        return false;
    gt_placement_time_text(object->rest_ms, when);
    snprintf(text, sizeof(text),
             "its GPUPlacement cannot be written, so it holds no places; it is tried again at %s: %s", when,
             object->refusal);
    gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "WriteRefused", text);
    gt_placement_due(pjob, object->rest_ms);
    return true;
}

bool gt_placement_may_give_up(struct reconcile *reconcile)
{
    gt_placement_due(reconcile->pjob, reconcile->now + reconcile->placement->times.retry_ms);
    if (!is_certain(reconcile))
        return false;
    struct comparison comparison = {.epoch = next_epoch(reconcile)};
    acknowledge_compare(reconcile, true, &comparison);
    wait_for_offers(reconcile, &comparison);
    return !comparison.waits;
}

bool gt_placement_acknowledge(struct reconcile *reconcile)
{
    const struct placement_object *object = reconcile->pjob->object;
    const struct gt_job_view *view = reconcile->view;
    if (!is_certain(reconcile)) {
        if (object && object->refusal && !object->write && !object->is_unknown)
            give_back_unwritten(reconcile);
        return false;
    }
    struct comparison comparison = {.epoch = next_epoch(reconcile)};
    acknowledge_compare(reconcile, false, &comparison);
    bool is_only_reserved_here =
        view->states[GT_MEMBER_PLANNED] || view->states[GT_MEMBER_RESERVED] || view->states[GT_MEMBER_MOVING];
    if (!comparison.changed && comparison.known && (object->acknowledged || !is_only_reserved_here)) {
        gt_wait_count(reconcile->pjob);
        reconcile->pjob->lift.offers_end_ms = 0;
        return true;
    }
    wait_for_offers(reconcile, &comparison);
    if (!comparison.waits && gt_write_has_capacity(reconcile->pjob) &&
        !acknowledge_write_plan(reconcile, comparison.epoch, comparison.known && !comparison.changed))
        gt_placement_due(reconcile->pjob, reconcile->now + reconcile->placement->times.retry_ms);
    return false;
}
