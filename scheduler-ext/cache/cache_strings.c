/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

uint32_t gt_cache_hash(const struct gt_cache *cache, const char *text)
{
    return gt_digest_hash(gt_digest_mix_text(cache->seed, text));
}

struct text {
    uint32_t refs, hash;
    char bytes[];
};

static bool strings_is(const void *item, const void *key)
{
    return strcmp(((const struct text *)item)->bytes, key) == 0;
}

const char *gt_cache_string(struct gt_cache *cache, const char *text)
{
    if (!text)
        return NULL;
    uint32_t hash = gt_cache_hash(cache, text);
    struct text *shared = gt_table_find(&cache->texts, hash, strings_is, text);
    if (!shared) {
        size_t len = strlen(text);
        shared = calloc(1, sizeof(*shared) + len + 1);
        if (!shared)
            return NULL;
        shared->hash = hash;
        memcpy(shared->bytes, text, len + 1);
        if (gt_table_add(&cache->texts, hash, shared) < 0) {
            free(shared);
            return NULL;
        }
    }
    shared->refs++;
    return shared->bytes;
}

/* The entry of a shared text, from the pointer to its bytes. */
static struct text *strings_text_of(const char *bytes)
{
    union { /* constant for the users, as it is shared */
        const char *in;
        char *out;
    } same = {bytes};
    return (struct text *)(void *)(same.out - offsetof(struct text, bytes));
}

void gt_cache_string_drop(struct gt_cache *cache, const char *bytes)
{
    if (!bytes)
        return;
    struct text *text = strings_text_of(bytes);
    if (--text->refs)
        return;
    gt_table_remove(&cache->texts, text->hash, text);
    free(text);
}

/* ---- records by name ---- */

static bool strings_is_named(const void *item, const void *key)
{
    return strcmp(*(const char *const *)item, key) == 0;
}

void *gt_cache_find_record(const struct gt_cache *cache, const struct gt_table *table, const char *name)
{
    return gt_table_find(table, gt_cache_hash(cache, name), strings_is_named, name);
}

void *gt_cache_add_record(struct gt_cache *cache, struct gt_table *table, const char *name, size_t size,
                          uint32_t *ret_hash)
{
    const uint32_t hash = gt_cache_hash(cache, name);
    const char **record = calloc(1, size);
    if (!record)
        return NULL;
    *record = gt_cache_string(cache, name);
    if (!*record || gt_table_add(table, hash, record) < 0) {
        gt_cache_string_drop(cache, *record);
        free(record);
        return NULL;
    }
    *ret_hash = hash;
    return record;
}

void gt_cache_remove_record(struct gt_cache *cache, struct gt_table *table, uint32_t hash, void *record)
{
    gt_table_remove(table, hash, record);
    gt_cache_string_drop(cache, *(const char **)record);
    free(record);
}

char *gt_cache_put_text(char **to, const char *text)
{
    size_t size = strlen(text) + 1;
    char *start = memcpy(*to, text, size);
    *to += size;
    return start;
}

struct cache_node *gt_cache_next_node(const struct gt_cache *cache, const struct cache_node *node)
{
    return gt_table_after(&cache->nodes, node ? node->hash : 0, node);
}

struct cache_supernode *gt_cache_next_supernode(const struct gt_cache *cache,
                                                const struct cache_supernode *supernode)
{
    return gt_table_after(&cache->supernodes, supernode ? supernode->hash : 0, supernode);
}
