/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_TABLE_H
#define GPUTOPO_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A hash table of pointers. The caller makes the hash, with a key where unknown_devices choose the names
 * (base/digest.h), and keeps what the pointers point to.
 *
 * Debian's uthash puts 56 bytes into each element and chooses the hash; this takes 24 to 48 for each, and two
 * elements may have one hash.
 */
struct gt_table {
    void **items; /* open addressing, at most half full */
    uint32_t *hashes;
    uint32_t size, count; /* size: 0 or a power of two */
};

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
