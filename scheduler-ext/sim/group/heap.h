/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#include <stdint.h>

/* A heap of events by time; events of equal time in the order of adding. */
enum gt_event_kind { GT_EVENT_END, GT_EVENT_FAIL, GT_EVENT_LOST, GT_EVENT_REPAIR };

struct gt_event {
    double time;
    uint64_t order;
    enum gt_event_kind kind;
    uint32_t subject; /* job or node */
    uint32_t epoch;   /* of the job, or number of the node's failures: events of older epochs are ignored */
};

struct gt_heap {
    struct gt_event *event;
    uint32_t count, capacity;
    uint64_t added;
};

int gt_heap_add(struct gt_heap *heap, struct gt_event event, struct gt_err **err);
struct gt_event gt_heap_take(struct gt_heap *heap); /* count must not be 0 */
static inline void gt_heap_done(struct gt_heap *heap)
{
    free(heap->event);
}
