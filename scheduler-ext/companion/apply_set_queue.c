/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/companion/apply_set_entry.h"

enum { WRITES_RUNNING_MAX = 8, PER_SECOND = 50 };

static void refill(struct gt_apply_set *set, uint64_t now)
{
    set->tokens += (double)(now - set->tokens_at) * PER_SECOND / 1000;
    set->tokens_at = now;
    if (set->tokens > GT_APPLY_SET_BURST)
        set->tokens = GT_APPLY_SET_BURST;
}

static bool apply_set_queue_may_write(const struct gt_apply_set *set)
{
    return set->leads && gt_apply_set_is_synced(set) && set->has_round && set->running < WRITES_RUNNING_MAX &&
           set->tokens >= 1;
}

/* False: it stays in the queue. */
static bool work_on(struct gt_apply_set_entry *entry, uint64_t now)
{
    struct gt_apply_set *set = entry->set;
    gt_auto_err struct gt_err *err = NULL;
    if (entry->call || now < entry->not_before || !apply_set_queue_may_write(set))
        return false;
    int r = gt_apply_set_step(entry, &err);
    if (r < 0)
        gt_apply_set_failed(entry, gt_err_text(err));
    if (r > 0) {
        set->running++;
        set->tokens -= 1;
    }
    return r == 0;
}

/* When an entry may be due without a new event. */
static uint64_t next_check(const struct gt_apply_set_entry *entry, bool done, uint64_t now)
{
    const struct gt_apply_set *set = entry->set;
    uint64_t at = entry->awaited ? entry->awaited_until : UINT64_MAX;
    if (!done && !entry->call && set->leads && gt_apply_set_is_synced(set) && set->has_round) {
        uint64_t turn = entry->not_before > now ? entry->not_before : now + 1000 / PER_SECOND;
        at = turn < at ? turn : at;
    }
    return at;
}

void gt_apply_set_run(void *arg)
{
    struct gt_apply_set *set = arg;
    uint64_t now = gt_clock_ms(), next = UINT64_MAX;
    struct gt_apply_set_entry *entry = set->first;
    refill(set, now);
    set->first = NULL;
    set->last = &set->first;
    while (entry) {
        struct gt_apply_set_entry *following = entry->next;
        if (entry->awaited && now >= entry->awaited_until)
            gt_apply_set_caught_up(entry);
        bool done = work_on(entry, now);
        entry->is_queued = false;
        if (!done || entry->awaited) {
            uint64_t at = next_check(entry, done, now);
            next = at < next ? at : next;
            entry->is_queued = true;
            entry->next = NULL;
            *set->last = entry;
            set->last = &entry->next;
        } else
            gt_apply_set_drop_if_over(entry);
        entry = following;
    }
    if (next != UINT64_MAX)
        gt_apply_set_kick(set, next > now ? next - now : GT_APPLY_SET_SOON_MS);
}
