/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/health.h"

#include <string.h>

#include "base/text.h"

enum { FORGET_AFTER = 100 };

static struct gt_health_entry *find(struct gt_health *health, const char *bdf)
{
    for (unsigned i = 0; i < health->count; i++)
        if (strcmp(health->gpus[i].bdf, bdf) == 0)
            return &health->gpus[i];
    return NULL;
}

/* For a new entry: that of the GPU that has been away for longest where all are taken. */
static struct gt_health_entry *find_place(struct gt_health *health)
{
    struct gt_health_entry *entry = &health->gpus[0];
    if (health->count < GT_COUNT(health->gpus))
        entry = &health->gpus[health->count++];
    else
        for (unsigned i = 1; i < health->count; i++)
            if (health->gpus[i].away > entry->away)
                entry = &health->gpus[i];
    return entry;
}

static void forget_the_gone(struct gt_health *health)
{
    for (unsigned i = 0; i < health->count;) {
        if (health->gpus[i].away > FORGET_AFTER)
            health->gpus[i] = health->gpus[--health->count];
        else
            i++;
    }
}

static void say(struct gt_health_entry *entry, const struct gt_gpu *gpu)
{
    entry->health = gpu->health;
    entry->ill_by = gt_gpu_usable(gpu) ? 0 : (entry->ill_by & ~gpu->health_told) | gpu->ill_by;
    memcpy(entry->reason, gpu->unhealthy_reason, sizeof(entry->reason));
    entry->streak = 0;
}

static void apply(struct gt_health *health, struct gt_health_entry *entry, struct gt_gpu *gpu, unsigned flags)
{
    bool knows_less = entry->ill_by & ~gpu->health_told && !(flags & GT_HEALTH_ALL);
    bool usable = gt_gpu_usable(gpu), was_usable = entry->health != GT_GPU_UNHEALTHY;
    if (usable == was_usable)
        say(entry, gpu); /* a reason may have changed, or what is known */
    else if (!(usable && knows_less)) {
        unsigned need = usable ? health->healthy_after : health->unhealthy_after;
        if (++entry->streak >= need || flags & GT_HEALTH_AT_ONCE)
            say(entry, gpu);
    }
    gpu->health = entry->health;
    memcpy(gpu->unhealthy_reason, entry->reason, sizeof(gpu->unhealthy_reason));
}

static void begin(struct gt_health_entry *entry, const struct gt_gpu *gpu)
{
    *entry = (struct gt_health_entry){.health = GT_GPU_HEALTH_UNKNOWN};
    gt_text_copy(entry->bdf, sizeof(entry->bdf), gpu->bdf);
    gt_text_copy(entry->uuid, sizeof(entry->uuid), gpu->uuid);
}

/* Whether the card is another one than that of the entry; who has no UUID today may be the same. */
static bool is_swapped(struct gt_health_entry *entry, const struct gt_gpu *gpu)
{
    if (!gpu->uuid[0] || strcmp(entry->uuid, gpu->uuid) == 0)
        return false;
    bool known = entry->uuid[0];
    gt_text_copy(entry->uuid, sizeof(entry->uuid), gpu->uuid);
    return known;
}

void gt_health_apply(struct gt_health *health, struct gt_node *node, unsigned flags)
{
    for (unsigned i = 0; i < health->count; i++)
        health->gpus[i].away++;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        struct gt_health_entry *entry = find(health, gpu->bdf);
        bool is_new = !entry || is_swapped(entry, gpu);
        if (!entry)
            entry = find_place(health);
        if (is_new)
            begin(entry, gpu);
        entry->away = 0;
        apply(health, entry, gpu, flags | (is_new ? GT_HEALTH_AT_ONCE : 0));
    }
    forget_the_gone(health);
}

bool gt_health_pending(const struct gt_health *health)
{
    for (unsigned i = 0; i < health->count; i++)
        if (health->gpus[i].streak && !health->gpus[i].away)
            return true;
    return false;
}
