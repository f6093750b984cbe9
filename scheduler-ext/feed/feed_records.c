/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/feed/feed_internal.h"

/* Records of nodes: there is one while an object is there or something names the node. */

static bool is(const void *item, const void *key)
{
    return strcmp(((const struct feed_node *)item)->name, key) == 0;
}

static uint32_t hash_of(const struct gt_feed *feed, const char *name)
{
    return gt_feed_hash(gt_feed_mix_text(feed->seed, name));
}

struct feed_node *gt_feed_find_node(const struct gt_feed *feed, const char *name)
{
    return gt_feed_table_find(&feed->nodes, hash_of(feed, name), is, name);
}

struct feed_node *gt_feed_node_record(struct gt_feed *feed, const char *name)
{
    struct feed_node *node = gt_feed_find_node(feed, name);
    if (node)
        return node;
    node = gt_feed_alloc(&feed->bytes, sizeof(*node));
    const char *text = node ? gt_feed_text(feed, name) : NULL;
    if (!text) {
        gt_feed_release(&feed->bytes, node);
        return NULL;
    }
    node->name = text;
    node->hash = hash_of(feed, name);
    node->id = GT_NONE;
    node->devices_version = 1;
    if (gt_feed_table_add(&feed->nodes, &feed->bytes, node->hash, node) < 0) {
        gt_feed_text_drop(feed, text);
        gt_feed_release(&feed->bytes, node);
        return NULL;
    }
    return node;
}

void gt_feed_node_forget(struct gt_feed *feed, struct feed_node *node)
{
    if (node->refs || node->has_topology || node->has_node)
        return;
    gt_feed_table_remove(&feed->nodes, node->hash, node);
    gt_feed_text_drop(feed, node->name);
    gt_feed_release(&feed->bytes, node);
}

void gt_feed_node_drop(struct gt_feed *feed, struct feed_node *node)
{
    node->refs--;
    gt_feed_node_forget(feed, node);
}

struct feed_node *gt_feed_node_of(const struct gt_feed *feed, uint32_t id)
{
    return id < feed->by_id_size ? feed->by_id[id] : NULL;
}
