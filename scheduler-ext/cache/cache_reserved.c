/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/movable.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/time_text.h"
#include "scheduler-ext/cache/cache_internal.h"

/* What people reserve: Nodes and Supernodes, also those above. It begins and ends by the time of day. */

void gt_cache_set_reserved(struct gt_cache *cache, struct cache_reserved *at, const char *text)
{
    if (at->text && text && strcmp(at->text, text) == 0)
        return;
    gt_cache_string_drop(cache, at->text);
    cache->has_reserved = cache->has_reserved || text;
    cache->more_room = true;
    at->text = text ? gt_cache_string(cache, text) : NULL;
    at->reported = false;
}

/* Its own reservation, or that of a supernode that it lies in, which keeps the job off now. */
static bool find_reserved(const struct gt_cache *cache, const char *job, uint32_t node_id,
                          struct gt_reserved *ret)
{
    const struct cache_node *node = cache->has_reserved ? gt_cache_node_of(cache, node_id) : NULL;
    int64_t now_s = (int64_t)(gt_clock_wall_ms() / 1000);
    if (!node)
        return false;
    if (node->reserved.text && gt_reserved_read(node->reserved.text, ret) &&
        gt_reserved_keeps_off(ret, job, now_s))
        return true;
    for (const struct cache_supernode *super = node->supernode; super; super = super->above)
        if (super->reserved.text && gt_reserved_read(super->reserved.text, ret) &&
            gt_reserved_keeps_off(ret, job, now_s))
            return true;
    return false;
}

bool gt_cache_has_reserved(const struct gt_cache *cache)
{
    return cache->has_reserved;
}

bool gt_cache_job_may_use(const struct gt_cache *cache, const char *job, uint32_t node)
{
    struct gt_reserved reserved;
    return !find_reserved(cache, job, node, &reserved);
}

bool gt_cache_may_use(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node)
{
    return gt_cache_job_may_use(cache, pod ? pod->job->key : NULL, node);
}

int gt_cache_reserved_nodes(const struct gt_cache *cache, struct gt_node_set *ret, struct gt_err **err)
{
    gt_node_set_clear(ret);
    for (uint32_t n = 0; cache->has_reserved && n < gt_cluster_nodes(cache->cluster); n++)
        if (!gt_cache_may_use(cache, NULL, n))
            GT_TRY(gt_node_set_add(ret, n, err));
    return 0;
}

void gt_cache_say_reserved(const struct gt_cache *cache, uint32_t node, struct gt_buf *to)
{
    struct gt_reserved reserved;
    char until[GT_TIME_TEXT_SIZE];
    if (!find_reserved(cache, NULL, node, &reserved))
        return;
    gt_time_text(reserved.until_s, until);
    gt_buf_printf(to, "reserved by people until %s", until);
    if (reserved.for_len)
        gt_buf_printf(to, " for %.*s", (int)reserved.for_len, reserved.for_);
}

static bool cache_reserved_is_wrong(struct cache_reserved *at)
{
    struct gt_reserved reserved;
    bool reported = at->reported;
    at->reported = true;
    return at->text && !reported && !gt_reserved_read(at->text, &reserved);
}

const char *gt_cache_next_wrong_reserved(struct gt_cache *cache, bool *ret_is_node)
{
    if (!cache->has_reserved)
        return NULL;
    *ret_is_node = true;
    for (struct cache_node *node = NULL; (node = gt_cache_next_node(cache, node));)
        if (cache_reserved_is_wrong(&node->reserved))
            return node->name;
    *ret_is_node = false;
    for (struct cache_supernode *super = NULL; (super = gt_cache_next_supernode(cache, super));)
        if (cache_reserved_is_wrong(&super->reserved))
            return super->name;
    return NULL;
}
