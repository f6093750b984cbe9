/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/prober.h"

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

static bool is_pair(const char *call)
{
    return strcmp(call, "mxSmlGetDeviceTopology") == 0;
}

/* Calls that are made several times for one device: their second number names a link or another device. */
static bool is_about_links(const char *call)
{
    return strcmp(call, "mxSmlGetMetaXLinkRemoteInfo") == 0 || is_pair(call);
}

static struct gt_culprit name(const char *call, unsigned count, const uint32_t *args)
{
    struct gt_culprit culprit = {.device = count ? args[0] : UINT32_MAX, .link = UINT32_MAX};
    gt_text_copy(culprit.call, sizeof(culprit.call), call);
    if (count > 1 && is_about_links(call))
        culprit.link = args[1];
    return culprit;
}

void gt_culprits_add(struct gt_culprits *culprits, const char *call, unsigned count, const uint32_t *args)
{
    if (culprits->count < GT_CULPRITS_MAX)
        culprits->list[culprits->count++] = name(call, count, args);
}

static bool culprits_is_sound(const struct gt_culprits *culprits, const char *call)
{
    return GT_HAS_TEXT(culprits->sound, culprits->sound_count, call);
}

void gt_culprits_answered(struct gt_culprits *culprits, const char *call)
{
    if (culprits->sound_count < GT_CULPRITS_SOUND_MAX && !culprits_is_sound(culprits, call))
        gt_text_copy(culprits->sound[culprits->sound_count++], sizeof(culprits->sound[0]), call);
}

/* Whether a function that others answer, asked about the device alone, was fatal for it, or two that nobody
 * answers. */
static bool is_dead(const struct gt_culprits *culprits, uint32_t device)
{
    const char *first = NULL;
    for (unsigned i = 0; i < culprits->count; i++) {
        const struct gt_culprit *culprit = &culprits->list[i];
        if (culprit->device != device || culprit->link != UINT32_MAX)
            continue;
        if (culprits_is_sound(culprits, culprit->call) || (first && strcmp(first, culprit->call) != 0))
            return true;
        first = culprit->call;
    }
    return false;
}

/* Whether the device is lost to the call: by the call itself, or by two of its links. */
static bool is_lost(const struct gt_culprits *culprits, const char *call, uint32_t device)
{
    unsigned links = 0;
    for (unsigned i = 0; i < culprits->count; i++) {
        const struct gt_culprit *culprit = &culprits->list[i];
        if (culprit->device != device || strcmp(culprit->call, call) != 0)
            continue;
        if (culprit->link == UINT32_MAX || ++links == 2)
            return true;
    }
    return false;
}

bool gt_culprits_has(const struct gt_culprits *culprits, const char *call, unsigned count,
                     const uint32_t *args)
{
    struct gt_culprit asked = name(call, count, args);
    unsigned workers = 0;
    uint32_t lost = UINT32_MAX; /* the first device that is */
    bool sound = culprits_is_sound(culprits, call);
    if (count && (is_dead(culprits, asked.device) || (is_pair(call) && is_dead(culprits, asked.link))))
        return true;
    for (unsigned i = 0; i < culprits->count; i++) {
        const struct gt_culprit *culprit = &culprits->list[i];
        if (strcmp(culprit->call, call) != 0)
            continue;
        if (++workers == GT_CULPRITS_PER_CALL)
            return true;
        if (culprit->device == asked.device && culprit->link == asked.link)
            return true;
        if (!is_lost(culprits, call, culprit->device))
            continue;
        if (culprit->device == asked.device || (!sound && lost != UINT32_MAX && lost != culprit->device))
            return true;
        lost = culprit->device;
    }
    return false;
}
