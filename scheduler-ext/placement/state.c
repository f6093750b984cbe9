/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/state.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"

enum {
    EACH_WAITING_MS = 100, /* for each job that waits a text stays so much longer: all change together */
    TEXT_MAX = 512 << 10,
};

uint64_t gt_placement_now_s(void)
{
    return gt_clock_wall_ms() / 1000;
}

int64_t gt_placement_unix_s(uint64_t when)
{
    return (int64_t)(gt_clock_wall_ms() + when - gt_clock_ms() + 500) / 1000;
}

void gt_placement_time_text(uint64_t when, char to[static GT_TIME_TEXT_SIZE])
{
    gt_time_text(gt_placement_unix_s(when), to);
}

uint64_t gt_placement_time_of_unix(int64_t when)
{
    int64_t ms = (int64_t)gt_clock_ms() + when * 1000 - (int64_t)gt_clock_wall_ms();
    return when <= 0 ? 0 : ms > 0 ? (uint64_t)ms : 1;
}

uint64_t gt_placement_time_of_text(const char *text)
{
    return gt_placement_time_of_unix(gt_time_of_text(text));
}

bool gt_placement_may_send(void *placement_)
{
    const struct gt_placement *placement = placement_;
    const struct gt_placement_spec *spec = &placement->spec;
    return placement->round.started && (!spec->may_write || spec->may_write(spec->may_write_arg));
}

void gt_placement_wake(struct gt_placement *placement)
{
    if (!placement->round.running)
        gt_source_arm(placement->round.timer, 0);
}

void gt_placement_mark(struct pjob *pjob)
{
    if (pjob->marked || !pjob->job)
        return;
    pjob->marked = true;
    pjob->next_marked = pjob->placement->jobs.marked;
    pjob->placement->jobs.marked = pjob;
    gt_placement_wake(pjob->placement);
}

void gt_placement_list(struct pjob *pjob, enum pjob_list list, bool in)
{
    struct pjob_ends *ends = &pjob->placement->jobs.lists[list];
    struct pjob_link *link = &pjob->links[list];
    if (link->in == in)
        return;
    if (in)
        *link = (struct pjob_link){.previous = ends->last};
    link->in = in;
    *(link->previous ? &link->previous->links[list].next : &ends->first) = in ? pjob : link->next;
    *(link->next ? &link->next->links[list].previous : &ends->last) = in ? pjob : link->previous;
}

void gt_placement_due(struct pjob *pjob, uint64_t when)
{
    if (when < pjob->due_ms)
        pjob->due_ms = when;
    if (when < pjob->placement->round.due_ms)
        pjob->placement->round.due_ms = when;
}

void gt_placement_mark_no_gpus(struct gt_placement *placement)
{
    placement->round.no_gpus_ms = 0;
    if (placement->round.started)
        gt_placement_wake(placement);
}

/* ---- states ---- */

/* The phase by which the GPUPlacement shows a job that is not placed; GT_GPU_PLACEMENT_PLACED: it does not.
 */
static enum gt_gpu_placement_phase phase_before_plan(enum gt_placement_state state)
{
    return state == GT_PLACEMENT_GATHERS   ? GT_GPU_PLACEMENT_PENDING
           : state == GT_PLACEMENT_WAITS   ? GT_GPU_PLACEMENT_WAITING
           : state == GT_PLACEMENT_REFUSED ? GT_GPU_PLACEMENT_REFUSED
                                           : GT_GPU_PLACEMENT_PLACED;
}

static bool has_no_plan(enum gt_gpu_placement_phase phase)
{
    return phase == GT_GPU_PLACEMENT_PENDING || phase == GT_GPU_PLACEMENT_WAITING ||
           phase == GT_GPU_PLACEMENT_REFUSED;
}

static int64_t earlier(int64_t one, int64_t other)
{
    return !one || (other && other < one) ? other : one;
}

int64_t gt_placement_recorded_since(const struct gt_placement *placement, const struct gt_cache_job *job,
                                    const struct placement_known *known, enum gt_placement_state state)
{
    enum gt_gpu_placement_phase phase = phase_before_plan(state);
    int64_t told = 0, created = 0;
    if (state == GT_PLACEMENT_WRITES || state == GT_PLACEMENT_PLACED)
        return known ? gt_time_of_text(known->planned_at) : 0;
    if (known && state == GT_PLACEMENT_WAITS && *known->waiting_since) /* a part may be placed */
        return gt_time_of_text(known->waiting_since);
    if (known && known->phase != phase && (phase != GT_GPU_PLACEMENT_PLACED || has_no_plan(known->phase)))
        return 0;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        const struct record *record = gt_record_of(placement, pod);
        told = earlier(told, record ? record->object.waits_s : 0);
        if (pod->state == GT_CACHE_GATED && !pod->deleting)
            created = earlier(created, (int64_t)pod->created_s);
    }
    return told || phase == GT_GPU_PLACEMENT_PLACED ? told : created;
}

/* A leader that takes over goes on with what the objects say. */
static int64_t since_when(const struct pjob *pjob, enum gt_placement_state state)
{
    const struct placement_known *content = pjob->object ? pjob->object->content : NULL;
    int64_t now = (int64_t)gt_placement_now_s(),
            since = gt_placement_recorded_since(pjob->placement, pjob->job, content, state);
    return since && since < now ? since : now;
}

int64_t gt_placement_since_s(const struct pjob *pjob)
{
    const struct placement_known *content = pjob->object ? pjob->object->content : NULL;
    bool planned = pjob->state == GT_PLACEMENT_WRITES || pjob->state == GT_PLACEMENT_PLACED;
    if (planned && content && *content->planned_at)
        return gt_time_of_text(content->planned_at);
    return pjob->state == GT_PLACEMENT_WAITS && pjob->wait.since_s ? pjob->wait.since_s
                                                                   : pjob->report.since_s;
}

/* Until when the reason and the text stay, since they were reported a moment ago; 0: new ones may come. */
static uint64_t rests_until(const struct pjob *pjob, bool same_reason)
{
    const struct gt_placement *placement = pjob->placement;
    uint64_t until = pjob->report.told_ms + placement->times.report_ms +
                     (same_reason ? (uint64_t)placement->jobs.waiting * EACH_WAITING_MS : 0);
    return pjob->report.told_ms && until > gt_clock_ms() ? until : 0;
}

/* With how many units are placed, where others wait. NULL without memory. */
static char *whole_text(const struct pjob *pjob, enum gt_placement_state state, const char *text)
{
    gt_auto_buf struct gt_buf whole = GT_BUF(TEXT_MAX);
    char cut[GT_GPU_PLACEMENT_MESSAGE_MAX]; /* all that a GPUPlacement takes */
    bool part = pjob->units_placed && (state == GT_PLACEMENT_WAITS || state == GT_PLACEMENT_GATHERS);
    if (part)
        gt_buf_printf(&whole, "%u of its %u units are placed%s", pjob->units_placed, pjob->units,
                      *text ? "; " : "");
    gt_buf_puts(&whole, text);
    gt_text_shorten(cut, sizeof(cut), whole.data && !whole.failed ? whole.data : text);
    return strdup(cut);
}

bool gt_placement_may_follow(const struct pjob *pjob, enum gt_placement_state state, const char *reason)
{
    enum { ANY = -1, QUEUED = ~(1 << GT_PLACEMENT_NONE | 1 << GT_PLACEMENT_REFUSED), CHANGED = 0 };
    enum { OUT = 1, IN = 2, EITHER = 3 }; /* a bit for each value of `queued` */
    static const struct {
        const char *reason;
        enum gt_placement_state to;
        int from, queued;
    } events[] = {
#define JOB_EVENT(word, to, from, queue, why) {word, GT_PLACEMENT_##to, from, queue},
#include "scheduler-ext/placement/job_states.def"
#undef JOB_EVENT
    };
    for (size_t i = 0; i < GT_COUNT(events); i++) {
        int from = events[i].from == CHANGED ? ~(1 << state) : events[i].from;
        if (events[i].to == state && from & 1 << pjob->state && events[i].queued & 1 << pjob->wait.queued &&
            strcmp(events[i].reason, reason) == 0)
            return true;
    }
    return false;
}

void gt_placement_set_state(struct pjob *pjob, enum gt_placement_state state, const char *reason,
                            const char *text)
{
    GT_ASSERT(gt_placement_may_follow(pjob, state, reason));
    if (pjob->state != state) {
        pjob->report.since_ms = gt_clock_ms();
        pjob->report.since_s = since_when(pjob, state);
        pjob->report.told_ms = 0;
        pjob->placement->jobs.waiting += state == GT_PLACEMENT_WAITS;
        pjob->placement->jobs.waiting -= pjob->state == GT_PLACEMENT_WAITS;
    }
    pjob->state = state;
    free(pjob->report.next_text);
    pjob->report.next_text = NULL;
    gt_auto_free char *whole = whole_text(pjob, state, text);
    bool same_reason = strcmp(pjob->report.reason, reason) == 0;
    if (same_reason && whole && pjob->report.text && strcmp(pjob->report.text, whole) == 0)
        return;
    uint64_t until = same_reason || phase_before_plan(state) != GT_GPU_PLACEMENT_PLACED
                         ? rests_until(pjob, same_reason)
                         : 0;
    if (until) {
        pjob->report.next_reason = reason;
        pjob->report.next_text = gt_steal(whole);
        gt_placement_due(pjob, until);
        return;
    }
    free(pjob->report.text);
    pjob->report.text = gt_steal(whole);
    pjob->report.reason = reason;
    pjob->report.told_ms = 0;
}

void gt_placement_set_told(struct pjob *pjob)
{
    pjob->report.told_ms = pjob->report.told_ms ? pjob->report.told_ms : gt_clock_ms();
}

bool gt_placement_renew_text(struct pjob *pjob)
{
    if (!pjob->report.next_text)
        return false;
    uint64_t until = rests_until(pjob, strcmp(pjob->report.next_reason, pjob->report.reason) == 0);
    if (until) {
        gt_placement_due(pjob, until);
        return false;
    }
    free(pjob->report.text);
    pjob->report.text = gt_steal(pjob->report.next_text);
    pjob->report.reason = pjob->report.next_reason;
    pjob->report.told_ms = 0;
    return true;
}

void gt_placement_fail(struct pjob *pjob, const char *text)
{
    pjob->placement->counters.failed++;
    gt_placement_set_state(pjob, GT_PLACEMENT_WAITS, "Failed", text);
}

void gt_placement_event(struct pjob *pjob, const struct gt_cache_pod *pod, bool warning, const char *reason,
                        const char *action, const char *text)
{
    struct gt_placement *placement = pjob->placement;
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, warning, pjob->job->key, text);
    if (!placement->spec.recorder || !pod)
        return;
    struct gt_event_object event = {.api_version = "v1",
                                    .kind = "Pod",
                                    .namespace_ = pod->meta.namespace_,
                                    .name = pod->meta.name,
                                    .uid = pod->uid,
                                    .warning = warning,
                                    .reason = reason,
                                    .action = action,
                                    .note = text};
    gt_kube_record(placement->spec.recorder, &event);
    if (!pod->meta.owner_kind || !pod->meta.owner_name || !pod->owner_api_version)
        return;
    event.api_version = pod->owner_api_version;
    event.kind = pod->meta.owner_kind;
    event.name = pod->meta.owner_name;
    event.uid = pod->owner_uid;
    gt_kube_record(placement->spec.recorder, &event);
}

void gt_placement_write_refused(struct pjob *pjob, const struct gt_cache_pod *pod, const char *action,
                                const struct gt_err *error)
{
    if (!pjob->lift.refusal_reported)
        gt_placement_event(pjob, pod, true, "WriteRefused", action, gt_err_text(error));
    pjob->lift.refusal_reported = true;
}

void gt_placement_precedence(const struct gt_cache_job *job, int32_t *ret_priority, uint64_t *ret_created_s)
{
    *ret_priority = INT32_MIN;
    *ret_created_s = UINT64_MAX;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        if (pod->deleting)
            continue;
        *ret_priority = pod->priority > *ret_priority ? pod->priority : *ret_priority;
        *ret_created_s = pod->created_s < *ret_created_s ? pod->created_s : *ret_created_s;
    }
}

void gt_placement_report_no_gpus(struct gt_placement *placement, const struct record *record)
{
    const char *text =
        record->unread ? record->unread : "it asks for no GPUs: there is nothing to plan, its gate goes";
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, true, gt_record_name(record), text);
    const struct gt_event_object event = {.api_version = "v1",
                                          .kind = "Pod",
                                          .namespace_ = gt_record_namespace(record),
                                          .name = gt_record_name(record),
                                          .uid = record->object.uid,
                                          .warning = true,
                                          .reason = record->unread ? "Unreadable" : "NoGPUs",
                                          .action = "Place",
                                          .note = text};
    if (placement->spec.recorder)
        gt_kube_record(placement->spec.recorder, &event);
}

bool gt_record_is_newer(const struct record *record, const char *version)
{
    uint64_t known, other;
    return !record->relisted && gt_text_to_unsigned(record->object.version, UINT64_MAX - 1, &known) &&
           gt_text_to_unsigned(version, UINT64_MAX - 1, &other) && known > other;
}
