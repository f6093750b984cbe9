/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

#include <stdbool.h>

static bool heap_before(const struct gt_event *a, const struct gt_event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

int gt_heap_add(struct gt_heap *heap, struct gt_event event, struct gt_err **err)
{
    GT_NEED(GT_GROW(heap->event, heap->count, heap->capacity, 256), err, "events");
    event.order = heap->added++;
    uint32_t i = heap->count++;
    for (; i && heap_before(&event, &heap->event[(i - 1) / 2]); i = (i - 1) / 2)
        heap->event[i] = heap->event[(i - 1) / 2];
    heap->event[i] = event;
    return 0;
}

struct gt_event gt_heap_take(struct gt_heap *heap)
{
    struct gt_event first = heap->event[0], last = heap->event[--heap->count];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap_before(&heap->event[child + 1], &heap->event[child]))
            child++;
        if (!heap_before(&heap->event[child], &last))
            break;
        heap->event[i] = heap->event[child];
        i = child;
    }
    heap->event[i] = last;
    return first;
}
