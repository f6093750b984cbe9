/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/supernodes_private.h"

#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "base/log.h"

struct gt_problem_events {
    struct gt_kube_recorder *recorder;
    uint64_t *before, *now; /* digests; `before` is sorted */
    uint32_t before_count, now_count;
};

int gt_problem_events_new(struct gt_kube_recorder *recorder, struct gt_problem_events **ret,
                          struct gt_err **err)
{
    struct gt_problem_events *events = calloc(1, sizeof(*events));
    if (events) {
        events->recorder = recorder;
        events->before = calloc(GT_PROBLEM_EVENTS_MAX, sizeof(*events->before));
        events->now = calloc(GT_PROBLEM_EVENTS_MAX, sizeof(*events->now));
    }
    if (!events || !events->before || !events->now) {
        gt_problem_events_free(events);
        return gt_fail_sys(err, ENOMEM, "troubles");
    }
    *ret = events;
    return 0;
}

void gt_problem_events_free(struct gt_problem_events *events)
{
    if (!events)
        return;
    free(events->before);
    free(events->now);
    free(events);
}

static int problem_events_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void gt_problem_events_begin(struct gt_problem_events *events)
{
    events->now_count = 0;
}

void gt_problem_events_add(struct gt_problem_events *events, const struct gt_event_object *event)
{
    uint64_t digest = gt_digest_keyed(event->note) ^ gt_digest_keyed(event->reason) * 31 ^
                      gt_digest_keyed(event->name ? event->name : "") * 37;
    if (events->now_count == GT_PROBLEM_EVENTS_MAX)
        return;
    events->now[events->now_count++] = digest;
    if (bsearch(&digest, events->before, events->before_count, sizeof(digest), problem_events_compare))
        return;
    gt_warning("something is wrong", GT_STR("reason", event->reason), GT_STR("what", event->note));
    if (event->name)
        gt_kube_record(events->recorder, event);
}

void gt_problem_events_end(struct gt_problem_events *events)
{
    uint64_t *swapped = events->before;
    qsort(events->now, events->now_count, sizeof(*events->now), problem_events_compare);
    events->before = events->now;
    events->before_count = events->now_count;
    events->now = swapped;
}

void gt_problem_events_forget(struct gt_problem_events *events)
{
    events->before_count = 0;
}
