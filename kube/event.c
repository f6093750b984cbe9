/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/event.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/time_text.h"
#include "kube/buckets.h"
#include "kube/internal.h"

enum {
    EVENT_BODY_MAX = 16 << 10,
    ON_THE_WAY_MAX = 8,
    MINUTE_MS = 60000,
    NAME_PART_MAX = 200,
};

/* Rates of equal events, and of events with one reason about one object (the figures are client-go's, which
 * counts per object). */
static const struct gt_bucket_rate same = {1, 600000}, alike = {25, 300000};

/* An event that waits in the queue. */
struct waiting {
    struct waiting *next;
    char *namespace_;
    char body[];
};

struct gt_kube_recorder {
    struct gt_kube *kube;
    char *controller, *instance;
    struct gt_kube_call *calls[ON_THE_WAY_MAX];
    struct slot {
        struct gt_kube_recorder *recorder;
        unsigned number;
    } slots[ON_THE_WAY_MAX];
    struct waiting *first, **last;
    unsigned waiting_count;
    struct gt_buckets seen; /* of both rates */
    struct gt_bucket minute;
    unsigned per_minute;
    struct gt_kube_recorder_counters counters;
};

static void free_waiting(struct waiting *waiting)
{
    free(waiting->namespace_);
    free(waiting);
}

static struct waiting *take_first(struct gt_kube_recorder *recorder)
{
    struct waiting *waiting = recorder->first;
    if (!waiting)
        return NULL;
    recorder->first = waiting->next;
    if (!recorder->first)
        recorder->last = &recorder->first;
    recorder->waiting_count--;
    return waiting;
}

void gt_kube_recorder_free(struct gt_kube_recorder *recorder)
{
    struct waiting *waiting;
    if (!recorder)
        return;
    for (unsigned i = 0; i < ON_THE_WAY_MAX; i++)
        gt_kube_cancel(recorder->calls[i]);
    while ((waiting = take_first(recorder)))
        free_waiting(waiting);
    free(recorder->seen.places);
    free(recorder->controller);
    free(recorder->instance);
    free(recorder);
}

int gt_kube_recorder_new(struct gt_kube *kube, const char *controller, const char *instance,
                         unsigned per_minute, struct gt_kube_recorder **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_kube_recorder_free) struct gt_kube_recorder *recorder = calloc(1, sizeof(*recorder));
    if (!recorder)
        return gt_fail_sys(err, ENOMEM, "event recorder");
    recorder->last = &recorder->first;
    recorder->kube = kube;
    recorder->per_minute = per_minute;
    /* Two for each event that may be written while it counts as the same. */
    recorder->seen.count = 2 * per_minute * (unsigned)(1 + same.refill_ms / MINUTE_MS);
    recorder->seen.places = calloc(recorder->seen.count, sizeof(*recorder->seen.places));
    recorder->controller = strdup(controller);
    recorder->instance = strdup(instance);
    if (!recorder->seen.places || !recorder->controller || !recorder->instance)
        return gt_fail_sys(err, ENOMEM, "event recorder");
    for (unsigned i = 0; i < ON_THE_WAY_MAX; i++)
        recorder->slots[i] = (struct slot){recorder, i};
    *ret = gt_steal(recorder);
    return 0;
}

void gt_kube_recorder_counters(const struct gt_kube_recorder *recorder, struct gt_kube_recorder_counters *ret)
{
    *ret = recorder->counters;
}

static uint64_t event_digest_of(const char *const *texts, unsigned count)
{
    uint64_t digest = count;
    for (unsigned i = 0; i < count; i++)
        digest = gt_digest_number(digest, gt_digest_keyed(texts[i] ? texts[i] : ""));
    return digest;
}

static void write_event(struct gt_kube_recorder *recorder, const struct gt_event_object *event,
                        const char *namespace_, struct gt_buf *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char when[GT_TIME_TEXT_SIZE], name[NAME_PART_MAX + 32];
    gt_time_text_fine(&now, 6, when);
    snprintf(name, sizeof(name), "%.*s.%016llx", NAME_PART_MAX, event->name,
             (unsigned long long)gt_jitter_below(&recorder->kube->jitter, UINT64_MAX));
    gt_event_write(event,
                   &(struct gt_event_origin){.name = name,
                                             .namespace_ = namespace_,
                                             .controller = recorder->controller,
                                             .instance = recorder->instance,
                                             .time = when},
                   to);
}

static void send_waiting(struct gt_kube_recorder *recorder);

static void event_on_written(void *arg, struct gt_kube_answer *answer)
{
    struct slot *slot = arg;
    slot->recorder->calls[slot->number] = NULL;
    if (answer->error)
        slot->recorder->counters.failed++;
    else
        slot->recorder->counters.written++;
    send_waiting(slot->recorder);
}

static void send_waiting(struct gt_kube_recorder *recorder)
{
    for (unsigned place = 0; place < ON_THE_WAY_MAX; place++) {
        struct waiting *waiting = recorder->calls[place] ? NULL : take_first(recorder);
        if (!waiting)
            continue;
        const struct gt_kube_request request = {.verb = GT_KUBE_CREATE,
                                                .resource = &gt_kube_events,
                                                .namespace_ = waiting->namespace_,
                                                .body = waiting->body,
                                                .no_object = true};
        if (gt_kube_start(recorder->kube, &request, event_on_written, &recorder->slots[place],
                          &recorder->calls[place], NULL) < 0)
            recorder->counters.dropped++;
        free_waiting(waiting);
    }
}

static bool event_enqueue(struct gt_kube_recorder *recorder, const struct gt_event_object *event)
{
    const char *namespace_ = event->namespace_ ? event->namespace_ : "default";
    gt_auto_buf struct gt_buf body = GT_BUF(EVENT_BODY_MAX);
    write_event(recorder, event, namespace_, &body);
    struct waiting *waiting = body.failed ? NULL : malloc(sizeof(*waiting) + body.len + 1);
    if (!waiting)
        return false;
    *waiting = (struct waiting){.namespace_ = strdup(namespace_)};
    memcpy(waiting->body, body.data, body.len + 1);
    if (!waiting->namespace_) {
        free(waiting);
        return false;
    }
    *recorder->last = waiting;
    recorder->last = &waiting->next;
    recorder->waiting_count++;
    return true;
}

void gt_kube_record(struct gt_kube_recorder *recorder, const struct gt_event_object *event)
{
    const char *texts[] = {event->kind,   event->namespace_, event->name,
                           event->uid,    event->reason,     event->warning ? "Warning" : "",
                           event->action, event->note};
    const uint64_t whole = event_digest_of(texts, GT_COUNT(texts)), about = event_digest_of(texts, 5);
    const uint64_t now = gt_clock_ms();
    const struct gt_bucket_rate rate = {recorder->per_minute, MINUTE_MS / recorder->per_minute};
    struct gt_buckets minute = {&recorder->minute, 1};
    if (!gt_bucket_has(&recorder->seen, whole, same, now)) {
        recorder->counters.repeated++;
        return;
    }
    if (recorder->waiting_count >= recorder->per_minute ||
        !gt_bucket_has(&recorder->seen, about, alike, now) || !gt_bucket_has(&minute, 0, rate, now) ||
        !event_enqueue(recorder, event)) {
        recorder->counters.dropped++;
        return;
    }
    gt_bucket_take(&recorder->seen, whole, same, now);
    gt_bucket_take(&recorder->seen, about, alike, now);
    gt_bucket_take(&minute, 0, rate, now);
    send_waiting(recorder);
}
