/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/problem_events.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "kube/index.h"

struct gt_problem_events {
    struct gt_kube_recorder *recorder;
    uint64_t *before, *now; /* digests; `before` is sorted */
    uint32_t before_count, now_count;
};

int gt_problem_events_new(struct gt_kube_recorder *recorder, struct gt_problem_events **ret,
                          struct gt_err **err)
{
    struct gt_problem_events *told = calloc(1, sizeof(*told));
    if (told) {
        told->recorder = recorder;
        told->before = calloc(GT_PROBLEM_EVENTS_MAX, sizeof(*told->before));
        told->now = calloc(GT_PROBLEM_EVENTS_MAX, sizeof(*told->now));
    }
    if (!told || !told->before || !told->now) {
        gt_problem_events_free(told);
        return gt_fail_sys(err, ENOMEM, "troubles");
    }
    *ret = told;
    return 0;
}

void gt_problem_events_free(struct gt_problem_events *told)
{
    if (!told)
        return;
    free(told->before);
    free(told->now);
    free(told);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void gt_problem_events_begin(struct gt_problem_events *told)
{
    told->now_count = 0;
}

void gt_problem_events_add(struct gt_problem_events *told, const struct gt_kube_event *event)
{
    uint64_t digest = gt_digest_keyed(event->note) ^ gt_digest_keyed(event->reason) * 31 ^
                      gt_digest_keyed(event->name ? event->name : "") * 37;
    if (told->now_count == GT_PROBLEM_EVENTS_MAX)
        return;
    told->now[told->now_count++] = digest;
    if (bsearch(&digest, told->before, told->before_count, sizeof(digest), compare))
        return;
    gt_warning("something is wrong", GT_STR("reason", event->reason), GT_STR("what", event->note));
    if (event->name)
        gt_kube_record(told->recorder, event);
}

void gt_problem_events_end(struct gt_problem_events *told)
{
    uint64_t *swapped = told->before;
    qsort(told->now, told->now_count, sizeof(*told->now), compare);
    told->before = told->now;
    told->before_count = told->now_count;
    told->now = swapped;
}

void gt_problem_events_forget(struct gt_problem_events *told)
{
    told->before_count = 0;
}
