/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_TABLE_H
#define GPUTOPO_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A hash table of pointers. The caller makes the hash, with a key where strangers choose the names
 * (base/digest.h), and keeps what the pointers point to.
 *
 * Debian's uthash puts 56 bytes into each element and chooses the hash; this takes 16 to 24 for each, and two
 * elements may have one hash.
 */
struct gt_table {
    void **items; /* open addressing: half to three quarters full while it grows */
    uint32_t *hashes;
    uint32_t size, count;
};

/* What it and other tables with open addressing share: where an item of that hash is to be, how many places
 * one is behind another, and the size that has room for one more. */
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
/* The item must be in it. */
void gt_table_remove(struct gt_table *table, uint32_t hash, const void *item);
/* The first item of that hash for which `is` says yes; NULL: none. */
void *gt_table_find(const struct gt_table *table, uint32_t hash,
                    bool (*is)(const void *item, const void *key), const void *key);
/* The item behind another one (of that hash), the first one behind NULL; NULL: no more. */
void *gt_table_after(const struct gt_table *table, uint32_t hash, const void *item);
/* What the table itself takes. */
size_t gt_table_bytes(const struct gt_table *table);
void gt_table_done(struct gt_table *table);

#endif
