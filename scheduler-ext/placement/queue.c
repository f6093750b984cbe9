/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/queue.h"

#include <errno.h>
#include <search.h>
#include <string.h>

/* A round that found no room rests for so many times as long as it took: big jobs that wait must not take the
 * loop's time whenever a pod ends. */
enum { SHAPES_MAX = 256, REST = 4 };

struct item {
    struct gt_queue_entry entry;
    uint64_t round;    /* the last one that tried it */
    uint64_t hopeless; /* the round that found no nodes which would help; 0: none */
};

struct gt_queue {
    struct gt_queue_spec spec;
    struct item **block; /* memory for `capacity` */
    struct item **items; /* in order, within the block */
    void *by_job;        /* of search.h, the same ones */
    uint32_t count, capacity;
    uint64_t round;
    uint64_t wasted_ms, rest_until; /* on jobs that this round found no room for; no round before */
    bool running, woken;
    struct item *holder;
    struct {
        uint64_t shape;
        void *job;
    } failed[SHAPES_MAX]; /* in this round, a table by the shape's last digits */
};

int gt_queue_new(const struct gt_queue_spec *spec, struct gt_queue **ret, struct gt_err **err)
{
    struct gt_queue *queue = calloc(1, sizeof(*queue));
    if (!queue)
        return gt_fail_sys(err, ENOMEM, "queue");
    queue->spec = *spec;
    *ret = queue;
    return 0;
}

void gt_queue_free(struct gt_queue *queue)
{
    tdestroy(queue->by_job, free);
    free(queue->block);
    free(queue);
}

static int order(const struct gt_queue_entry *a, const struct gt_queue_entry *b)
{
    if (a->partial != b->partial)
        return a->partial ? -1 : 1;
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (a->created_s != b->created_s)
        return a->created_s < b->created_s ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static int by_job(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    uintptr_t left = (uintptr_t)x->entry.job, right = (uintptr_t)y->entry.job;
    return (left > right) - (left < right);
}

static struct item *find(const struct gt_queue *queue, const void *job)
{
    const struct item key = {.entry.job = (void *)(uintptr_t)job};
    struct item *const *found = tfind(&key, &queue->by_job, by_job);
    return found ? *found : NULL;
}

/* The place of an entry: behind all that go before it. */
static uint32_t place_for(const struct gt_queue *queue, const struct gt_queue_entry *entry)
{
    uint32_t low = 0, high = queue->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (order(&queue->items[middle]->entry, entry) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes room behind the last one. */
static int make_room(struct gt_queue *queue, struct gt_err **err)
{
    uint32_t before = (uint32_t)(queue->items - queue->block), capacity = queue->capacity;
    if (before + queue->count < capacity)
        return 0;
    if (queue->count >= GT_QUEUE_MAX)
        return gt_fail(err, E2BIG, "more than %d jobs wait", GT_QUEUE_MAX);
    if (before <= capacity / 2) {
        capacity = capacity ? capacity * 2 : 64;
        struct item **block = realloc(queue->block, sizeof(struct item *) * capacity);
        if (!block && !before)
            return gt_fail_sys(err, ENOMEM, "queue");
        queue->block = block ? block : queue->block;
        queue->capacity = block ? capacity : queue->capacity;
    }
    memmove(queue->block, queue->block + before, sizeof(struct item *) * queue->count);
    queue->items = queue->block;
    return 0;
}

/* Most leave at the front, and join at the end: what is shorter moves. */
static void take_out(struct gt_queue *queue, const struct item *item)
{
    uint32_t at = place_for(queue, &item->entry);
    if (at < queue->count / 2) {
        memmove(queue->items + 1, queue->items, sizeof(struct item *) * at);
        queue->items++;
    } else {
        memmove(queue->items + at, queue->items + at + 1, sizeof(struct item *) * (queue->count - at - 1));
    }
    queue->count--;
    unsigned slot = (unsigned)(item->entry.shape % SHAPES_MAX);
    if (queue->failed[slot].job == item->entry.job)
        queue->failed[slot].job = NULL; /* it speaks for others no more */
}

static int put_in(struct gt_queue *queue, struct item *item, struct gt_err **err)
{
    int r = make_room(queue, err);
    if (r < 0)
        return r;
    uint32_t at = place_for(queue, &item->entry);
    memmove(queue->items + at + 1, queue->items + at, sizeof(struct item *) * (queue->count - at));
    queue->items[at] = item;
    queue->count++;
    return 0;
}

static int add(struct gt_queue *queue, const struct gt_queue_entry *entry, struct gt_err **err)
{
    struct item *item = calloc(1, sizeof(*item));
    if (item)
        item->entry = *entry;
    if (!item || !tsearch(item, &queue->by_job, by_job)) {
        free(item);
        return gt_fail_sys(err, ENOMEM, "queue");
    }
    int r = put_in(queue, item, err);
    if (r < 0) {
        tdelete(item, &queue->by_job, by_job);
        free(item);
    }
    return r;
}

int gt_queue_put(struct gt_queue *queue, const struct gt_queue_entry *entry, struct gt_err **err)
{
    struct item *item = find(queue, entry->job);
    int r = 0;
    if (item) {
        const struct gt_queue_entry *old = &item->entry;
        if (old->partial == entry->partial && old->priority == entry->priority &&
            old->created_s == entry->created_s && old->number == entry->number &&
            old->shape == entry->shape && old->since_ms == entry->since_ms)
            return 0;
        take_out(queue, item);
        item->entry = *entry;
        r = put_in(queue, item, err); /* it has left its room */
    } else {
        r = add(queue, entry, err);
    }
    queue->woken = queue->woken || r == 0;
    return r;
}

static void drop_holder(struct gt_queue *queue)
{
    if (!queue->holder)
        return;
    queue->holder = NULL;
    queue->spec.hold(queue->spec.arg, NULL);
    queue->woken = true; /* others may use the nodes again */
}

bool gt_queue_remove(struct gt_queue *queue, const void *job)
{
    struct item *item = find(queue, job);
    if (!item)
        return false;
    take_out(queue, item);
    tdelete(item, &queue->by_job, by_job);
    bool held = queue->holder == item;
    free(item);
    if (held)
        drop_holder(queue);
    return true;
}

uint32_t gt_queue_place(const struct gt_queue *queue, const void *job)
{
    const struct item *item = find(queue, job);
    return item ? place_for(queue, &item->entry) : UINT32_MAX;
}

void *gt_queue_before(const struct gt_queue *queue, const void *job)
{
    uint32_t place = gt_queue_place(queue, job);
    return place && place < queue->count ? queue->items[place - 1]->entry.job : NULL;
}

void gt_queue_wake(struct gt_queue *queue)
{
    queue->woken = true;
}

static bool is_behind_holder(const struct gt_queue *queue, const struct gt_queue_entry *entry)
{
    return queue->holder && queue->holder->entry.job != entry->job && order(&queue->holder->entry, entry) < 0;
}

/* Becomes the holder, where it has waited for long enough and nobody before it holds. */
static void consider(struct gt_queue *queue, struct item *item, uint64_t now)
{
    if (queue->spec.patience_ms == UINT64_MAX || item->entry.since_ms + queue->spec.patience_ms > now ||
        item->hopeless == queue->round || is_behind_holder(queue, &item->entry))
        return;
    /* The holder too chooses anew in each round: nodes come and go. */
    if (queue->spec.hold(queue->spec.arg, item->entry.job)) {
        queue->holder = item;
        return;
    }
    item->hopeless = queue->round;
    if (queue->holder == item)
        drop_holder(queue);
}

static enum gt_queue_result try_one(struct gt_queue *queue, const struct gt_queue_entry *entry)
{
    uint64_t shape = entry->shape;
    unsigned slot = (unsigned)(shape % SHAPES_MAX);
    if (shape && queue->failed[slot].job && queue->failed[slot].shape == shape) {
        queue->spec.same(queue->spec.arg, entry->job, queue->failed[slot].job);
        return GT_QUEUE_BLOCKED;
    }
    enum gt_queue_result result =
        queue->spec.try(queue->spec.arg, entry->job, is_behind_holder(queue, entry));
    if (result == GT_QUEUE_BLOCKED && shape) {
        queue->failed[slot].shape = shape;
        queue->failed[slot].job = entry->job;
    }
    return result;
}

/* The first in order that this round has not tried; `from` is where to begin. */
static uint32_t next_of(const struct gt_queue *queue, uint32_t from)
{
    while (from < queue->count && queue->items[from]->round == queue->round)
        from++;
    return from;
}

static void begin(struct gt_queue *queue)
{
    queue->round++;
    queue->running = true;
    queue->woken = false;
    queue->wasted_ms = 0;
    memset(queue->failed, 0, sizeof(queue->failed));
}

bool gt_queue_run(struct gt_queue *queue, uint64_t budget_ms)
{
    uint64_t now = queue->spec.now_ms(queue->spec.arg), end = now + budget_ms;
    if (!queue->running) {
        if (!queue->woken || !queue->count || now < queue->rest_until)
            return false;
        begin(queue);
    }
    for (uint32_t at = next_of(queue, 0); at < queue->count; at = next_of(queue, at)) {
        struct item *item = queue->items[at];
        uint64_t before = now;
        item->round = queue->round;
        enum gt_queue_result result = try_one(queue, &item->entry);
        if (result == GT_QUEUE_DONE)
            gt_queue_remove(queue, item->entry.job);
        else if (result == GT_QUEUE_BLOCKED)
            consider(queue, item, now);
        now = queue->spec.now_ms(queue->spec.arg);
        queue->wasted_ms += result == GT_QUEUE_DONE ? 0 : now - before;
        if (now >= end && next_of(queue, 0) < queue->count)
            return true;
    }
    queue->running = false;
    queue->rest_until = now + REST * queue->wasted_ms;
    return gt_queue_next_ms(queue) <= now;
}

uint64_t gt_queue_next_ms(const struct gt_queue *queue)
{
    return queue->running ? 0 : queue->woken && queue->count ? queue->rest_until : UINT64_MAX;
}
