/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/lease_note.h"
#include "scheduler-ext/cache/cache_internal.h"

/* Reservations of another scheduler of the cluster for future pods. */

static void foreign_clear(struct gt_cache *cache)
{
    struct cache_foreign *foreign = &cache->foreign;
    for (uint32_t i = 0; i < foreign->count; i++)
        foreign->nodes[i]->foreign = 0;
}

static void foreign_drop(struct gt_cache *cache, struct cache_foreign *foreign)
{
    for (uint32_t i = 0; i < foreign->count; i++)
        gt_cache_node_drop(cache, foreign->nodes[i]);
    gt_cache_release(&cache->bytes, foreign->nodes);
    gt_cache_release(&cache->bytes, foreign->note);
}

/* Without memory there are no reservations. */
static struct cache_foreign foreign_read_note(struct gt_cache *cache, const char *note)
{
    size_t len = strlen(note);
    struct gt_lease_note_word word;
    struct cache_foreign foreign = {
        .note = gt_cache_alloc(&cache->bytes, len + 1),
        /* "n=0 " is the shortest word */
        .nodes = gt_cache_alloc(&cache->bytes, (len / 4 + 1) * sizeof(struct cache_node *))};
    if (foreign.note)
        memcpy(foreign.note, note, len);
    while (foreign.note && foreign.nodes && gt_lease_note_next(&note, &word)) {
        struct cache_node *node = gt_cache_node_record(cache, word.node);
        if (!node)
            break;
        node->refs++;
        node->foreign |= word.mask;
        foreign.nodes[foreign.count++] = node;
    }
    return foreign;
}

static void recompute(struct gt_cache *cache, const struct cache_foreign *foreign)
{
    for (uint32_t i = 0; i < foreign->count; i++)
        gt_cache_recompute(cache, foreign->nodes[i]);
}

void gt_cache_set_foreign(struct gt_cache *cache, const char *note, uint64_t until_ms)
{
    struct cache_foreign before = cache->foreign;
    if (strlen(note) > GT_LEASE_NOTE_MAX)
        note = "";
    cache->foreign.until_ms = until_ms;
    if (strcmp(before.note ? before.note : "", note) == 0)
        return;
    foreign_clear(cache);
    cache->foreign = *note ? foreign_read_note(cache, note) : (struct cache_foreign){0};
    cache->foreign.until_ms = until_ms;
    recompute(cache, &before);
    recompute(cache, &cache->foreign);
    foreign_drop(cache, &before);
    gt_cache_notify(cache);
}

void gt_cache_expire_foreign(struct gt_cache *cache)
{
    if (cache->foreign.note && cache->now_ms >= cache->foreign.until_ms)
        gt_cache_set_foreign(cache, "", 0);
}

void gt_cache_foreign_done(struct gt_cache *cache)
{
    foreign_drop(cache, &cache->foreign);
}

uint32_t gt_cache_foreign_gpus(const struct gt_cache *cache)
{
    return cache->foreign_gpus;
}
