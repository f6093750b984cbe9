/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/cache/cache_internal.h"

/* The callbacks at the end of a call. */

void gt_cache_changed(struct gt_cache *cache, struct cache_pod *pod)
{
    if (pod->changed || pod == cache->silent)
        return;
    pod->changed = true;
    pod->next_changed = NULL;
    if (cache->last_changed)
        cache->last_changed->next_changed = pod;
    else
        cache->first_changed = pod;
    cache->last_changed = pod;
}

void gt_cache_unchanged(struct gt_cache *cache, const struct cache_pod *pod)
{
    struct cache_pod *previous = NULL;
    if (!pod->changed)
        return;
    for (struct cache_pod *at = cache->first_changed; at != pod; at = at->next_changed)
        previous = at;
    if (previous)
        previous->next_changed = pod->next_changed;
    else
        cache->first_changed = pod->next_changed;
    if (cache->last_changed == pod)
        cache->last_changed = previous;
}

void gt_cache_node_changed(struct gt_cache *cache, const struct cache_node *node)
{
    for (struct cache_pod *pod = node->pods; pod; pod = pod->node_next)
        gt_cache_changed(cache, pod);
}

void gt_cache_notify(struct gt_cache *cache)
{
    for (struct cache_pod *pod; (pod = cache->first_changed);) {
        cache->first_changed = pod->next_changed;
        if (!cache->first_changed)
            cache->last_changed = NULL;
        pod->changed = false;
        if (cache->spec.on_pod)
            cache->spec.on_pod(cache->spec.arg, &pod->pub);
    }
    if (cache->more_room) {
        cache->more_room = false;
        if (cache->spec.on_capacity)
            cache->spec.on_capacity(cache->spec.arg);
    }
    if (cache->reports_changed) {
        cache->reports_changed = false;
        if (cache->spec.on_report)
            cache->spec.on_report(cache->spec.arg);
    }
}
