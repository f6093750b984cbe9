/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/movable.h"
#include "base/clock.h"
#include "base/err.h"
#include "scheduler-ext/cache/cache_internal.h"

/* What people reserve: Nodes and Supernodes, also those above. It begins and ends by the time of day. And
 * what is said of promises. */
enum { WHOSE_MAX = 1024 };

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

bool gt_cache_job_may_use(const struct gt_cache *cache, const char *job, uint32_t node)
{
    struct gt_reserved reserved;
    return !find_reserved(cache, job, node, &reserved);
}

bool gt_cache_may_use(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node)
{
    return gt_cache_job_may_use(cache, pod ? pod->job->key : NULL, node);
}

/* In Unix time. */
static struct gt_promise promise_of_people(const struct gt_reserved *reserved, uint32_t node)
{
    return (struct gt_promise){.kind = GT_PROMISE_PEOPLE,
                               .place = {node, UINT64_MAX},
                               .since_ms = (uint64_t)reserved->from_s * 1000,
                               .until_ms = (uint64_t)reserved->until_s * 1000};
}

void gt_cache_promise_reserved(struct gt_cache *cache)
{
    uint64_t unix_ms = gt_clock_wall_ms() - gt_clock_ms();
    if (cache->has_reserved)
        gt_cluster_end_promises(cache->cluster, GT_PROMISE_PEOPLE, 0);
    for (uint32_t n = 0; cache->has_reserved && n < gt_cluster_nodes(cache->cluster); n++) {
        struct gt_reserved reserved;
        struct gt_promise_id id;
        if (!find_reserved(cache, NULL, n, &reserved))
            continue;
        struct gt_promise promise = promise_of_people(&reserved, n);
        promise.since_ms = promise.since_ms > unix_ms ? promise.since_ms - unix_ms : 0;
        promise.until_ms -= unix_ms;
        gt_cluster_promise(cache->cluster, &promise, &id, NULL);
    }
}

bool gt_cache_say_reserved(const struct gt_cache *cache, uint32_t node, struct gt_buf *to)
{
    struct gt_reserved reserved;
    if (!find_reserved(cache, NULL, node, &reserved))
        return false;
    const struct gt_promise promise = promise_of_people(&reserved, node);
    gt_auto_free char *whose = reserved.for_len ? strndup(reserved.for_, reserved.for_len) : NULL;
    gt_promise_say(&promise, whose, 0, to);
    return true;
}

void gt_cache_say_promise(struct gt_cache *cache, const struct gt_promise *promise, uint64_t unix_ms,
                          struct gt_buf *to)
{
    const struct gt_cache_job *job = promise->owner ? gt_cache_numbered_job(cache, promise->owner) : NULL;
    gt_auto_buf struct gt_buf whose = GT_BUF(WHOSE_MAX);
    if (promise->kind == GT_PROMISE_PEOPLE && gt_cache_say_reserved(cache, promise->place.node, to))
        return; /* their own words have it to the second, and for whom */
    if (job)
        gt_buf_printf(&whose, "job %s", job->key);
    gt_promise_say(promise, whose.data, unix_ms, to);
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
