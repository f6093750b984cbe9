/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/hangs.h"

#include <string.h>

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/text.h"

static bool is_about_a_device(unsigned count)
{
    return count > 0 && count <= GT_COUNT(((struct gt_hang *)0)->args);
}

static unsigned hangs_find(const struct gt_hangs *hangs, const char *call, unsigned count,
                           const uint32_t *args)
{
    unsigned i = 0;
    for (; i < hangs->count; i++) {
        const struct gt_hang *hang = &hangs->list[i];
        if (hang->arg_count == count && memcmp(hang->args, args, count * sizeof(*args)) == 0 &&
            strcmp(hang->call, call) == 0)
            break;
    }
    return i;
}

/* A place for a new call: if all are used, that of the call whose last failure is the oldest. */
static unsigned hangs_find_place(struct gt_hangs *hangs)
{
    unsigned oldest = 0;
    if (hangs->count < GT_HANGS_LIST)
        return hangs->count++;
    for (unsigned i = 1; i < GT_HANGS_LIST; i++)
        if (hangs->list[i].seen_ms < hangs->list[oldest].seen_ms)
            oldest = i;
    return oldest;
}

void gt_hangs_failed(struct gt_hangs *hangs, const char *call, unsigned count, const uint32_t *args,
                     const char *why, uint64_t now_ms)
{
    if (!is_about_a_device(count))
        return;
    unsigned i = hangs_find(hangs, call, count, args);
    if (i == hangs->count) {
        i = hangs_find_place(hangs);
        hangs->list[i] = (struct gt_hang){.arg_count = count};
        gt_text_copy(hangs->list[i].call, sizeof(hangs->list[i].call), call);
        memcpy(hangs->list[i].args, args, count * sizeof(*args));
    }
    struct gt_hang *hang = &hangs->list[i];
    gt_text_copy(hang->why, sizeof(hang->why), why);
    hang->failures++;
    hang->seen_ms = now_ms;
}

void gt_hangs_answered(struct gt_hangs *hangs, const char *call, unsigned count, const uint32_t *args)
{
    unsigned i = is_about_a_device(count) ? hangs_find(hangs, call, count, args) : hangs->count;
    if (i < hangs->count)
        hangs->list[i] = hangs->list[--hangs->count];
}

const char *gt_hangs_wait(const struct gt_hangs *hangs, const char *call, unsigned count,
                          const uint32_t *args, uint64_t now_ms)
{
    unsigned i = is_about_a_device(count) ? hangs_find(hangs, call, count, args) : hangs->count;
    const struct gt_hang *hang = &hangs->list[i];
    if (i == hangs->count || hang->failures < GT_HANGS_FREE)
        return NULL;
    uint64_t pause_ms = gt_backoff_step(hang->failures - GT_HANGS_FREE, GT_HANGS_FIRST_MS, GT_HANGS_MAX_MS);
    return now_ms - hang->seen_ms < pause_ms ? hang->why : NULL;
}
