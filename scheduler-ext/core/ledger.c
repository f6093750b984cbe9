/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "scheduler-ext/core/internal.h"

/* What is promised of each node's GPUs. */

static int grow_ledger(struct gt_cluster *cluster, struct gt_err **err)
{
    uint32_t old = cluster->promise_capacity, new = old ? old + old / 2 : 256;
    struct promise *pool = realloc(cluster->promises, new * sizeof(*pool));
    if (!pool)
        return gt_fail_sys(err, ENOMEM, "cluster");
    cluster->promises = pool;
    cluster->promise_capacity = new;
    return 0;
}

int gt_cluster_promise(struct gt_cluster *cluster, uint32_t node, const struct gt_promise *promise,
                       uint32_t *ret, struct gt_err **err)
{
    if (!gt_core_has_node(cluster, node))
        return gt_fail(err, ENOENT, "there is no node %u", node);
    if (!promise->mask || promise->mask & ~cluster->available[node])
        return gt_fail(err, EBUSY, "node %s: GPUs %#llx are not available, only %#llx are",
                       cluster->node_names.text[node], (unsigned long long)promise->mask,
                       (unsigned long long)cluster->available[node]);
    uint32_t id = cluster->promise_free;
    if (id != GT_NONE)
        cluster->promise_free = cluster->promises[id].next;
    else {
        int r = cluster->promise_count == cluster->promise_capacity ? grow_ledger(cluster, err) : 0;
        if (r < 0)
            return r;
        id = cluster->promise_count++;
    }
    uint32_t first = cluster->first_promise[node];
    cluster->promises[id] = (struct promise){*promise, node, first, GT_NONE};
    if (first != GT_NONE)
        cluster->promises[first].previous = id;
    cluster->first_promise[node] = id;
    cluster->assumed[node] |= promise->mask;
    gt_core_refresh(cluster, node);
    *ret = id;
    return 0;
}

void gt_cluster_end_promise(struct gt_cluster *cluster, uint32_t id)
{
    if (id >= cluster->promise_count || cluster->promises[id].node == GT_NONE)
        return;
    struct promise *promise = &cluster->promises[id];
    uint32_t node = promise->node;
    if (promise->previous != GT_NONE)
        cluster->promises[promise->previous].next = promise->next;
    else
        cluster->first_promise[node] = promise->next;
    if (promise->next != GT_NONE)
        cluster->promises[promise->next].previous = promise->previous;
    cluster->assumed[node] &= ~promise->told.mask;
    gt_core_refresh(cluster, node);
    promise->node = GT_NONE;
    promise->next = cluster->promise_free;
    cluster->promise_free = id;
}

uint32_t gt_cluster_end_promises(struct gt_cluster *cluster, enum gt_promise_kind kind, uint64_t owner)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < cluster->promise_count; id++) {
        const struct promise *promise = &cluster->promises[id];
        if (promise->node == GT_NONE || promise->told.kind != kind || promise->told.owner != owner)
            continue;
        gt_cluster_end_promise(cluster, id);
        count++;
    }
    return count;
}

uint32_t gt_cluster_find_promise(const struct gt_cluster *cluster, uint32_t node,
                                 const struct gt_promise *promise)
{
    uint32_t id = gt_core_has_node(cluster, node) ? cluster->first_promise[node] : GT_NONE;
    for (; id != GT_NONE; id = cluster->promises[id].next) {
        const struct gt_promise *told = &cluster->promises[id].told;
        if (told->kind == promise->kind && told->owner == promise->owner && told->mask == promise->mask)
            break;
    }
    return id;
}

bool gt_cluster_promise_of(const struct gt_cluster *cluster, uint32_t node, unsigned gpu,
                           struct gt_promise *ret)
{
    uint32_t id = gt_core_has_node(cluster, node) ? cluster->first_promise[node] : GT_NONE;
    while (id != GT_NONE && !(cluster->promises[id].told.mask >> gpu & 1))
        id = cluster->promises[id].next;
    if (id != GT_NONE)
        *ret = cluster->promises[id].told;
    return id != GT_NONE;
}
