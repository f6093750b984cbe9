/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler-ext/companion/mirror_private.h"

enum { RUNNING_MAX = 8, PER_SECOND = 50 };

void gt_mirror_kick(struct gt_mirror *mirror, uint64_t ms)
{
    gt_source_arm(mirror->timer, ms);
}

void gt_mirror_queue(struct gt_mirror_entry *entry)
{
    struct gt_mirror *mirror = entry->mirror;
    if (!entry->is_queued) {
        entry->is_queued = true;
        entry->next = NULL;
        *mirror->last = entry;
        mirror->last = &entry->next;
    }
    gt_mirror_kick(mirror, GT_MIRROR_SOON_MS);
}

static void refill(struct gt_mirror *mirror, uint64_t now)
{
    mirror->tokens += (double)(now - mirror->tokens_at) * PER_SECOND / 1000;
    mirror->tokens_at = now;
    if (mirror->tokens > GT_MIRROR_BURST)
        mirror->tokens = GT_MIRROR_BURST;
}

static bool may_write(const struct gt_mirror *mirror)
{
    return mirror->leads && gt_mirror_is_synced(mirror) && mirror->has_round &&
           mirror->running < RUNNING_MAX && mirror->tokens >= 1;
}

void gt_mirror_failed(struct gt_mirror_entry *entry, const char *why)
{
    struct gt_mirror *mirror = entry->mirror;
    bool again = strncmp(mirror->stats.error, why, sizeof(mirror->stats.error) - 1) == 0;
    mirror->stats.failed++;
    snprintf(mirror->stats.error, sizeof(mirror->stats.error), "%s", why);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot write", GT_STR("kind", mirror->spec.kind),
           GT_STR("name", entry->name), GT_STR("why", mirror->stats.error));
    entry->not_before = gt_clock_ms() + gt_backoff_next(&entry->backoff, 0, &mirror->jitter);
}

/* False: it stays in the queue. */
static bool work_on(struct gt_mirror_entry *entry, uint64_t now)
{
    struct gt_mirror *mirror = entry->mirror;
    gt_auto_err struct gt_err *err = NULL;
    if (entry->call || now < entry->not_before || !may_write(mirror))
        return false;
    int r = gt_mirror_step(entry, &err);
    if (r < 0)
        gt_mirror_failed(entry, gt_err_text(err));
    if (r > 0) {
        mirror->running++;
        mirror->tokens -= 1;
    }
    return r == 0;
}

/* The watch had its time to catch up: what it tells is so. */
static void end_awaiting(struct gt_mirror_entry *entry)
{
    free(gt_steal(entry->awaited));
    if (entry->has_later) {
        gt_mirror_seen_done(&entry->there);
        entry->there = entry->later;
        entry->later = (struct gt_mirror_seen){0};
        entry->has_later = false;
        entry->mirror->spec.on_change(entry->mirror->spec.arg);
    }
}

/* When something may be done about an entry by the clock alone. */
static uint64_t next_look(const struct gt_mirror_entry *entry, bool done, uint64_t now)
{
    const struct gt_mirror *mirror = entry->mirror;
    uint64_t at = entry->awaited ? entry->awaited_until : UINT64_MAX;
    if (!done && !entry->call && mirror->leads && gt_mirror_is_synced(mirror) && mirror->has_round) {
        uint64_t turn = entry->not_before > now ? entry->not_before : now + 1000 / PER_SECOND;
        at = turn < at ? turn : at;
    }
    return at;
}

void gt_mirror_run(void *arg)
{
    struct gt_mirror *mirror = arg;
    uint64_t now = gt_clock_ms(), next = UINT64_MAX;
    struct gt_mirror_entry *entry = mirror->first;
    refill(mirror, now);
    mirror->first = NULL;
    mirror->last = &mirror->first;
    while (entry) {
        struct gt_mirror_entry *following = entry->next;
        if (entry->awaited && now >= entry->awaited_until)
            end_awaiting(entry);
        bool done = work_on(entry, now);
        entry->is_queued = false;
        if (!done || entry->awaited) {
            uint64_t at = next_look(entry, done, now);
            next = at < next ? at : next;
            entry->is_queued = true;
            entry->next = NULL;
            *mirror->last = entry;
            mirror->last = &entry->next;
        } else
            gt_mirror_drop_if_over(entry);
        entry = following;
    }
    if (next != UINT64_MAX)
        gt_mirror_kick(mirror, next > now ? next - now : GT_MIRROR_SOON_MS);
}
