/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/queue.h"

#include <errno.h>
#include <search.h>
#include <string.h>

/* After a round that found no room there is a pause of so many times its duration, so that large waiting jobs
 * do not take the loop's time whenever a pod ends. */
enum { SHAPES_MAX = 256, REST = 4 };

/* Fractions of a GPU in a start, so that weights up to a thousand matter; and the most GPUs that a job counts
 * for. */
enum { START_UNIT = 1 << 10, GPUS_MAX = 1 << 30 };

struct item {
    struct gt_queue_entry entry;
    uint64_t start;      /* in the fair queue of namespaces */
    uint64_t round;      /* the last one that tried it */
    bool blocked;        /* it had no room when it was last tried */
    bool preempts;       /* others were leaving for it then */
    uint64_t infeasible; /* the last round in which no nodes would help it; 0: none */
    bool never;          /* when it was last tried, it would not have fit even into the empty cluster */
    uint64_t never_ms;   /* the last time that it was so; 0: it never was */
};

struct gt_queue {
    struct gt_queue_spec spec;
    struct item **block; /* memory for `capacity` */
    struct item **items; /* in order, within the block */
    void *by_job;        /* of search.h, the same ones */
    uint32_t count, capacity;
    uint32_t shares;  /* namespaces with waiting jobs */
    uint32_t blocked; /* jobs */
    uint64_t round;
    uint64_t wasted_ms, rest_until; /* on jobs for which this round has no room; older rounds do not count */
    bool running, woken;
    struct item *holder;
    struct item *again; /* of this round: candidate for another reservation, if no job gets its first */
    struct {
        uint64_t shape;
        void *job;
        enum gt_queue_result result;
    } failed[SHAPES_MAX]; /* blocked in this round, a table by the low bits of the shape */
};

int gt_queue_new(const struct gt_queue_spec *spec, struct gt_queue **ret, struct gt_err **err)
{
    struct gt_queue *queue = calloc(1, sizeof(*queue));
    GT_NEED(queue, err, "queue");
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

static int order_by_class(const struct item *x, const struct item *y)
{
    const struct gt_queue_entry *a = &x->entry, *b = &y->entry;
    if (x->never != y->never)
        return x->never ? 1 : -1;
    if (a->partial != b->partial)
        return a->partial ? -1 : 1;
    GT_BY(b->priority, a->priority);
    return a->grows - b->grows;
}

static int order_by_age(const struct gt_queue_entry *a, const struct gt_queue_entry *b)
{
    GT_BY(a->created_s, b->created_s);
    return (a->number > b->number) - (a->number < b->number);
}

static int order(const struct item *a, const struct item *b)
{
    int by_class = order_by_class(a, b);
    if (by_class)
        return by_class;
    GT_BY(a->start, b->start);
    return order_by_age(&a->entry, &b->entry);
}

/* ---- fairness between namespaces ---- */

static uint64_t start_of(const struct gt_queue_share *share)
{
    return (share->used + share->gpus) * START_UNIT / (share->weight ? share->weight : 1);
}

/* Updates what a namespace holds, once in a round. */
static void queue_refresh(struct gt_queue *queue, struct gt_queue_share *share)
{
    if (share->waiting && share->round == queue->round)
        return;
    share->round = queue->round;
    share->gpus = 0;
    queue->spec.share(queue->spec.arg, share);
}

/* Its start, after the jobs of its namespace that are counted already. */
static void add_start(struct item *item)
{
    struct gt_queue_share *share = item->entry.share;
    item->start = start_of(share);
    if (!item->infeasible && !item->never)
        share->gpus += item->entry.gpus < GPUS_MAX ? item->entry.gpus : GPUS_MAX;
}

static void join_share(struct gt_queue *queue, struct item *item)
{
    struct gt_queue_share *share = item->entry.share;
    if (!share->waiting)
        queue_refresh(queue, share);
    queue->shares += share->waiting++ == 0;
    add_start(item);
}

static void queue_remove_from_share(struct gt_queue *queue, const struct item *item)
{
    queue->shares -= --item->entry.share->waiting == 0;
}

static int compare_by_age(const void *a, const void *b)
{
    const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;
    int by_class = order_by_class(x, y);
    return by_class ? by_class : order_by_age(&x->entry, &y->entry);
}

static int queue_compare(const void *a, const void *b)
{
    return order(*(struct item *const *)a, *(struct item *const *)b);
}

static bool is_by_age(const struct gt_queue *queue)
{
    for (uint32_t i = 1; i < queue->count; i++)
        if (compare_by_age(&queue->items[i - 1], &queue->items[i]) > 0)
            return false;
    return true;
}

static void sort_by_share(struct gt_queue *queue)
{
    if (!is_by_age(queue)) /* already so where only one namespace waits */
        qsort(queue->items, queue->count, sizeof(struct item *), compare_by_age);
    for (uint32_t i = 0; i < queue->count; i++) {
        queue_refresh(queue, queue->items[i]->entry.share);
        add_start(queue->items[i]);
    }
    if (queue->shares > 1) /* else it is the same order */
        qsort(queue->items, queue->count, sizeof(struct item *), queue_compare);
}

/* ---- the list ---- */

static int queue_by_job(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    uintptr_t left = (uintptr_t)x->entry.job, right = (uintptr_t)y->entry.job;
    return (left > right) - (left < right);
}

static struct item *queue_find(const struct gt_queue *queue, const void *job)
{
    const struct item key = {.entry.job = (void *)(uintptr_t)job};
    struct item *const *found = tfind(&key, &queue->by_job, queue_by_job);
    return found ? *found : NULL;
}

/* The position of an item: after all that come before it in the order. */
static uint32_t place_for(const struct gt_queue *queue, const struct item *item)
{
    return (uint32_t)GT_LOWER_BOUND(i, queue->count, order(queue->items[i], item) < 0);
}

/* Makes room after the last one. */
static int queue_grow(struct gt_queue *queue, struct gt_err **err)
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

/* Most jobs leave at the front and join at the end, so the shorter side is moved. */
static void queue_take_out(struct gt_queue *queue, const struct item *item)
{
    uint32_t at = place_for(queue, item);
    if (at < queue->count / 2) {
        memmove(queue->items + 1, queue->items, sizeof(struct item *) * at);
        queue->items++;
    } else {
        memmove(queue->items + at, queue->items + at + 1, sizeof(struct item *) * (queue->count - at - 1));
    }
    queue->count--;
    unsigned slot = (unsigned)(item->entry.shape % SHAPES_MAX);
    if (queue->failed[slot].job == item->entry.job)
        queue->failed[slot].job = NULL; /* its result no longer counts for others of its shape */
}

static int queue_put_in(struct gt_queue *queue, struct item *item, struct gt_err **err)
{
    GT_TRY(queue_grow(queue, err));
    uint32_t at = place_for(queue, item);
    memmove(queue->items + at + 1, queue->items + at, sizeof(struct item *) * (queue->count - at));
    queue->items[at] = item;
    queue->count++;
    return 0;
}

static int queue_add(struct gt_queue *queue, const struct gt_queue_entry *entry, struct gt_err **err)
{
    struct item *item = calloc(1, sizeof(*item));
    if (item)
        item->entry = *entry;
    if (!item || !tsearch(item, &queue->by_job, queue_by_job)) {
        free(item);
        return gt_fail_sys(err, ENOMEM, "queue");
    }
    join_share(queue, item);
    int r = queue_put_in(queue, item, err);
    if (r < 0) {
        queue_remove_from_share(queue, item);
        tdelete(item, &queue->by_job, queue_by_job);
        free(item);
    }
    return r;
}

int gt_queue_put(struct gt_queue *queue, const struct gt_queue_entry *entry, struct gt_err **err)
{
    struct item *item = queue_find(queue, entry->job);
    int r = 0;
    if (item) {
        const struct gt_queue_entry *old = &item->entry;
        if (old->partial == entry->partial && old->grows == entry->grows &&
            old->priority == entry->priority && old->created_s == entry->created_s &&
            old->number == entry->number && old->shape == entry->shape && old->since_ms == entry->since_ms &&
            old->reserved_until_ms == entry->reserved_until_ms && old->gpus == entry->gpus)
            return 0;
        queue_take_out(queue, item);
        item->entry = *entry;
        r = queue_put_in(queue, item, err); /* it has left, and others have its room */
    } else {
        r = queue_add(queue, entry, err);
    }
    queue->woken = queue->woken || r == 0;
    return r;
}

static void drop_holder(struct gt_queue *queue)
{
    if (!queue->holder)
        return;
    queue->holder = NULL;
    queue->spec.hold(queue->spec.arg, NULL, 0);
    queue->woken = true; /* others may use the nodes again */
}

static void set_blocked(struct gt_queue *queue, struct item *item, bool blocked)
{
    queue->blocked = queue->blocked - item->blocked + blocked;
    item->blocked = blocked;
}

bool gt_queue_remove(struct gt_queue *queue, const void *job)
{
    struct item *item = queue_find(queue, job);
    if (!item)
        return false;
    queue_take_out(queue, item);
    queue_remove_from_share(queue, item);
    set_blocked(queue, item, false);
    tdelete(item, &queue->by_job, queue_by_job);
    bool held = queue->holder == item;
    if (queue->again == item)
        queue->again = NULL;
    free(item);
    if (held)
        drop_holder(queue);
    return true;
}

uint32_t gt_queue_place(const struct gt_queue *queue, const void *job)
{
    const struct item *item = queue_find(queue, job);
    return item ? place_for(queue, item) : UINT32_MAX;
}

void *gt_queue_before(const struct gt_queue *queue, const void *job)
{
    uint32_t place = gt_queue_place(queue, job);
    return place && place < queue->count ? queue->items[place - 1]->entry.job : NULL;
}

bool gt_queue_is_crowded(const struct gt_queue *queue, const void *job)
{
    const struct item *item = queue->blocked == 1 ? queue_find(queue, job) : NULL;
    return queue->blocked > (item && item->blocked);
}

void gt_queue_wake(struct gt_queue *queue)
{
    queue->woken = true;
}

/* The room that others make is for no job of lower priority, also where that runs in part. */
static bool is_behind_holder(const struct gt_queue *queue, const struct item *item)
{
    const struct item *holder = queue->holder;
    return holder && holder != item &&
           (order(holder, item) < 0 || (holder->preempts && item->entry.priority < holder->entry.priority));
}

bool gt_queue_is_behind_holder(struct gt_queue *queue, const struct gt_queue_entry *entry)
{
    struct item item = {.entry = *entry};
    if (!queue->holder || queue->holder->entry.job == entry->job)
        return false;
    if (!entry->share->waiting)
        queue_refresh(queue, entry->share);
    item.start = start_of(entry->share);
    return is_behind_holder(queue, &item);
}

static bool had_reservation(const struct item *item, uint64_t now)
{
    return item->entry.reserved_until_ms && item->entry.reserved_until_ms <= now;
}

/* A job whose reservation has not ended becomes the holder again, for example after another job was the
 * holder. */
static bool has_waited(const struct gt_queue *queue, const struct item *item, uint64_t now)
{
    const struct gt_queue_entry *entry = &item->entry;
    uint64_t since = had_reservation(item, now) && entry->reserved_until_ms > entry->since_ms
                         ? entry->reserved_until_ms
                         : entry->since_ms;
    since = item->never_ms > since ? item->never_ms : since;
    return queue->spec.patience_ms != UINT64_MAX &&
           (entry->reserved_until_ms > now || since + queue->spec.patience_ms <= now);
}

/* It becomes or stays the holder. It chooses its nodes again in each round, since nodes change. */
static void queue_hold(struct gt_queue *queue, struct item *item, uint64_t now)
{
    uint64_t end = item->entry.reserved_until_ms > now ? item->entry.reserved_until_ms
                   : queue->spec.reservation_ms        ? now + queue->spec.reservation_ms
                                                       : UINT64_MAX;
    if (queue->spec.hold(queue->spec.arg, item->entry.job, end)) {
        queue->holder = item;
        item->entry.reserved_until_ms = end;
        item->infeasible = 0;
        return;
    }
    item->infeasible = queue->round;
    if (queue->holder == item)
        drop_holder(queue);
}

bool gt_queue_begin_hold(struct gt_queue *queue, const void *job)
{
    struct item *item = queue_find(queue, job);
    if (!item || (queue->holder && queue->holder != item))
        return false;
    item->entry.reserved_until_ms = 0;
    queue_hold(queue, item, queue->spec.now_ms(queue->spec.arg));
    return queue->holder == item;
}

void gt_queue_end_hold(struct gt_queue *queue, const void *job)
{
    struct item *item = queue_find(queue, job);
    if (!item)
        return;
    item->entry.reserved_until_ms = 0;
    if (queue->holder == item)
        drop_holder(queue);
}

static bool is_sooner(const struct item *a, const struct item *b)
{
    if (!b || !a->infeasible != !b->infeasible)
        return !b || !a->infeasible;
    return a->entry.reserved_until_ms < b->entry.reserved_until_ms;
}

/* Makes it the holder where it has waited for long enough and there is no other holder before it. */
static void queue_consider(struct gt_queue *queue, struct item *item, uint64_t now)
{
    if (item->entry.grows || item->infeasible == queue->round || is_behind_holder(queue, item) ||
        !has_waited(queue, item, now))
        return;
    if (!had_reservation(item, now))
        queue_hold(queue, item, now);
    else if (is_sooner(item, queue->again))
        queue->again = item;
}

/* A job that never fits goes behind all others, and back to its place when it could fit. */
static void set_never(struct gt_queue *queue, struct item *item, bool never, uint64_t now)
{
    item->never_ms = never ? now : item->never_ms;
    if (item->never == never)
        return;
    uint32_t from = place_for(queue, item);
    memmove(queue->items + from, queue->items + from + 1, sizeof(struct item *) * (queue->count - from - 1));
    queue->count--;
    item->never = never;
    uint32_t to = place_for(queue, item);
    memmove(queue->items + to + 1, queue->items + to, sizeof(struct item *) * (queue->count - to));
    queue->items[to] = item;
    queue->count++;
    if (never && queue->holder == item)
        drop_holder(queue);
}

static enum gt_queue_result try_one(struct gt_queue *queue, const struct item *item)
{
    const struct gt_queue_entry *entry = &item->entry;
    uint64_t shape = entry->shape;
    unsigned slot = (unsigned)(shape % SHAPES_MAX);
    if (shape && queue->failed[slot].job && queue->failed[slot].shape == shape) {
        queue->spec.same(queue->spec.arg, entry->job, queue->failed[slot].job);
        return queue->failed[slot].result;
    }
    enum gt_queue_result result = queue->spec.try(queue->spec.arg, entry->job, is_behind_holder(queue, item));
    if (result != GT_QUEUE_DONE && result != GT_QUEUE_FAILED && shape) {
        queue->failed[slot].shape = shape;
        queue->failed[slot].job = entry->job;
        queue->failed[slot].result = result == GT_QUEUE_NEVER ? result : GT_QUEUE_BLOCKED;
    }
    return result;
}

/* The first in order that this round has not tried; `from` is where to begin. */
static uint32_t queue_next_of(const struct gt_queue *queue, uint32_t from)
{
    while (from < queue->count && queue->items[from]->round == queue->round)
        from++;
    return from;
}

static void queue_begin(struct gt_queue *queue)
{
    queue->round++;
    queue->running = true;
    queue->woken = false;
    memset(queue->failed, 0, sizeof(queue->failed));
    queue->wasted_ms = 0;
    queue->again = NULL;
    sort_by_share(queue);
}

bool gt_queue_run(struct gt_queue *queue, uint64_t budget_ms)
{
    uint64_t now = queue->spec.now_ms(queue->spec.arg), end = now + budget_ms;
    if (queue->holder && queue->holder->entry.reserved_until_ms <= now)
        drop_holder(queue);
    if (!queue->running) {
        if (!queue->woken || !queue->count || now < queue->rest_until)
            return false;
        queue_begin(queue);
        if (queue->shares > 1) { /* it was sorted twice */
            uint64_t sorted = queue->spec.now_ms(queue->spec.arg);
            queue->wasted_ms = sorted - now;
            now = sorted;
        }
    }
    for (uint32_t at = queue_next_of(queue, 0); at < queue->count; at = queue_next_of(queue, at)) {
        struct item *item = queue->items[at];
        uint64_t before = now;
        item->round = queue->round;
        enum gt_queue_result result = try_one(queue, item);
        if (result == GT_QUEUE_DONE) {
            gt_queue_remove(queue, item->entry.job);
            item = NULL;
        } else {
            set_blocked(queue, item, result == GT_QUEUE_BLOCKED || result == GT_QUEUE_PREEMPTS);
            set_never(queue, item, result == GT_QUEUE_NEVER, now);
            item->preempts = result == GT_QUEUE_PREEMPTS;
        }
        if (item && item->preempts && !is_behind_holder(queue, item))
            queue_hold(queue, item, now);
        else if (item && item->blocked)
            queue_consider(queue, item, now);
        now = queue->spec.now_ms(queue->spec.arg);
        queue->wasted_ms += result == GT_QUEUE_DONE ? 0 : now - before;
        if (now >= end && queue_next_of(queue, 0) < queue->count)
            return true;
    }
    if (!queue->holder && queue->again)
        queue_hold(queue, queue->again, now);
    queue->running = false;
    queue->rest_until = now + REST * queue->wasted_ms;
    return gt_queue_next_ms(queue) <= now;
}

uint64_t gt_queue_next_ms(const struct gt_queue *queue)
{
    if (queue->running)
        return 0;
    if (queue->woken && queue->count)
        return queue->rest_until;
    return queue->holder ? queue->holder->entry.reserved_until_ms : UINT64_MAX;
}
