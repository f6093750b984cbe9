/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

/* Records of nodes and pods, and which pods are on a node. A node has a record while one of its objects
 * exists or something refers to it. */

struct cache_node *gt_cache_find_node(const struct gt_cache *cache, const char *name)
{
    return gt_cache_find_record(cache, &cache->nodes, name);
}

struct cache_node *gt_cache_node_record(struct gt_cache *cache, const char *name)
{
    struct cache_node *node = gt_cache_find_node(cache, name);
    uint32_t row = node ? GT_NONE : gt_cache_take_row(cache), hash;
    if (row == GT_NONE)
        return node;
    node = gt_cache_add_record(cache, &cache->nodes, name, sizeof(*node), &hash);
    if (!node) {
        gt_cache_give_row(cache, row);
        return NULL;
    }
    node->row = row;
    node->hash = hash;
    node->id = GT_NONE;
    node->allocatable = node->offered = -1;
    node->devices_version = 1;
    node->report = (struct gt_cache_report){.name = node->name, .gpus = -1, .free = -1};
    return node;
}

void gt_cache_node_forget(struct gt_cache *cache, struct cache_node *node)
{
    if (node->refs || node->has_topology || node->has_node || node->report.is_filled)
        return;
    gt_cache_give_row(cache, node->row);
    gt_cache_remove_record(cache, &cache->nodes, node->hash, node);
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

bool gt_cache_is_open(const struct cache_node *node)
{
    return node->has_node && node->ready && !node->cordoned;
}

/* ---- pods ---- */

struct pod_name {
    const char *namespace_, *name;
};

static bool cache_records_is_pod(const void *item, const void *key)
{
    const struct cache_pod *pod = item;
    const struct pod_name *name = key;
    return strcmp(pod->pub.meta.name, name->name) == 0 &&
           strcmp(pod->pub.meta.namespace_, name->namespace_) == 0;
}

uint32_t gt_cache_pod_hash(const struct gt_cache *cache, const char *namespace_, const char *name)
{
    return gt_digest_hash(gt_digest_mix_text(gt_digest_mix_text(cache->seed, namespace_), name));
}

struct cache_pod *gt_cache_pod_named(const struct gt_cache *cache, const char *namespace_, const char *name)
{
    struct pod_name key = {namespace_, name};
    return gt_table_find(&cache->pods, gt_cache_pod_hash(cache, namespace_, name), cache_records_is_pod,
                         &key);
}

/* ---- pods of a node ---- */

static bool is_older(const struct cache_pod *a, const struct cache_pod *b)
{
    if (a->pub.created_s != b->pub.created_s)
        return a->pub.created_s < b->pub.created_s;
    int order = strcmp(a->pub.uid, b->pub.uid);
    if (order == 0)
        order = strcmp(a->pub.meta.namespace_, b->pub.meta.namespace_);
    return order == 0 ? strcmp(a->pub.meta.name, b->pub.meta.name) < 0 : order < 0;
}

void gt_cache_attach_pod(struct cache_pod *pod)
{
    struct cache_node *node = pod->at ? pod->at : pod->plan ? pod->plan->node : NULL;
    pod->node = node;
    if (!node)
        return;
    struct cache_pod *previous = NULL, *next = node->pods;
    for (; next && is_older(next, pod); next = next->node_next)
        previous = next;
    pod->node_previous = previous;
    pod->node_next = next;
    if (next)
        next->node_previous = pod;
    if (previous)
        previous->node_next = pod;
    else
        node->pods = pod;
}

uint64_t gt_cache_promised(const struct gt_cache *cache, const struct cache_pod *pod)
{
    const struct gt_promise *promise = gt_cluster_find_promise(cache->cluster, pod->pub.promise);
    return promise ? promise->place.mask : 0;
}

void gt_cache_detach_pod(struct gt_cache *cache, struct cache_pod *pod)
{
    struct cache_node *node = pod->node;
    if (!node)
        return;
    if (pod->node_previous)
        pod->node_previous->node_next = pod->node_next;
    else
        node->pods = pod->node_next;
    if (pod->node_next)
        pod->node_next->node_previous = pod->node_previous;
    pod->node = NULL;
    pod->node_next = pod->node_previous = NULL;
    node->freed |= gt_cache_promised(cache, pod);
    gt_cluster_end_promise(cache->cluster, pod->pub.promise);
}
