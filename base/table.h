/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A hash table of pointers. The caller computes the hash, with a key if outsiders choose the names
 * (base/digest.h), and owns what the pointers point to.
 *
 * Debian's uthash puts 56 bytes into each element and chooses the hash; this table takes 16 to 24 bytes for
 * each element, and two elements may have the same hash.
 */
struct gt_table {
    void **items; /* open addressing: half to three quarters full while it grows */
    uint32_t *hashes;
    uint32_t size, count;
};

/* Shared with other tables that use open addressing: the first place for an item of that hash, the place
 * after a place, the number of places from one to another, and the size that has room for one more item. */
static inline uint32_t gt_table_home(uint32_t hash, uint32_t size)
{
    return (uint32_t)((uint64_t)(hash * UINT32_C(0x9e3779b1)) * size >> 32);
}

static inline uint32_t gt_table_next(uint32_t place, uint32_t size)
{
    return place + 1 == size ? 0 : place + 1;
}

static inline uint32_t gt_table_distance(uint32_t from, uint32_t to, uint32_t size)
{
    return to >= from ? to - from : to + size - from;
}

static inline uint32_t gt_table_size_for(uint32_t size, uint32_t count)
{
    return count < size / 4 * 3 ? size : size ? size + size / 2 : 64;
}

/* 0, or -ENOMEM. */
int gt_table_add(struct gt_table *table, uint32_t hash, void *item);
/* The item must be in the table. */
void gt_table_remove(struct gt_table *table, uint32_t hash, const void *item);
/* The first item of that hash for which `is` returns true; NULL: none. */
void *gt_table_find(const struct gt_table *table, uint32_t hash,
                    bool (*is)(const void *item, const void *key), const void *key);
/* The next item of that hash after `item`, the first one if `item` is NULL. NULL: there are no more. */
void *gt_table_after(const struct gt_table *table, uint32_t hash, const void *item);
void gt_table_done(struct gt_table *table);
