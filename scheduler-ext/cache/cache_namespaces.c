/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

/* Namespaces: how many GPUs their pods have. A namespace exists here while it has pods. */

static bool cache_namespaces_is(const void *item, const void *key)
{
    return strcmp(((const struct cache_namespace *)item)->pub.name, key) == 0;
}

static struct cache_namespace *new_namespace(struct gt_cache *cache, const char *name, uint32_t hash)
{
    struct cache_namespace *space = gt_cache_alloc(&cache->bytes, sizeof(*space));
    if (!space)
        return NULL;
    space->hash = hash;
    space->pub.name = gt_cache_string(cache, name);
    if (!space->pub.name || gt_table_add(&cache->namespaces, hash, space) < 0) {
        gt_cache_string_drop(cache, space->pub.name);
        gt_cache_release(&cache->bytes, space);
        return NULL;
    }
    return space;
}

int gt_cache_join_namespace(struct gt_cache *cache, struct cache_pod *pod, const char *name)
{
    uint32_t hash = gt_digest_hash(gt_digest_mix_text(cache->seed, name));
    struct cache_namespace *space = gt_table_find(&cache->namespaces, hash, cache_namespaces_is, name);
    if (!space)
        space = new_namespace(cache, name, hash);
    if (!space)
        return -ENOMEM;
    space->pub.pod_count++;
    pod->pub.namespace_ = &space->pub;
    return 0;
}

void gt_cache_leave_namespace(struct gt_cache *cache, struct cache_pod *pod)
{
    struct cache_namespace *space = (struct cache_namespace *)pod->pub.namespace_;
    space->pub.gpus -= pod->counted;
    space->pub.bound -= pod->bound;
    space->pub.asked -= pod->asked;
    if (--space->pub.pod_count)
        return;
    gt_table_remove(&cache->namespaces, space->hash, space);
    gt_cache_string_drop(cache, space->pub.name);
    gt_cache_release(&cache->bytes, space);
}

void gt_cache_count_gpus(struct cache_pod *pod)
{
    const struct gt_cache_pod *pub = &pod->pub;
    bool is_bound = pub->state == GT_CACHE_BOUND || pub->state == GT_CACHE_RUNNING;
    bool has = is_bound || pub->plan == GT_CACHE_PLAN_ASSUMED;
    uint16_t gpus = (uint16_t)(has ? pub->gpus : 0), bound = (uint16_t)(is_bound ? pub->gpus : 0),
             asked = (uint16_t)(pub->deleting ? 0 : pub->gpus);
    pub->namespace_->gpus += gpus;
    pub->namespace_->gpus -= pod->counted;
    pub->namespace_->bound += bound;
    pub->namespace_->bound -= pod->bound;
    pub->namespace_->asked += asked;
    pub->namespace_->asked -= pod->asked;
    pod->counted = gpus;
    pod->bound = bound;
    pod->asked = asked;
}
