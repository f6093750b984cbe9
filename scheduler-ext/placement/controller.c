/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/controller.h"
#include "scheduler-ext/decide/noted.h"

#include <string.h>

#include "api/meta.h"
#include "base/clock.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

const char *gt_placement_state_name(enum gt_placement_state state)
{
    static const char *const names[] = {
        [GT_PLACEMENT_NONE] = "none",      [GT_PLACEMENT_GATHERS] = "gathers",
        [GT_PLACEMENT_WAITS] = "waits",    [GT_PLACEMENT_REFUSED] = "refused",
        [GT_PLACEMENT_WRITES] = "writes",  [GT_PLACEMENT_PLACED] = "placed",
        [GT_PLACEMENT_LOST] = "plan-lost",
    };
    return state < GT_COUNT(names) ? names[state] : "";
}

enum { ROUND_BUDGET_MS = 10, SPARES_MS = 1000 };

void gt_placement_add_texts(const struct gt_placement *placement, const struct gt_cache_pod *pod,
                            struct gt_job_texts *texts)
{
    gt_owners_add_texts(placement->spec.owners, &pod->meta, &pod->identity, pod->owner_api_version, texts);
}

/* Pods without gate and plan are not ours, except for those of jobs that want to be placed again then, and
 * those with unhealthy GPUs. */
static bool placement_concerns_us(const struct gt_placement *placement, const struct gt_cache_pod *pod)
{
    if (gt_cache_pod_is_unplaced(pod)) {
        struct gt_job_texts texts = gt_job_pod_texts(&pod->meta, "");
        gt_placement_add_texts(placement, pod, &texts);
        if (texts.of[GT_KEY_GROUP] && texts.of[GT_KEY_UNPLACED] &&
            strcmp(texts.of[GT_KEY_UNPLACED], "recreate") == 0)
            return true;
    }
    return pod->state == GT_CACHE_GATED || pod->plan != GT_CACHE_PLAN_NONE ||
           gt_unhealthy_concerns(placement, pod);
}

void gt_placement_on_pod(struct gt_placement *placement, struct gt_cache_pod *pod)
{
    if (!placement->round.started)
        return;
    if (placement->jobs.lacking)
        gt_placement_wake(placement); /* a quota may be used less */
    struct pjob *pjob = gt_placement_job_of(placement, pod->job, placement_concerns_us(placement, pod));
    if (!pjob)
        return;
    if (pod->job->pod_count > pjob->lift.pods_seen)
        pjob->lift.new_pod_ms = gt_clock_ms();
    pjob->lift.pods_seen = pod->job->pod_count;
    gt_placement_mark(pjob);
}

void gt_placement_on_pod_deleted(struct gt_placement *placement, struct gt_cache_pod *pod)
{
    struct pjob *pjob = pod->job->user;
    gt_backoff_forget_node(&placement->backoffs, gt_cache_cluster(placement->spec.cache), pod->job->key,
                           pod->node);
    if (placement->jobs.lacking)
        gt_placement_wake(placement);
    if (!placement->round.started || !pjob)
        return;
    pjob->lift.pods_seen = pod->job->pod_count;
    /* It may have ended slowly: its GPUs are free from now on. */
    if (pod->deleting && gt_backoff_job_until(&placement->backoffs, pod->job->key))
        gt_backoff_job(&placement->backoffs, pod->job->key, gt_clock_ms() + placement->times.eviction_ms);
    if (pod->job->pod_count) {
        if (!placement->jobs.lists[PJOBS_LEFT].first)
            placement->round.left_ms = gt_clock_ms() + placement->times.retry_ms;
        gt_placement_list(pjob, PJOBS_LEFT, true);
        gt_placement_mark(pjob);
    } else {
        gt_rebalance_gone(pjob, pod);
        if (!gt_placement_park(pjob, pod))
            gt_placement_drop(pjob);
    }
}

static void object_changed(struct gt_placement *placement, const struct placement_object *object)
{
    if (object->job)
        gt_placement_mark(object->job);
    else
        placement->jobs.has_orphans = true;
}

void gt_placement_observe_object(struct gt_placement *placement, const cJSON *object)
{
    gt_auto_free struct gt_gpu_placement *content = NULL;
    gt_auto_err struct gt_err *error = NULL;
    if (gt_gpu_placement_read(object, &content, &error) < 0) {
        gt_placement_note_error(placement, gt_meta_name(object), error);
        return;
    }
    struct placement_object *known =
        gt_placement_object_get(&placement->objects, content->namespace_, content->name);
    if (!known)
        return;
    struct placement_object *before = gt_placement_object_head(&placement->objects, known);
    if (gt_placement_object_observe(known, gt_steal(content), gt_clock_ms()) && placement->round.started) {
        object_changed(placement, before);
        object_changed(placement, gt_placement_object_head(&placement->objects, known));
        gt_placement_wake(placement);
    }
}

void gt_placement_observe_object_deleted(struct gt_placement *placement, const char *namespace_,
                                         const char *name)
{
    struct placement_object *object = gt_placement_object_find(&placement->objects, namespace_, name);
    if (!object)
        return;
    struct placement_object *head = gt_placement_object_head(&placement->objects, object);
    gt_placement_object_observe(object, NULL, gt_clock_ms());
    if (placement->round.started && head->job)
        gt_placement_mark(head->job);
    if (!object->write && !object->job)
        gt_placement_object_drop(&placement->objects, object);
}

void gt_placement_on_relist(struct gt_placement *placement)
{
    size_t slot = 0;
    for (struct placement_object *object; (object = gt_placement_objects_next(&placement->objects, &slot));)
        object->relisted = true;
    slot = 0;
    for (struct record *record; (record = gt_index_next(&placement->pods, &slot));)
        record->relisted = true;
}

void gt_placement_on_capacity(struct gt_placement *placement)
{
    if (!placement->round.started)
        return;
    gt_queue_wake(placement->queue);
    for (struct pjob *pjob = placement->jobs.first; pjob; pjob = pjob->next)
        if (pjob->place.wants || gt_reservations_gpus(&pjob->place.reservations) ||
            pjob->move.wanted) /* reserved places may be gone */
            gt_placement_mark(pjob);
    gt_placement_wake(placement);
}

void gt_placement_on_owner(struct gt_placement *placement, enum gt_job_kind kind, const char *namespace_,
                           const char *name)
{
    if (!placement->round.started)
        return;
    const struct gt_owner *owner = gt_owners_find(placement->spec.owners, kind, namespace_, name, NULL);
    for (unsigned number = 0;; number++) {
        gt_auto_buf struct gt_buf key = GT_BUF(2048);
        if (!gt_owner_job_key(kind, owner, namespace_, name, number, &key))
            return;
        struct gt_cache_job *job = key.data ? gt_cache_find_job(placement->spec.cache, key.data) : NULL;
        struct pjob *pjob =
            job ? gt_placement_job_of(placement, job, placement_concerns_us(placement, job->pods)) : NULL;
        if (pjob)
            gt_placement_mark(pjob);
        else if (key.data && (!owner || owner->stopped))
            gt_placement_end_parked(placement, key.data);
    }
}

/* ---- callbacks of the queue ---- */

static void on_share(void *arg, struct gt_queue_share *share)
{
    const struct gt_placement *placement = arg;
    const struct tenant *tenant = (const struct tenant *)share;
    const struct gt_placement_spec *spec = &placement->spec;
    share->used = tenant->namespace_->gpus + tenant->reserved;
    share->weight = spec->weight ? spec->weight(spec->arg, tenant->namespace_->name) : 1;
}

static enum gt_queue_result on_try(void *arg, void *job, bool restricted)
{
    (void)arg;
    return gt_placement_try(job, restricted);
}

static void on_same(void *arg, void *job, void *like)
{
    (void)arg;
    struct pjob *pjob = job;
    const struct pjob *other = like;
    gt_placement_set_state(pjob, GT_PLACEMENT_WAITS, other->report.reason,
                           other->report.text ? other->report.text : "");
    gt_placement_report(pjob, NULL, NULL, false);
}

static bool placement_on_hold(void *arg, void *job, uint64_t reserved_until_ms)
{
    return gt_placement_hold(arg, job, reserved_until_ms);
}

static uint64_t on_now(void *arg)
{
    (void)arg;
    return gt_clock_ms();
}

/* ---- rounds ---- */

static void reconcile_marked(struct gt_placement *placement)
{
    /* Jobs that are marked during this are reconciled in the next round. */
    struct pjob *pjob = placement->jobs.marked;
    placement->jobs.marked = NULL;
    while (pjob) {
        struct pjob *next = pjob->next_marked;
        pjob->marked = false;
        pjob->next_marked = NULL;
        gt_placement_reconcile(pjob);
        pjob = next;
    }
}

static void mark_due(struct gt_placement *placement, uint64_t now)
{
    if (now < placement->round.due_ms)
        return;
    placement->round.due_ms = UINT64_MAX;
    for (struct pjob *pjob = placement->jobs.first; pjob; pjob = pjob->next) {
        if (pjob->due_ms <= now)
            gt_placement_mark(pjob);
        else if (pjob->due_ms < placement->round.due_ms)
            placement->round.due_ms = pjob->due_ms;
    }
}

static void mark_reserving(struct gt_placement *placement)
{
    for (struct pjob *pjob = placement->jobs.first; pjob; pjob = pjob->next)
        if (gt_reservations_gpus(&pjob->place.reservations) || pjob->move.wanted)
            gt_placement_mark(pjob);
}

/* Otherwise it would wait forever without a visible reason. */
static void report_unread(struct gt_placement *placement, struct record *record)
{
    const struct gt_condition_text condition = {.reason = "Unreadable", .message = record->unread};
    if (record->object.condition != gt_condition_digest(&condition))
        gt_write_condition(placement, NULL, record, &condition, false, NULL);
}

/* Gated pods that belong to no job: they ask for no GPUs, or cannot be read. */
static void handle_jobless(struct gt_placement *placement, uint64_t now)
{
    bool left = false;
    size_t slot = 0;
    for (struct record *record; (record = gt_index_next(&placement->pods, &slot));) {
        if (!record->object.gated || (!record->no_gpus && !record->unread))
            continue;
        left = true;
        if (record->write || record->lifted ||
            (record->stale_until_ms > now && record->stale == gt_digest_keyed(record->object.version)))
            continue;
        if (!record->no_gpus_reported)
            gt_placement_report_no_gpus(placement, record);
        record->no_gpus_reported = true;
        if (record->unread)
            report_unread(placement, record);
        else
            gt_write_lift(placement, NULL, record, NULL);
    }
    placement->round.no_gpus_ms = left ? now + placement->times.retry_ms : UINT64_MAX;
}

static void on_round(void *arg)
{
    struct gt_placement *placement = arg;
    uint64_t now = gt_clock_ms();
    if (!placement->round.started)
        return;
    placement->round.running = true;
    gt_placement_find_spares(placement);
    if (now >= placement->round.wake_ms) {
        gt_placement_report_spares(placement);
        gt_placement_note_reserved(placement);
        gt_placement_look(placement);
        gt_placement_taint(placement);
        gt_queue_wake(placement->queue);
        mark_reserving(placement);
        gt_placement_sync_parked(placement);
        gt_cluster_end_promises(gt_cache_cluster(placement->spec.cache), GT_PROMISE_NOTED_NODE, 0);
        placement->round.wake_ms = now + placement->times.retry_ms;
        placement->jobs.has_orphans = true;
    }
    if (placement->jobs.has_orphans)
        gt_placement_collect(placement);
    placement->jobs.has_orphans = false;
    if (now >= placement->round.yield_ms) {
        placement->round.yield_ms = UINT64_MAX; /* those that wait set it again */
        gt_queue_wake(placement->queue);
    }
    if (now >= placement->round.no_gpus_ms)
        handle_jobless(placement, now);
    mark_due(placement, now);
    gt_rebalance_step(placement);
    reconcile_marked(placement);
    /* A job may rest or wait for answers: then the places of its lost pods are not for others yet. */
    bool wait = placement->jobs.lists[PJOBS_LEFT].first && gt_clock_ms() < placement->round.left_ms;
    bool more = !wait && gt_queue_run(placement->queue, ROUND_BUDGET_MS);
    if (placement->round.more_room) {
        placement->round.more_room = false;
        gt_queue_wake(placement->queue);
    }
    gt_placement_retry_lacking(placement);
    gt_writes_resume(placement);
    placement->round.running = false;
    if (placement->jobs.marked || more) {
        gt_source_arm(placement->round.timer, 0);
        return;
    }
    const uint64_t times[] = {placement->round.wake_ms, placement->round.due_ms, placement->round.yield_ms,
                              wait ? placement->round.left_ms : gt_queue_next_ms(placement->queue)};
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < GT_COUNT(times); i++)
        next = times[i] < next ? times[i] : next;
    now = gt_clock_ms();
    gt_source_arm(placement->round.timer, next > now ? next - now : 0);
}

/* ---- creation and end ---- */

static void set_default(uint64_t *value, uint64_t standard)
{
    if (!*value)
        *value = standard;
}

static void set_defaults(struct gt_placement *placement)
{
    struct gt_placement_options *options = &placement->spec.options;
    set_default(&options->patience_ms, 60000);
    set_default(&options->reserve.waiting_ms, 600000);
    set_default(&options->reserve.waiting_percent, 50);
    set_default(&options->unschedulable_ms, 60000);
    set_default(&options->node_loss_ms, 300000);
    set_default(&options->brake_percent, GT_BRAKE_PERCENT);
    set_default(&options->moves_a_day, 10);
    set_default(&options->moves_at_once, 2);
    set_default(&options->reserve.coming_ms, 1800000);
    set_default(&options->reserve.missing_ms, 60000);
    set_default(&options->reserve.yield_ms, 5000);
    set_default(&options->reserve.gpus, 512);
    set_default(&options->reserve.gpus_per_namespace, 512);
    placement->times = placement->spec.times ? *placement->spec.times : GT_PLACEMENT_TIMES;
    placement->nodes.brake = (struct gt_brake){.cache = placement->spec.cache,
                                               .option = "--brake",
                                               .percent = options->brake_percent,
                                               .span_ms = placement->times.brake_ms};
}

int gt_placement_new(const struct gt_placement_spec *spec, struct gt_placement **ret, struct gt_err **err)
{
    gt_auto_placement struct gt_placement *placement = calloc(1, sizeof(*placement));
    GT_NEED(placement, err, "placement controller");
    placement->spec = *spec;
    placement->pods.max = GT_CACHE_PODS_MAX;
    set_defaults(placement);
    const struct gt_queue_spec queue = {.patience_ms = placement->spec.options.patience_ms,
                                        .reservation_ms = placement->spec.options.reserve.waiting_ms,
                                        .share = on_share,
                                        .try = on_try,
                                        .same = on_same,
                                        .hold = placement_on_hold,
                                        .now_ms = on_now,
                                        .arg = placement};
    GT_TRY(gt_queue_new(&queue, &placement->queue, err));
    GT_TRY(gt_decision_log_new(&placement->log, err));
    GT_TRY(gt_loop_add_timer(spec->loop, on_round, placement, &placement->round.timer, err));
    gt_writes_open(placement);
    gt_evict_open(placement);
    gt_placement_taint_open(placement);
    gt_rebalance_open(placement);
    for (unsigned i = 0; i < PLACEMENT_LINES; i++) {
        placement->lines[i].may_send = gt_placement_may_send;
        placement->lines[i].arg = placement;
        if (spec->kube)
            gt_write_open(gt_kube_writer(spec->kube), &placement->lines[i]);
    }
    *ret = gt_steal(placement);
    return 0;
}

void gt_placement_free(struct gt_placement *placement)
{
    if (!placement)
        return;
    gt_placement_stop(placement);
    gt_placement_objects_done(&placement->objects);
    gt_quotas_done(&placement->quotas);
    gt_records_done(placement);
    for (unsigned i = 0; i < PLACEMENT_LINES; i++)
        gt_write_close(&placement->lines[i]);
    if (placement->queue)
        gt_queue_free(placement->queue);
    gt_node_set_done(&placement->nodes.leaving);
    gt_brake_done(&placement->nodes.brake);
    gt_source_free(placement->round.timer);
    free(placement->rebalance.text);
    gt_preempt_done(placement);
    gt_rebalance_done(placement);
    gt_decision_log_free(placement->log);
    free(placement);
}

void gt_placement_start(struct gt_placement *placement)
{
    if (placement->round.started)
        return;
    placement->round.started = true;
    placement->term.began_ms = gt_clock_ms();
    /* Without the note of a leader that ended in order: one may have offered places until now. */
    if (!placement->term.note_is_fresh || !placement->term.earlier_known)
        placement->term.earlier_end_ms = placement->term.began_ms + placement->times.request_ms;
    placement->term.earlier_known = true;
    placement->term.note_is_fresh = false;
    size_t slot = 0;
    for (struct record *record; (record = gt_index_next(&placement->pods, &slot));)
        record->own_fence = 0;
    /* Objects say for whom the places of the note are. Its nodes are chosen again, and left alone until then.
     */
    gt_cluster_end_promises(gt_cache_cluster(placement->spec.cache), GT_PROMISE_NOTED, 0);
    placement->round.due_ms = placement->round.yield_ms = UINT64_MAX;
    placement->round.no_gpus_ms = 0;
    placement->round.wake_ms = gt_clock_ms() + placement->times.retry_ms;
    for (struct gt_cache_job *job = NULL; (job = gt_cache_next_job(placement->spec.cache, job));)
        for (struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
            gt_placement_on_pod(placement, pod);
    gt_placement_adopt_parked(placement);
    placement->term.is_on = true;
    gt_placement_wake(placement);
}

/* Forgets everything that is not in objects: the next leader starts from the objects. */
static void forget_unwritten(struct pjob *pjob)
{
    struct gt_placement *placement = pjob->placement;
    for (struct gt_cache_pod *pod = pjob->job->pods; pod; pod = pod->next) {
        const struct record *record = pod->state == GT_CACHE_GATED && pod->plan != GT_CACHE_PLAN_NONE
                                          ? gt_record_of(placement, pod)
                                          : NULL;
        if (record && !record->object.planned)
            gt_cache_unplan_pod(placement->spec.cache, pod);
    }
}

void gt_placement_stop(struct gt_placement *placement)
{
    if (!placement->round.started)
        return;
    placement->round.started = placement->term.is_on = false;
    gt_placement_taint_stop(placement);
    gt_write_clear(&placement->lines[PLACEMENT_CHECKPOINTS]);
    placement->round.running = true; /* no round is to be started */
    while (placement->jobs.first) {
        while (placement->jobs.first->lift.writes)
            gt_write_drop(placement->jobs.first->lift.writes);
        forget_unwritten(placement->jobs.first);
        gt_placement_drop(placement->jobs.first);
    }
    while (placement->jobs.parked)
        gt_placement_end_parked(placement, placement->jobs.parked->key);
    size_t slot = 0;
    for (struct record *record; (record = gt_index_next(&placement->pods, &slot));)
        if (record->write)
            gt_write_drop(record->write); /* of pods without GPUs */
    gt_placement_forget_acknowledged(placement);
    placement->round.running = false;
    gt_source_disarm(placement->round.timer);
}

/* ---- state for other parts ---- */

void gt_placement_job(const struct gt_placement *placement, const struct gt_cache_job *job,
                      struct gt_placement_job *ret)
{
    const struct pjob *pjob = placement && placement->round.started ? job->user : NULL;
    *ret = (struct gt_placement_job){.place = GT_NONE, .reason = "", .text = "", .plan = ""};
    if (placement && !placement->round.started)
        gt_placement_read_job(placement, job, ret);
    if (!pjob)
        return;
    ret->state = pjob->state;
    ret->since_s = gt_placement_since_s(pjob);
    ret->reason = pjob->report.reason;
    ret->text = pjob->report.text ? pjob->report.text : "";
    ret->plan = pjob->report.plan ? pjob->report.plan : "";
    ret->holds_until_ms = placement->nodes.holder == pjob ? pjob->place.reserved_until.ms : 0;
    ret->reserved_gpus = gt_reservations_gpus(&pjob->place.reservations);
    ret->tries = pjob->wait.tries;
    ret->place = gt_queue_place(placement->queue, pjob);
    const struct pjob *before = gt_queue_before(placement->queue, pjob);
    ret->behind = before ? before->job : NULL;
}

const struct gt_promise *gt_placement_kept_from(const struct gt_placement *placement,
                                                const struct gt_cache_pod *pod, uint32_t node)
{
    bool spares = placement->spec.options.spare_nodes || gt_cache_has_spares(placement->spec.cache);
    if (spares && gt_clock_ms() >= placement->nodes.spares_ms + SPARES_MS)
        gt_placement_find_spares((struct gt_placement *)(uintptr_t)placement);
    return gt_cluster_kept_from(gt_cache_cluster(placement->spec.cache), node, pod ? pod->job->number : 0);
}

const struct gt_decision_log *gt_placement_decisions(const struct gt_placement *placement)
{
    return placement ? placement->log : NULL;
}

const struct gt_owners *gt_placement_owners(const struct gt_placement *placement)
{
    return placement ? placement->spec.owners : NULL;
}

void gt_placement_counters(const struct gt_placement *placement, struct gt_placement_counters *ret)
{
    *ret = placement->counters;
    ret->leads = placement->round.started;
    ret->braked = placement->nodes.brake.refused;
    ret->writes.waiting = gt_write_count(&placement->lines[PLACEMENT_LIFTS]) +
                          gt_write_count(&placement->lines[PLACEMENT_PLANS]) +
                          gt_write_count(&placement->lines[PLACEMENT_REPORTS]);
    for (const struct pjob *pjob = placement->jobs.first; pjob; pjob = pjob->next) {
        ret->jobs[pjob->state]++;
        ret->reserved_gpus += gt_reservations_gpus(&pjob->place.reservations);
    }
    for (const struct pjob *pjob = placement->jobs.parked; pjob; pjob = pjob->next)
        ret->reserved_gpus += gt_reservations_gpus(&pjob->place.reservations);
}
