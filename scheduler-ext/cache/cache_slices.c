/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/names.h"
#include "api/resource_slice.h"
#include "scheduler-ext/cache/cache_internal.h"

/* ResourceSlices of our driver: the GPUs that claims can get. A device without a taint counts. */

static bool slices_is_slice(const void *item, const void *key)
{
    return strcmp(((const struct cache_slice *)item)->name, key) == 0;
}

static struct cache_slice *slices_find(const struct gt_cache *cache, const char *name)
{
    return gt_table_find(&cache->slices, gt_cache_hash(cache, name), slices_is_slice, name);
}

static void slices_release(struct cache_slice *slice)
{
    free(slice->devices);
    free(slice);
}

static void slices_take_out(struct gt_cache *cache, struct cache_slice *slice)
{
    struct cache_node *node = slice->node;
    gt_table_remove(&cache->slices, slice->hash, slice);
    CACHE_UNLINK(&node->slices, slice, node_next);
    slices_release(slice);
    gt_cache_recompute(cache, node);
    gt_cache_node_drop(cache, node);
}

/* A slice without devices; NULL without memory. */
static struct cache_slice *slices_put_in(struct gt_cache *cache, const char *name, const char *node_name)
{
    size_t size = strlen(name) + 1;
    struct cache_slice *slice = calloc(1, sizeof(*slice) + size);
    struct cache_node *node = slice ? gt_cache_node_record(cache, node_name) : NULL;
    if (!node) {
        free(slice);
        return NULL;
    }
    memcpy(slice->name, name, size);
    slice->hash = gt_cache_hash(cache, name);
    if (gt_table_add(&cache->slices, slice->hash, slice) < 0) {
        gt_cache_node_forget(cache, node);
        free(slice);
        return NULL;
    }
    node->refs++;
    slice->node = node;
    slice->node_next = node->slices;
    node->slices = slice;
    return slice;
}

static bool set_devices(struct gt_cache *cache, struct cache_slice *slice, const char *const *names,
                        unsigned count)
{
    uint64_t *devices = calloc(1, sizeof(uint64_t) * (count + 1));
    if (!devices)
        return false;
    for (unsigned i = 0; i < count; i++)
        devices[i] = gt_digest_mix_text(cache->seed, names[i]);
    free(slice->devices);
    slice->devices = devices;
    slice->count = count;
    return true;
}

void gt_cache_slice(struct gt_cache *cache, const cJSON *object)
{
    struct gt_resource_slice_head head;
    const char *devices[GT_SLICE_DEVICES_MAX];
    if (gt_resource_slice_read(object, &head, NULL) < 0) {
        cache->refused++;
        return;
    }
    struct cache_slice *slice = slices_find(cache, head.name);
    bool ours = strcmp(head.driver, GT_DRA_DRIVER) == 0 && *head.node_name;
    if (slice && (!ours || strcmp(slice->node->name, head.node_name) != 0)) {
        slices_take_out(cache, slice);
        slice = NULL;
    }
    if (ours && !slice)
        slice = slices_put_in(cache, head.name, head.node_name);
    if (slice && set_devices(cache, slice, devices, gt_resource_slice_devices(object, devices))) {
        slice->generation = head.generation;
        slice->of_pool = head.slices;
        gt_cache_recompute(cache, slice->node);
    } else if (ours)
        cache->refused++;
    gt_cache_notify(cache);
}

void gt_cache_slice_deleted(struct gt_cache *cache, const char *name)
{
    struct cache_slice *slice = slices_find(cache, name);
    if (slice)
        slices_take_out(cache, slice);
    gt_cache_notify(cache);
}

void gt_cache_slices_synced(struct gt_cache *cache)
{
    if (cache->slices_known)
        return;
    cache->slices_known = true;
    for (struct cache_node *node = NULL; (node = gt_cache_next_node(cache, node));)
        if (node->by_claims && node->has_topology)
            gt_cache_recompute(cache, node);
    gt_cache_notify(cache);
}

void gt_cache_slices_done(struct gt_cache *cache)
{
    for (struct cache_slice *next = gt_table_after(&cache->slices, 0, NULL), *slice; (slice = next);) {
        next = gt_table_after(&cache->slices, slice->hash, slice);
        slices_release(slice);
    }
    gt_table_done(&cache->slices);
}
