/* SPDX-License-Identifier: Apache-2.0 */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"

static void table_insert(struct gt_table *table, uint32_t hash, void *item)
{
    uint32_t i = gt_table_home(hash, table->size);
    while (table->items[i])
        i = gt_table_next(i, table->size);
    table->items[i] = item;
    table->hashes[i] = hash;
}

static int table_grow(struct gt_table *table, uint32_t size)
{
    struct gt_table new = {.size = size, .count = table->count};
    new.items = calloc(new.size, sizeof(*new.items));
    new.hashes = calloc(new.size, sizeof(*new.hashes));
    if (!new.items || !new.hashes) {
        free(new.items);
        free(new.hashes);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < table->size; i++)
        if (table->items[i])
            table_insert(&new, table->hashes[i], table->items[i]);
    free(table->items);
    free(table->hashes);
    *table = new;
    return 0;
}

int gt_table_add(struct gt_table *table, uint32_t hash, void *item)
{
    GT_ASSERT(item);
    uint32_t size = gt_table_size_for(table->size, table->count);
    if (size != table->size && table_grow(table, size) < 0)
        return -ENOMEM;
    table_insert(table, hash, item);
    table->count++;
    return 0;
}

static uint32_t table_place_of(const struct gt_table *table, uint32_t hash, const void *item)
{
    GT_ASSERT(item && table->count);
    uint32_t i = gt_table_home(hash, table->size);
    while (table->items[i] != item) {
        GT_ASSERT(table->items[i]); /* else it would be looked for for ever */
        i = gt_table_next(i, table->size);
    }
    return i;
}

void gt_table_remove(struct gt_table *table, uint32_t hash, const void *item)
{
    uint32_t size = table->size, hole = table_place_of(table, hash, item);
    /* Close the gap, so that no marks of removed items pile up. */
    for (uint32_t i = hole;;) {
        i = gt_table_next(i, size);
        if (!table->items[i])
            break;
        uint32_t home = gt_table_home(table->hashes[i], size);
        if (gt_table_distance(home, i, size) >= gt_table_distance(hole, i, size)) {
            table->items[hole] = table->items[i];
            table->hashes[hole] = table->hashes[i];
            hole = i;
        }
    }
    table->items[hole] = NULL;
    table->count--;
}

void *gt_table_find(const struct gt_table *table, uint32_t hash,
                    bool (*is)(const void *item, const void *key), const void *key)
{
    if (!table->size)
        return NULL;
    for (uint32_t i = gt_table_home(hash, table->size); table->items[i]; i = gt_table_next(i, table->size))
        if (table->hashes[i] == hash && is(table->items[i], key))
            return table->items[i];
    return NULL;
}

void *gt_table_after(const struct gt_table *table, uint32_t hash, const void *item)
{
    for (uint32_t i = item ? table_place_of(table, hash, item) + 1 : 0; i < table->size; i++)
        if (table->items[i])
            return table->items[i];
    return NULL;
}

void gt_table_done(struct gt_table *table)
{
    free(table->items);
    free(table->hashes);
    *table = (struct gt_table){0};
}
