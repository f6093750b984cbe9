/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "scheduler-ext/placement/look.h"

/* One look at one job, from nothing but the feed, its seats, and what its pods' objects said last: what is to
 * be done next is done. */

void gt_placement_set_state(struct pjob *pjob, enum gt_placement_state state, const char *reason,
                            const char *text)
{
    if (pjob->state != state)
        pjob->since_ms = gt_clock_ms();
    pjob->state = state;
    pjob->reason = reason;
    if (!pjob->text || strcmp(pjob->text, text) != 0) {
        free(pjob->text);
        pjob->text = strdup(text);
    }
}

void gt_placement_fail(struct pjob *pjob, const char *text)
{
    pjob->placement->counters.failed++;
    gt_placement_set_state(pjob, GT_PLACEMENT_WAITS, "Failed", text);
}

static void due(struct pjob *pjob, uint64_t when)
{
    if (when < pjob->due_ms)
        pjob->due_ms = when;
    if (when < pjob->placement->next_due_ms)
        pjob->placement->next_due_ms = when;
}

static void leave_queue(struct pjob *pjob)
{
    if (pjob->queued)
        gt_queue_remove(pjob->placement->queue, pjob);
    pjob->queued = false;
    pjob->waits_ms = 0;
}

static struct record *record_of(const struct look *look, const struct gt_feed_pod *pod)
{
    return gt_record_find(look->placement, pod->meta.namespace_, pod->meta.name);
}

/* A pod that may be written to now. */
struct record *gt_look_writable(const struct look *look, const struct gt_feed_pod *pod)
{
    struct record *record = record_of(look, pod);
    if (!record || record->write || record->deleted || record->unread ||
        strcmp(record->object.uid, pod->uid) != 0)
        return NULL;
    if (record->stale_until_ms > look->now && record->stale == gt_index_digest(record->object.version)) {
        due(look->pjob, record->stale_until_ms);
        return NULL;
    }
    return record;
}

static void find_owner(struct look *look)
{
    look->kind = GT_OWNER_KINDS;
    for (const struct gt_feed_pod *pod = look->pjob->job->pods; pod && !look->owner; pod = pod->next) {
        const char *name;
        if (pod->deleting)
            continue;
        look->kind = gt_owner_of_pod(&pod->meta, &pod->identity, pod->owner_api_version, &name);
        look->owner = gt_owners_find(look->placement->spec.owners, look->kind, pod->meta.namespace_, name);
        look->expected = look->kind < GT_OWNER_KINDS && pod->owner_api_version && pod->meta.owner_kind &&
                         gt_owner_kind_of(pod->owner_api_version, pod->meta.owner_kind) == look->kind;
        return;
    }
}

/* When a job whose object is not known has waited long enough for it, and for pods. */
static uint64_t settled(const struct look *look)
{
    const struct gt_placement_options *options = &look->placement->spec.options;
    return look->pjob->new_pod_ms + (look->expected ? options->owner_ms : options->settle_ms);
}

/* The API server has said so; the watch may tell of it much later. */
static bool is_lifted(const void *arg, const struct gt_feed_pod *pod)
{
    const struct record *record = record_of(arg, pod);
    return record && record->lifted;
}

int gt_look_make(struct look *look, struct gt_err **err)
{
    const struct gt_placement_options *options = &look->placement->spec.options;
    uint32_t kept = gt_seats_gpus(&look->pjob->seats);
    uint64_t yields = gt_yield_until(look->placement, look->pjob->job);
    uint64_t wish_until = yields > look->now ? look->now : look->now + options->return_ms;
    find_owner(look);
    gt_refuse_find(look->placement, look->pjob->job, look->now, &look->refused);
    const struct gt_job_view_spec spec = {.owner = look->owner,
                                          .ranks = &look->placement->ranks,
                                          .refused = &look->refused,
                                          .is_lifted = is_lifted,
                                          .arg = look,
                                          .now = look->now,
                                          .wish_until = wish_until,
                                          .ahead_until = look->pjob->new_pod_ms + options->ahead_ms,
                                          .ahead_gpus = options->ahead_gpus};
    int r = gt_job_view_make(look->placement->spec.feed, look->pjob->job, &spec, &look->pjob->seats,
                             &look->view, err);
    if (gt_seats_gpus(&look->pjob->seats) < kept)
        look->placement->room = true;
    if (r < 0)
        return r;
    due(look->pjob, gt_seats_next_end(&look->pjob->seats));
    look->pjob->wishes = gt_seats_wish(&look->pjob->seats);
    look->pjob->keeps = gt_seats_gpus(&look->pjob->seats) > 0;
    return r;
}

void gt_look_done(struct look *look)
{
    if (look->view)
        gt_job_view_free(look->view);
    gt_node_set_done(&look->refused);
}

static uint32_t gated(const struct gt_job_view *view)
{
    return view->states[GT_MEMBER_TO_PLACE] + view->states[GT_MEMBER_PLANNED];
}

static const struct gt_feed_pod *first_gated(const struct gt_feed_job *job)
{
    const struct gt_feed_pod *pod = job->pods;
    while (pod && (pod->state != GT_FEED_GATED || pod->deleting))
        pod = pod->next;
    return pod;
}

/* ---- before a plan ---- */

static bool other_gates(const struct look *look)
{
    for (uint32_t i = 0; i < look->view->count; i++) {
        const struct gt_job_view_member *member = &look->view->members[i];
        const struct record *record =
            member->state == GT_MEMBER_TO_PLACE ? record_of(look, member->pod) : NULL;
        if (record && record->object.others)
            return true;
    }
    return false;
}

/* Whether pods have to come before it can be planned. Of a job that runs already, who is missing has ended:
 * those that come replace others. */
static bool lacks_pods(struct look *look)
{
    uint32_t missing = look->view->missing;
    char text[160];
    if (!look->owner || missing <= look->owner->ended || gt_job_view_has_begun(look->view))
        return false;
    if (look->view->job->kind == GT_JOB_OWNED) {
        snprintf(text, sizeof(text), "%u of its %u pods are there; names tell no rank, so all must be",
                 look->view->count - missing, look->view->count);
    } else {
        /* Pods come in one burst, of which the first alone would get any place. */
        uint64_t until = look->pjob->new_pod_ms + look->placement->spec.options.settle_ms;
        if (!look->owner->ended || look->owner->ended_at || look->now >= until)
            return false;
        snprintf(text, sizeof(text), "%u of its pods have ended, and nothing says which: more may come",
                 look->owner->ended);
        due(look->pjob, until);
    }
    gt_placement_set_state(look->pjob, GT_PLACEMENT_GATHERS, "PodsMissing", text);
    return true;
}

/* Whether enough of the job is known to plan it. */
bool gt_look_is_ready(struct look *look)
{
    struct pjob *pjob = look->pjob;
    if (other_gates(look)) {
        gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "OtherGates",
                               "other scheduling gates of its pods have to go first");
        return false;
    }
    if (lacks_pods(look))
        return false;
    uint64_t yields = gt_yield_until(look->placement, pjob->job);
    if (yields > look->now) {
        gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "Evicted",
                               "its pods were evicted for others, which are let in first");
        due(pjob, yields);
        return false;
    }
    bool alone = look->view->job->kind == GT_JOB_POD;
    if (!look->owner && !alone && look->now < settled(look)) {
        gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "OwnerUnknown",
                               "the object that makes its pods is not known: more pods may come");
        due(pjob, settled(look));
        return false;
    }
    return true;
}

/* Jobs of one shape fit alike. Nodes that they choose, or that were refused, make them different. */
static uint64_t shape_of(const struct look *look)
{
    const struct gt_job_view *view = look->view;
    uint64_t shape = GT_DIGEST_EMPTY;
    if (!view->whole || look->refused.nodes)
        return 0;
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].pod && gt_feed_pod_is_choosy(look->placement->spec.feed, view->members[i].pod))
            return 0;
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        const uint64_t parts[] = {unit->pods, unit->gpus, unit->atom};
        for (unsigned i = 0; i < GT_COUNT(parts); i++)
            shape = gt_digest_number(shape, parts[i]);
    }
    return shape ? shape : 1;
}

static void enqueue(struct look *look)
{
    struct pjob *pjob = look->pjob;
    const struct gt_job_view *view = look->view;
    struct gt_queue_entry entry = {.job = pjob,
                                   .partial =
                                       view->states[GT_MEMBER_PLACED] || view->states[GT_MEMBER_LIFTED],
                                   .priority = INT32_MIN,
                                   .created_s = UINT64_MAX,
                                   .number = pjob->job->number,
                                   .shape = shape_of(look)};
    for (const struct gt_feed_pod *pod = pjob->job->pods; pod; pod = pod->next) {
        if (!gt_job_view_counts(pod))
            continue;
        entry.priority = pod->priority > entry.priority ? pod->priority : entry.priority;
        entry.created_s = pod->created_s < entry.created_s ? pod->created_s : entry.created_s;
    }
    if (!pjob->waits_ms)
        pjob->waits_ms = look->now;
    entry.since_ms = pjob->waits_ms;
    if (gt_queue_put(look->placement->queue, &entry, NULL) < 0) {
        due(pjob, look->now + look->placement->spec.options.retry_ms);
        return;
    }
    pjob->queued = true;
    if (pjob->state != GT_PLACEMENT_WAITS)
        gt_placement_set_state(pjob, GT_PLACEMENT_WAITS, "NotTried", "its turn has not come yet");
}

/* ---- plans that were lost ---- */

static bool is_refused(struct look *look, const struct record *record)
{
    uint64_t limit = look->placement->spec.options.unschedulable_ms;
    if (!record || !record->unschedulable_ms)
        return false;
    if (look->now - record->unschedulable_ms >= limit)
        return true;
    due(look->pjob, record->unschedulable_ms + limit);
    return false;
}

/* Deletes a pod that is on no node, where somebody will make it again. */
bool gt_look_recreate(struct look *look, const struct gt_feed_pod *pod, struct record *record)
{
    if (look->placement->spec.options.lost_plan != GT_LOST_RECREATE || !pod->meta.owner_name)
        return false;
    gt_write_delete(look->pjob, record);
    return true;
}

static void handle_lost(struct look *look)
{
    for (uint32_t i = 0; i < look->view->count; i++) {
        const struct gt_job_view_member *member = &look->view->members[i];
        if (member->state != GT_MEMBER_LOST && member->state != GT_MEMBER_LIFTED)
            continue;
        bool refused = member->pod->refused ||
                       (member->state == GT_MEMBER_LIFTED && is_refused(look, record_of(look, member->pod)));
        if (member->state == GT_MEMBER_LIFTED && !refused)
            continue;
        const char *reason = refused ? GT_CONDITION_REFUSED : "PlanLost";
        const char *text = refused ? "the scheduler refuses the planned node; GPUs are no longer kept there"
                                   : "the planned GPUs were taken, or are gone, before the pod was bound";
        look->lost++;
        if (!gated(look->view) &&
            !look->view->states[GT_MEMBER_TO_RESERVE]) /* else it says what it waits for */
            gt_placement_set_state(look->pjob, GT_PLACEMENT_LOST, reason, text);
        struct record *record = gt_look_writable(look, member->pod);
        if (!record)
            continue;
        if (refused)
            gt_refuse_see(look->placement, look->pjob->job, member->pod->plan_node, look->now);
        record->lost_told = record->lost_told || member->pod->refused;
        if (!record->lost_told)
            look->placement->counters.lost++;
        bool again = gt_look_recreate(look, member->pod, record);
        if (!record->lost_told) {
            const struct gt_condition_text condition = {.reason = reason, .message = text};
            if (!again)
                gt_write_condition(look->pjob, record, &condition);
            gt_placement_event(look->pjob, member->pod, true, reason, again ? "Recreate" : "Report", text);
        }
        record->lost_told = true;
    }
}

/* ---- after a plan ---- */

/* Whether pods that are still missing are waited for no more. */
static bool may_lift(struct look *look)
{
    struct pjob *pjob = look->pjob;
    if (gt_job_view_is_complete(look->view) || (look->owner && look->owner->sequential))
        return true;
    if (!pjob->lift_ms)
        pjob->lift_ms = look->now + look->placement->spec.options.gang_ms;
    due(pjob, pjob->lift_ms);
    return look->now >= pjob->lift_ms;
}

/* The texts of all plans of gated pods, by member. False where one cannot be made: that pod is planned anew
 * at the next look. */
static bool make_texts(struct look *look, struct gt_plan_texts *texts)
{
    for (uint32_t i = 0; i < look->view->count; i++) {
        const struct gt_job_view_member *member = &look->view->members[i];
        struct gt_feed_pod *pod = member->pod;
        if (member->state != GT_MEMBER_PLANNED)
            continue;
        if (gt_plan_texts_make(look->placement->spec.feed, pod, pod->plan_node, pod->plan_mask, member->unit,
                               look->view->job->members[i].rank, &texts[i], NULL) < 0) {
            gt_feed_unplan_pod(look->placement->spec.feed, pod);
            gt_placement_mark(look->pjob);
            return false;
        }
    }
    return true;
}

/* Volcano, which has no name that is always the same, looks at the nominated node alone, and at all nodes
 * where there is none. kube-scheduler goes by the node affinity, for which the hint would be a request for
 * nothing. */
static bool wants_hint(const char *scheduler)
{
    return scheduler && strcmp(scheduler, "default-scheduler") != 0;
}

/* What has to be in a pod's status before its gate goes, for afterwards its scheduler is faster: the hint,
 * and that it waits no more where it said so. False while that is not written. */
static bool tell_planned(struct look *look, const struct gt_feed_pod *pod, struct record *record,
                         const struct gt_plan_texts *texts)
{
    const char *hint = wants_hint(pod->scheduler) ? texts->node : NULL;
    char message[GT_CLUSTER_NAME_MAX + 128];
    snprintf(message, sizeof(message), "rank %s of the job, in unit %s, on node %s", texts->rank, texts->unit,
             texts->node);
    const struct gt_condition_text condition = {.holds = true, .reason = "Planned", .message = message};
    bool told = !record->object.condition || record->object.condition == gt_condition_digest(&condition);
    bool hinted = hint ? record->object.nominated == gt_index_digest(hint) : !record->object.nominated;
    if (told && hinted)
        return true;
    gt_write_planned(look->pjob, record, &condition, hint);
    return false;
}

/* A pod cannot be made with the hint: those that were made with their plan get it as soon as they are there.
 * Once, for who takes it away has a reason. */
static void hint_made(struct look *look)
{
    for (uint32_t i = 0; i < look->view->count; i++) {
        const struct gt_job_view_member *member = &look->view->members[i];
        const struct gt_feed_pod *pod = member->pod;
        struct gt_plan_texts texts;
        if (member->state != GT_MEMBER_LIFTED || !wants_hint(pod->scheduler))
            continue;
        struct record *record = gt_look_writable(look, pod);
        if (!record || record->hinted || record->object.nominated ||
            gt_plan_texts_make(look->placement->spec.feed, pod, pod->plan_node, pod->plan_mask, member->unit,
                               look->view->job->members[i].rank, &texts, NULL) < 0)
            continue;
        tell_planned(look, pod, record, &texts);
        gt_plan_texts_done(&texts);
    }
}

/* No gate goes before all can: a gang's go in one burst. */
static void lift_gates(struct look *look, const struct gt_plan_texts *texts)
{
    const struct gt_job_view *view = look->view;
    bool ready = true;
    for (uint32_t i = 0; i < view->count; i++) {
        if (view->members[i].state != GT_MEMBER_PLANNED)
            continue;
        const struct gt_feed_pod *pod = view->members[i].pod;
        struct record *record = gt_look_writable(look, pod);
        if (record ? !tell_planned(look, pod, record, &texts[i]) : !gt_job_view_has_begun(view))
            ready = false;
    }
    for (uint32_t i = 0; ready && i < view->count; i++) {
        struct record *record =
            view->members[i].state == GT_MEMBER_PLANNED ? gt_look_writable(look, view->members[i].pod) : NULL;
        if (record)
            gt_write_lift(look->pjob, record, &texts[i]);
    }
}

static void write_plans(struct look *look)
{
    gt_auto_free struct gt_plan_texts *texts = calloc((size_t)look->view->count + 1, sizeof(*texts));
    if (!texts)
        due(look->pjob, look->now + look->placement->spec.options.retry_ms);
    else if (make_texts(look, texts))
        lift_gates(look, texts);
    for (uint32_t i = 0; texts && i < look->view->count; i++)
        gt_plan_texts_done(&texts[i]);
}

static void bring_in(struct look *look)
{
    struct pjob *pjob = look->pjob;
    leave_queue(pjob);
    hint_made(look);
    if (!gated(look->view)) {
        pjob->lift_ms = 0;
        pjob->told_digest = 0;
        pjob->refusal_told = false;
        if (!look->lost)
            gt_placement_set_state(pjob, GT_PLACEMENT_PLACED, "", "");
        return;
    }
    gt_placement_set_state(pjob, GT_PLACEMENT_WRITES, "Planned", "its plan is being written");
    if (may_lift(look))
        write_plans(look);
    else
        gt_placement_set_state(pjob, GT_PLACEMENT_WRITES, "PodsMissing",
                               "its gates are lifted when its other pods are there");
}

/* ---- jobs that are none of ours ---- */

/* Gated all the same: by hand, or in doubt while its owner was not known. */
static void let_go(struct look *look)
{
    struct pjob *pjob = look->pjob;
    const struct gt_feed_pod *first = first_gated(pjob->job);
    leave_queue(pjob);
    if (!first) {
        gt_placement_set_state(pjob, GT_PLACEMENT_NONE, "", "");
        return;
    }
    if (!gt_look_is_ready(look))
        return;
    const char *warning = look->view->job->units.warning;
    gt_placement_set_state(pjob, GT_PLACEMENT_NONE, "NoGroup",
                           warning ? warning : "no gpu-group-size: there is nothing to plan");
    if (pjob->told_digest != 1)
        gt_placement_event(pjob, first, warning != NULL, "NoGroup", "Place", pjob->text);
    pjob->told_digest = 1;
    for (const struct gt_feed_pod *pod = pjob->job->pods; pod; pod = pod->next) {
        struct record *record =
            pod->state == GT_FEED_GATED && !pod->deleting ? gt_look_writable(look, pod) : NULL;
        if (record && !record->lifted)
            gt_write_lift(pjob, record, NULL);
    }
}

static void refuse(struct pjob *pjob, const char *text)
{
    leave_queue(pjob);
    if (!first_gated(pjob->job)) {
        gt_placement_set_state(pjob, GT_PLACEMENT_NONE, "", "");
        return;
    }
    if (pjob->state != GT_PLACEMENT_REFUSED)
        pjob->placement->counters.refused++;
    gt_placement_set_state(pjob, GT_PLACEMENT_REFUSED, "RuleBroken", text);
    gt_placement_report(pjob, NULL, true);
}

/* What passes by itself in a moment is not worth a write. */
static void tell_if_it_lasts(struct look *look)
{
    uint64_t when = look->pjob->since_ms + look->placement->spec.options.settle_ms;
    if (look->now >= when)
        gt_placement_report(look->pjob, look->view, false);
    else
        due(look->pjob, when);
}

static void look_at(struct look *look)
{
    struct pjob *pjob = look->pjob;
    struct gt_job_view *view = look->view;
    if (!view->grouped) {
        let_go(look);
        return;
    }
    handle_lost(look);
    if (pjob->writes)
        return;
    gt_decide_mend(look->placement->spec.feed, view, &pjob->seats);
    if (!view->states[GT_MEMBER_TO_PLACE] && !view->states[GT_MEMBER_TO_RESERVE]) {
        bring_in(look);
    } else if (gt_look_is_ready(look)) {
        enqueue(look);
    } else {
        leave_queue(pjob);
        tell_if_it_lasts(look);
    }
}

/* Pods may come while it waits for answers: each answer that is the last marks the job again. */
void gt_placement_look(struct pjob *pjob)
{
    auto_look struct look look = {.pjob = pjob, .placement = pjob->placement, .now = gt_clock_ms()};
    gt_auto_err struct gt_err *error = NULL;
    pjob->due_ms = UINT64_MAX;
    if (pjob->writes)
        return;
    uint64_t when = pjob->retry_ms > pjob->rest_ms ? pjob->retry_ms : pjob->rest_ms;
    if (when > look.now) {
        due(pjob, when);
        return;
    }
    pjob->retry_ms = 0;
    pjob->placement->counters.looks++;
    uint64_t began = gt_clock_ns();
    int r = gt_look_make(&look, &error);
    pjob->rest_ms = gt_clock_ms() + LOOK_REST * (gt_clock_ns() - began) / 1000000;
    if (r < 0) {
        if (r == -ENOMEM) { /* which is no rule of the job's */
            leave_queue(pjob);
            gt_placement_fail(pjob, gt_err_text(error));
            due(pjob, look.now + pjob->placement->spec.options.retry_ms);
            return;
        }
        /* Without its object a job that is still being made looks broken: wait for its other pods. */
        if (!look.owner && look.now < settled(&look)) {
            leave_queue(pjob);
            gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "OwnerUnknown", gt_err_text(error));
            due(pjob, settled(&look));
            return;
        }
        refuse(pjob, gt_err_text(error));
        return;
    }
    look_at(&look);
}
