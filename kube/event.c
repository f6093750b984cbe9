/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/event.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "kube/index.h"
#include "kube/internal.h"
#include "kube/lease.h"

enum {
    BODY_MAX = 16 << 10,
    NOTE_MAX = 1000, /* the API takes 1,024 */
    ON_THE_WAY_MAX = 8,
    REMEMBERED = 64,
    REPEAT_MS = 600000,
    MINUTE_MS = 60000,
    PER_MINUTE_MAX = 60,
    NAME_PART_MAX = 200,
};

struct gt_kube_recorder {
    struct gt_kube *kube;
    char *controller, *instance;
    struct gt_kube_call *calls[ON_THE_WAY_MAX];
    struct slot {
        struct gt_kube_recorder *recorder;
        unsigned number;
    } slots[ON_THE_WAY_MAX];
    struct {
        uint64_t digest, at; /* digest 0: free */
    } seen[REMEMBERED];
    unsigned seen_next;
    uint64_t minute_began;
    unsigned minute_count;
    struct gt_kube_recorder_counters counters;
};

void gt_kube_recorder_free(struct gt_kube_recorder *recorder)
{
    if (!recorder)
        return;
    for (unsigned i = 0; i < ON_THE_WAY_MAX; i++)
        gt_kube_cancel(recorder->calls[i]);
    free(recorder->controller);
    free(recorder->instance);
    free(recorder);
}

int gt_kube_recorder_new(struct gt_kube *kube, const char *controller, const char *instance,
                         struct gt_kube_recorder **ret, struct gt_err **err)
{
    gt_auto_kube_recorder struct gt_kube_recorder *recorder = calloc(1, sizeof(*recorder));
    if (!recorder || !(recorder->controller = strdup(controller)) || !(recorder->instance = strdup(instance)))
        return gt_fail_sys(err, ENOMEM, "event recorder");
    recorder->kube = kube;
    for (unsigned i = 0; i < ON_THE_WAY_MAX; i++)
        recorder->slots[i] = (struct slot){recorder, i};
    *ret = gt_steal(recorder);
    return 0;
}

void gt_kube_recorder_counters(const struct gt_kube_recorder *recorder, struct gt_kube_recorder_counters *ret)
{
    *ret = recorder->counters;
}

static uint64_t digest_of(const struct gt_kube_event *event)
{
    const char *texts[] = {event->kind,   event->namespace_, event->name, event->uid,
                           event->reason, event->action,     event->note};
    uint64_t digest = event->warning;
    for (unsigned i = 0; i < GT_COUNT(texts); i++)
        digest = digest * 0x100000001b3U + gt_index_digest(texts[i] ? texts[i] : "");
    return digest ? digest : 1;
}

static bool is_repeated(struct gt_kube_recorder *recorder, uint64_t digest, uint64_t now)
{
    for (unsigned i = 0; i < REMEMBERED; i++)
        if (recorder->seen[i].digest == digest && now - recorder->seen[i].at < REPEAT_MS)
            return true;
    return false;
}

/* Counts what is in its minute. */
static bool is_too_much(struct gt_kube_recorder *recorder, uint64_t now)
{
    if (!recorder->minute_began || now - recorder->minute_began >= MINUTE_MS) {
        recorder->minute_began = now;
        recorder->minute_count = 0;
    }
    return recorder->minute_count++ >= PER_MINUTE_MAX;
}

static void member(struct gt_buf *to, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    if (to->data[to->len - 1] != '{')
        gt_buf_puts(to, ",");
    gt_buf_printf(to, "\"%s\":", key);
    gt_text_quote(to, value);
}

/* At most NOTE_MAX bytes, no character cut through. */
static void cut_note(const char *note, char to[static NOTE_MAX + 1])
{
    size_t n = 0;
    while (note[n]) {
        unsigned step = gt_text_utf8_length(note + n);
        step = step ? step : 1;
        if (n + step > NOTE_MAX)
            break;
        n += step;
    }
    memcpy(to, note, n);
    to[n] = '\0';
}

static void write_event(struct gt_kube_recorder *recorder, const struct gt_kube_event *event,
                        const char *namespace_, struct gt_buf *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char when[GT_KUBE_TIME_MAX], note[NOTE_MAX + 1], name[NAME_PART_MAX + 32];
    gt_kube_time(&now, when);
    cut_note(event->note, note);
    snprintf(name, sizeof(name), "%.*s.%016llx", NAME_PART_MAX, event->name,
             (unsigned long long)gt_jitter_below(&recorder->kube->jitter, UINT64_MAX));
    gt_buf_puts(to, "{");
    member(to, "apiVersion", "events.k8s.io/v1");
    member(to, "kind", "Event");
    gt_buf_puts(to, ",\"metadata\":{");
    member(to, "name", name);
    member(to, "namespace", namespace_);
    gt_buf_puts(to, "}");
    member(to, "eventTime", when);
    member(to, "type", event->warning ? "Warning" : "Normal");
    member(to, "reason", event->reason);
    member(to, "action", event->action);
    member(to, "note", note);
    member(to, "reportingController", recorder->controller);
    member(to, "reportingInstance", recorder->instance);
    gt_buf_puts(to, ",\"regarding\":{");
    member(to, "apiVersion", event->api_version);
    member(to, "kind", event->kind);
    member(to, "namespace", event->namespace_);
    member(to, "name", event->name);
    member(to, "uid", event->uid);
    gt_buf_puts(to, "}}");
}

static void on_written(void *arg, struct gt_kube_answer *answer)
{
    struct slot *slot = arg;
    slot->recorder->calls[slot->number] = NULL;
    if (answer->error)
        slot->recorder->counters.failed++;
    else
        slot->recorder->counters.written++;
}

void gt_kube_record(struct gt_kube_recorder *recorder, const struct gt_kube_event *event)
{
    uint64_t now = gt_kube_now_ms(), digest = digest_of(event);
    if (is_repeated(recorder, digest, now)) {
        recorder->counters.repeated++;
        return;
    }
    unsigned place = 0;
    while (place < ON_THE_WAY_MAX && recorder->calls[place])
        place++;
    if (place == ON_THE_WAY_MAX || is_too_much(recorder, now)) {
        recorder->counters.dropped++;
        return;
    }
    const char *namespace_ = event->namespace_ ? event->namespace_ : "default";
    gt_auto_buf struct gt_buf body = GT_BUF(BODY_MAX);
    write_event(recorder, event, namespace_, &body);
    const struct gt_kube_request request = {
        .verb = GT_KUBE_CREATE, .resource = &gt_kube_events, .namespace_ = namespace_, .body = body.data};
    if (body.failed || gt_kube_start(recorder->kube, &request, on_written, &recorder->slots[place],
                                     &recorder->calls[place], NULL) < 0) {
        recorder->counters.dropped++;
        return;
    }
    recorder->seen[recorder->seen_next].digest = digest;
    recorder->seen[recorder->seen_next].at = now;
    recorder->seen_next = (recorder->seen_next + 1) % REMEMBERED;
}
