/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

/* Records of nodes: there is one while an object is there or something names the node. */

static bool is(const void *item, const void *key)
{
    return strcmp(((const struct cache_node *)item)->name, key) == 0;
}

static uint32_t hash_of(const struct gt_cache *cache, const char *name)
{
    return gt_digest_hash(gt_digest_mix_text(cache->seed, name));
}

struct cache_node *gt_cache_find_node(const struct gt_cache *cache, const char *name)
{
    return gt_table_find(&cache->nodes, hash_of(cache, name), is, name);
}

struct cache_node *gt_cache_node_record(struct gt_cache *cache, const char *name)
{
    struct cache_node *node = gt_cache_find_node(cache, name);
    if (node)
        return node;
    node = gt_cache_alloc(&cache->bytes, sizeof(*node));
    const char *text = node ? gt_cache_string(cache, name) : NULL;
    if (!text) {
        gt_cache_release(&cache->bytes, node);
        return NULL;
    }
    node->name = text;
    node->hash = hash_of(cache, name);
    node->id = GT_NONE;
    node->devices_version = 1;
    node->report = (struct gt_cache_report){.name = text, .gpus = -1, .free = -1};
    if (gt_table_add(&cache->nodes, node->hash, node) < 0) {
        gt_cache_string_drop(cache, text);
        gt_cache_release(&cache->bytes, node);
        return NULL;
    }
    return node;
}

void gt_cache_node_forget(struct gt_cache *cache, struct cache_node *node)
{
    if (node->refs || node->has_topology || node->has_node || node->report.is_filled)
        return;
    gt_table_remove(&cache->nodes, node->hash, node);
    gt_cache_string_drop(cache, node->name);
    gt_cache_release(&cache->bytes, node);
}

void gt_cache_node_drop(struct gt_cache *cache, struct cache_node *node)
{
    node->refs--;
    gt_cache_node_forget(cache, node);
}

struct cache_node *gt_cache_node_of(const struct gt_cache *cache, uint32_t id)
{
    return id < cache->by_id_size ? cache->by_id[id] : NULL;
}
