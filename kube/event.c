/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/json_write.h"
#include "base/prometheus.h"
#include "base/time_text.h"
#include "kube/buckets.h"
#include "kube/internal.h"
#include "kube/writer.h"

enum {
    EVENT_BODY_MAX = 16 << 10,
    ON_THE_WAY_MAX = 8,
    EVENT_TRIES = 7,
    MINUTE_MS = 60000,
    NAME_PART_MAX = 200,
};

/* Rates of equal events, and of events with one reason about one object (the figures are client-go's, which
 * counts per object). */
static const struct gt_bucket_rate same = {1, 600000}, alike = {25, 300000};

struct gt_kube_recorder {
    struct gt_kube *kube;
    char *controller, *instance;
    struct gt_write_line line;
    struct gt_buckets seen; /* of both rates */
    struct gt_bucket minute;
    unsigned per_minute;
    struct gt_kube_recorder_counters counters;
    struct kept_events {
        struct kept_event {
            char *json; /* what happened, without its object: {"reason":...,"text":... */
            char *whole;
            char *namespace_; /* "": it has none */
            uint64_t number;
            bool of_pod;
        } of[GT_EVENTS_KEPT];
        uint64_t count; /* that there ever were */
    } kept[2];          /* [1]: of Nodes, which the many others do not push out */
    uint64_t kept_last; /* its number */
};

void gt_kube_recorder_free(struct gt_kube_recorder *recorder)
{
    if (!recorder)
        return;
    gt_write_close(&recorder->line);
    for (unsigned i = 0; i < 2 * GT_EVENTS_KEPT; i++) {
        struct kept_event *event = &recorder->kept[i % 2].of[i / 2];
        free(event->json);
        free(event->whole);
        free(event->namespace_);
    }
    free(recorder->seen.places);
    free(recorder->controller);
    free(recorder->instance);
    free(recorder);
}

/* Where the answer to the first try was lost, the event is there already. */
static bool event_on_written(struct gt_write_key *key, enum gt_write_outcome outcome,
                             struct gt_kube_answer *answer)
{
    struct gt_kube_recorder *recorder = key->of;
    bool written = outcome == GT_WRITE_DONE || gt_err_code(answer->error) == EEXIST;
    *(written ? &recorder->counters.written : &recorder->counters.failed) += 1;
    return false;
}

int gt_kube_recorder_new(struct gt_kube *kube, const char *controller, const char *instance,
                         unsigned per_minute, struct gt_kube_recorder **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_kube_recorder_free) struct gt_kube_recorder *recorder = calloc(1, sizeof(*recorder));
    GT_NEED(recorder, err, "event recorder");
    recorder->kube = kube;
    recorder->line = (struct gt_write_line){.name = "events",
                                            .order = GT_WRITE_LAST,
                                            .running_max = ON_THE_WAY_MAX,
                                            .body_max = EVENT_BODY_MAX,
                                            .quiet_tries = EVENT_TRIES,
                                            .answered = event_on_written};
    recorder->per_minute = per_minute;
    /* Two for each event that may be written while it counts as the same. */
    recorder->seen.count = 2 * per_minute * (unsigned)(1 + same.refill_ms / MINUTE_MS);
    recorder->seen.places = calloc(recorder->seen.count, sizeof(*recorder->seen.places));
    recorder->controller = strdup(controller);
    recorder->instance = strdup(instance);
    GT_NEED(recorder->seen.places && recorder->controller && recorder->instance, err, "event recorder");
    gt_write_open(gt_kube_writer(kube), &recorder->line);
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

static bool event_post(struct gt_kube_recorder *recorder, const struct gt_event_object *event)
{
    const char *namespace_ = event->namespace_ ? event->namespace_ : "default";
    gt_auto_buf struct gt_buf body = GT_BUF(EVENT_BODY_MAX);
    write_event(recorder, event, namespace_, &body);
    const struct gt_kube_request request = {.verb = GT_KUBE_CREATE,
                                            .resource = &gt_kube_events,
                                            .namespace_ = namespace_,
                                            .body = body.data,
                                            .no_object = true};
    return !body.failed && gt_write_post(&recorder->line, &request, recorder);
}

void gt_kube_recorder_note(struct gt_kube_recorder *recorder, const struct gt_event_object *event)
{
    struct kept_events *kept = &recorder->kept[strcmp(event->kind, "Node") == 0];
    struct kept_event *last = &kept->of[kept->count % GT_EVENTS_KEPT];
    gt_auto_buf struct gt_buf json = GT_BUF(EVENT_BODY_MAX), whole = GT_BUF(EVENT_BODY_MAX);
    gt_json_printf(&json, "'warning': !%d, 'reason': %s, 'text': %s, 'namespace': %s", event->warning,
                   event->reason, event->note, event->namespace_ ? event->namespace_ : "");
    bool owner = last->of_pod && strcmp(event->kind, "Pod") != 0 && last->json && json.data &&
                 strcmp(last->json, json.data) == 0;
    gt_json_printf(&whole, "{'number': %" PRIu64 ", 'ms': %" PRIu64 ", 'kind': %s, 'name': %s, =%s}",
                   recorder->kept_last + 1, gt_clock_wall_ms(), event->kind, event->name, json.data);
    char *namespace_ = strdup(event->namespace_ ? event->namespace_ : "");
    if (json.failed || whole.failed || !namespace_) {
        free(namespace_);
        return;
    }
    recorder->kept_last++;
    struct kept_event *next = &kept->of[++kept->count % GT_EVENTS_KEPT];
    if (owner) /* the same of its pod */
        last->number = 0;
    free(next->json);
    free(next->whole);
    free(next->namespace_);
    *next = (struct kept_event){gt_buf_take(&json), gt_buf_take(&whole), namespace_, recorder->kept_last,
                                strcmp(event->kind, "Pod") == 0};
}

uint64_t gt_kube_recorder_kept(const struct gt_kube_recorder *recorder, uint64_t after,
                               const char *namespace_, struct gt_buf *to)
{
    uint64_t at[2];
    for (unsigned i = 0; i < 2; i++)
        at[i] = recorder->kept[i].count > GT_EVENTS_KEPT ? recorder->kept[i].count - GT_EVENTS_KEPT : 0;
    for (;;) {
        const struct kept_event *event = NULL;
        unsigned from = 0;
        for (unsigned i = 0; i < 2; i++) {
            const struct kept_event *next = &recorder->kept[i].of[(at[i] + 1) % GT_EVENTS_KEPT];
            if (at[i] < recorder->kept[i].count && (!event || next->number < event->number)) {
                event = next;
                from = i;
            }
        }
        if (!event)
            return recorder->kept_last;
        at[from]++;
        if (event->number > after && event->whole &&
            (!namespace_ || strcmp(event->namespace_, namespace_) == 0))
            gt_json_add_raw(to, NULL, event->whole);
    }
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
    gt_kube_recorder_note(recorder, event);
    if (gt_write_count(&recorder->line) >= recorder->per_minute ||
        !gt_bucket_has(&recorder->seen, about, alike, now) || !gt_bucket_has(&minute, 0, rate, now) ||
        !event_post(recorder, event)) {
        recorder->counters.dropped++;
        return;
    }
    gt_bucket_take(&recorder->seen, whole, same, now);
    gt_bucket_take(&recorder->seen, about, alike, now);
    gt_bucket_take(&minute, 0, rate, now);
}

void gt_kube_recorder_metrics(const struct gt_kube_recorder_counters *counters, struct gt_buf *to)
{
    gt_prom_by(to, "gputopo_events_total", "Events for the cluster's people, by result.", "result",
               (const struct gt_prom_sample[]){{"written", counters->written},
                                               {"failed", counters->failed},
                                               {"repeated", counters->repeated},
                                               {"dropped", counters->dropped},
                                               {NULL, 0}});
}
