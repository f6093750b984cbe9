/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/culprits.h"

#include <string.h>

#include "base/text.h"

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
    for (unsigned i = 0; i < culprits->sound_count; i++)
        if (strcmp(culprits->sound[i], call) == 0)
            return true;
    return false;
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
