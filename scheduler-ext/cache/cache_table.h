/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CACHE_TABLE_H
#define GPUTOPO_CACHE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that is counted, and a table of pointers by the hash of what they point to. */

/* Zeroed; NULL without memory. */
void *gt_cache_alloc(size_t *bytes, size_t size);
void gt_cache_release(size_t *bytes, void *memory);

struct cache_table {
    void **items; /* open addressing, at most half full */
    uint32_t *hashes;
    uint32_t size, count; /* size: 0 or a power of two */
};

/* 0, or -ENOMEM. */
int gt_cache_table_add(struct cache_table *table, size_t *bytes, uint32_t hash, void *item);
/* The item must be in it. */
void gt_cache_table_remove(struct cache_table *table, uint32_t hash, const void *item);
/* The first item of that hash for which `is` says yes; NULL: none. */
void *gt_cache_table_find(const struct cache_table *table, uint32_t hash,
                          bool (*is)(const void *item, const void *key), const void *key);
/* The item behind another one (of that hash), the first one behind NULL; NULL: no more. */
void *gt_cache_table_after(const struct cache_table *table, uint32_t hash, const void *item);
void gt_cache_table_done(struct cache_table *table, size_t *bytes);

/* A digest of texts and numbers, one after the other; begin with any number. */
uint64_t gt_cache_mix(uint64_t digest, uint64_t number);
uint64_t gt_cache_mix_text(uint64_t digest, const char *text); /* NULL is not "" */

static inline uint32_t gt_cache_hash(uint64_t digest)
{
    return (uint32_t)(digest >> 32);
}

#endif
