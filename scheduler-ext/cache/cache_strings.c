/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

enum { OVERHEAD = 8 }; /* overhead of an allocation */

void gt_cache_adopt(size_t *bytes, void *memory)
{
    *bytes += malloc_usable_size(memory) + OVERHEAD;
}

void *gt_cache_alloc(size_t *bytes, size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (memory)
        gt_cache_adopt(bytes, memory);
    return memory;
}

void gt_cache_release(size_t *bytes, void *memory)
{
    if (!memory)
        return;
    *bytes -= malloc_usable_size(memory) + OVERHEAD;
    free(memory);
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
    uint32_t hash = gt_digest_hash(gt_digest_mix_text(cache->seed, text));
    struct text *shared = gt_table_find(&cache->texts, hash, strings_is, text);
    if (!shared) {
        size_t len = strlen(text);
        shared = gt_cache_alloc(&cache->bytes, sizeof(*shared) + len + 1);
        if (!shared)
            return NULL;
        shared->hash = hash;
        memcpy(shared->bytes, text, len + 1);
        if (gt_table_add(&cache->texts, hash, shared) < 0) {
            gt_cache_release(&cache->bytes, shared);
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
    gt_cache_release(&cache->bytes, text);
}
