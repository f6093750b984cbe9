/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/cache/cache_table.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { OVERHEAD = 8 }; /* of an allocation, beside its usable bytes */

void *gt_cache_alloc(size_t *bytes, size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (memory)
        *bytes += malloc_usable_size(memory) + OVERHEAD;
    return memory;
}

void gt_cache_release(size_t *bytes, void *memory)
{
    if (!memory)
        return;
    *bytes -= malloc_usable_size(memory) + OVERHEAD;
    free(memory);
}

static void insert(struct cache_table *table, uint32_t hash, void *item)
{
    uint32_t i = hash & (table->size - 1);
    while (table->items[i])
        i = (i + 1) & (table->size - 1);
    table->items[i] = item;
    table->hashes[i] = hash;
}

static int grow(struct cache_table *table, size_t *bytes)
{
    struct cache_table new = {.size = table->size ? table->size * 2 : 64, .count = table->count};
    new.items = gt_cache_alloc(bytes, new.size * sizeof(*new.items));
    new.hashes = gt_cache_alloc(bytes, new.size * sizeof(*new.hashes));
    if (!new.items || !new.hashes) {
        gt_cache_release(bytes, new.items);
        gt_cache_release(bytes, new.hashes);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < table->size; i++)
        if (table->items[i])
            insert(&new, table->hashes[i], table->items[i]);
    gt_cache_release(bytes, table->items);
    gt_cache_release(bytes, table->hashes);
    *table = new;
    return 0;
}

int gt_cache_table_add(struct cache_table *table, size_t *bytes, uint32_t hash, void *item)
{
    if (table->count * 2 >= table->size && grow(table, bytes) < 0)
        return -ENOMEM;
    insert(table, hash, item);
    table->count++;
    return 0;
}

static uint32_t place_of(const struct cache_table *table, uint32_t hash, const void *item)
{
    uint32_t i = hash & (table->size - 1);
    while (table->items[i] != item)
        i = (i + 1) & (table->size - 1);
    return i;
}

void gt_cache_table_remove(struct cache_table *table, uint32_t hash, const void *item)
{
    uint32_t mask = table->size - 1, hole = place_of(table, hash, item);
    /* Close the gap, so that no marks of removed items pile up. */
    for (uint32_t i = hole;;) {
        i = (i + 1) & mask;
        if (!table->items[i])
            break;
        if (((i - table->hashes[i]) & mask) >= ((i - hole) & mask)) {
            table->items[hole] = table->items[i];
            table->hashes[hole] = table->hashes[i];
            hole = i;
        }
    }
    table->items[hole] = NULL;
    table->count--;
}

void *gt_cache_table_find(const struct cache_table *table, uint32_t hash,
                          bool (*is)(const void *item, const void *key), const void *key)
{
    if (!table->size)
        return NULL;
    for (uint32_t i = hash & (table->size - 1); table->items[i]; i = (i + 1) & (table->size - 1))
        if (table->hashes[i] == hash && is(table->items[i], key))
            return table->items[i];
    return NULL;
}

void *gt_cache_table_after(const struct cache_table *table, uint32_t hash, const void *item)
{
    for (uint32_t i = item ? place_of(table, hash, item) + 1 : 0; i < table->size; i++)
        if (table->items[i])
            return table->items[i];
    return NULL;
}

void gt_cache_table_done(struct cache_table *table, size_t *bytes)
{
    gt_cache_release(bytes, table->items);
    gt_cache_release(bytes, table->hashes);
    *table = (struct cache_table){0};
}

uint64_t gt_cache_mix(uint64_t digest, uint64_t number)
{
    digest = (digest ^ number) * UINT64_C(0xff51afd7ed558ccd);
    return digest ^ digest >> 32;
}

uint64_t gt_cache_mix_text(uint64_t digest, const char *text)
{
    if (!text)
        return gt_cache_mix(digest, 1);
    size_t len = strlen(text);
    digest = gt_cache_mix(digest, (uint64_t)len << 8 | 2);
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, text + i, len - i < 8 ? len - i : 8);
        digest = gt_cache_mix(digest, word);
    }
    return digest;
}
