/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/time_text.h"
#include "scheduler-ext/core/internal.h"

/* What is promised of each node's GPUs. */

static int grow_ledger(struct gt_cluster *cluster, struct gt_err **err)
{
    uint32_t old = cluster->promise_capacity, new = old ? old + old / 2 : 256;
    struct promise *pool = realloc(cluster->promises, new * sizeof(*pool));
    GT_NEED(pool, err, "cluster");
    memset(pool + old, 0, (new - old) * sizeof(*pool));
    cluster->promises = pool;
    cluster->promise_capacity = new;
    return 0;
}

void gt_cluster_set_time(struct gt_cluster *cluster, uint64_t now_ms)
{
    cluster->now_ms = now_ms;
}

int gt_cluster_promise(struct gt_cluster *cluster, const struct gt_promise *promise,
                       struct gt_promise_id *ret, struct gt_err **err)
{
    uint32_t node = promise->place.node;
    if (!gt_core_has_node(cluster, node))
        return gt_fail(err, ENOENT, "there is no node %u", node);
    uint64_t taken = promise->kind >= GT_PROMISE_NODE      ? 0
                     : promise->kind == GT_PROMISE_VACATED ? promise->place.mask & cluster->available[node]
                                                           : promise->place.mask;
    if (!promise->place.mask || taken & ~cluster->available[node])
        return gt_fail(err, EBUSY, "node %s: GPUs %#llx are not available, only %#llx are",
                       cluster->node_names.text[node], (unsigned long long)promise->place.mask,
                       (unsigned long long)cluster->available[node]);
    uint32_t slot = cluster->promise_free;
    if (slot == GT_NONE && cluster->promise_count == cluster->promise_capacity)
        GT_TRY(grow_ledger(cluster, err));
    if (promise->kind >= GT_PROMISE_NODE)
        GT_TRY(gt_node_set_add(&cluster->kept[promise->kind - GT_PROMISE_NODE], node, err));
    if (slot != GT_NONE)
        cluster->promise_free = cluster->promises[slot].next;
    else
        slot = cluster->promise_count++;
    uint32_t first = cluster->first_promise[node], generation = cluster->promises[slot].generation + 1;
    cluster->promises[slot] = (struct promise){*promise, taken, first, GT_NONE, generation};
    if (!promise->since_ms)
        cluster->promises[slot].told.since_ms = cluster->now_ms;
    if (first != GT_NONE)
        cluster->promises[first].previous = slot;
    cluster->first_promise[node] = slot;
    cluster->assumed[node] |= taken;
    gt_core_refresh(cluster, node);
    *ret = (struct gt_promise_id){slot, generation};
    return 0;
}

void gt_core_end_promise(struct gt_cluster *cluster, uint32_t slot)
{
    struct promise *promise = &cluster->promises[slot];
    uint32_t node = promise->told.place.node;
    GT_ASSERT(slot < cluster->promise_count && gt_core_has_node(cluster, node));
    if (promise->previous != GT_NONE)
        cluster->promises[promise->previous].next = promise->next;
    else
        cluster->first_promise[node] = promise->next;
    if (promise->next != GT_NONE)
        cluster->promises[promise->next].previous = promise->previous;
    if (promise->told.kind >= GT_PROMISE_NODE && !gt_cluster_promised(cluster, node, promise->told.kind))
        gt_node_set_remove(&cluster->kept[promise->told.kind - GT_PROMISE_NODE], node);
    cluster->assumed[node] &= ~promise->taken;
    gt_core_refresh(cluster, node);
    promise->told.place.node = GT_NONE;
    promise->next = cluster->promise_free;
    cluster->promise_free = slot;
}

const struct gt_promise *gt_cluster_find_promise(const struct gt_cluster *cluster, struct gt_promise_id id)
{
    const struct promise *promise = id.slot < cluster->promise_count ? &cluster->promises[id.slot] : NULL;
    return promise && promise->generation == id.generation && promise->told.place.node != GT_NONE
               ? &promise->told
               : NULL;
}

void gt_cluster_end_promise(struct gt_cluster *cluster, struct gt_promise_id id)
{
    if (gt_cluster_find_promise(cluster, id))
        gt_core_end_promise(cluster, id.slot);
}

/* The next one of this kind to that owner, from that slot on; GT_NONE: there is none. */
static uint32_t ledger_next(const struct gt_cluster *cluster, uint32_t slot, enum gt_promise_kind kind,
                            uint64_t owner)
{
    for (; slot < cluster->promise_count; slot++) {
        const struct gt_promise *told = &cluster->promises[slot].told;
        if (told->place.node != GT_NONE && told->kind == kind && told->owner == owner)
            return slot;
    }
    return GT_NONE;
}

uint32_t gt_cluster_end_promises(struct gt_cluster *cluster, enum gt_promise_kind kind, uint64_t owner)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; (slot = ledger_next(cluster, slot, kind, owner)) != GT_NONE; slot++, count++)
        gt_core_end_promise(cluster, slot);
    return count;
}

void gt_cluster_renew_promise(struct gt_cluster *cluster, struct gt_promise_id id, uint64_t until_ms)
{
    if (gt_cluster_find_promise(cluster, id))
        cluster->promises[id.slot].told.until_ms = until_ms;
}

void gt_cluster_renew_promises(struct gt_cluster *cluster, enum gt_promise_kind kind, uint64_t owner,
                               uint64_t until_ms)
{
    for (uint32_t slot = 0; (slot = ledger_next(cluster, slot, kind, owner)) != GT_NONE; slot++)
        cluster->promises[slot].told.until_ms = until_ms;
}

static uint32_t ledger_first(const struct gt_cluster *cluster, uint32_t node)
{
    return gt_core_has_node(cluster, node) ? cluster->first_promise[node] : GT_NONE;
}

void gt_cluster_promise_nodes(struct gt_cluster *cluster, enum gt_promise_kind kind, uint64_t owner,
                              const struct gt_node_set *nodes, uint64_t until_ms)
{
    struct gt_promise promise = {
        .kind = kind, .owner = owner, .place.mask = UINT64_MAX, .until_ms = until_ms};
    struct gt_promise_id id;
    for (uint32_t slot = 0; (slot = ledger_next(cluster, slot, kind, owner)) != GT_NONE; slot++) {
        if (gt_node_set_has(nodes, cluster->promises[slot].told.place.node))
            cluster->promises[slot].told.until_ms = until_ms;
        else
            gt_core_end_promise(cluster, slot);
    }
    for (uint32_t n = gt_node_set_next(nodes, 0); n != GT_NONE; n = gt_node_set_next(nodes, n + 1)) {
        promise.place.node = n;
        if (!gt_node_set_has(gt_cluster_kept_nodes(cluster, kind), n))
            gt_cluster_promise(cluster, &promise, &id, NULL);
    }
}

uint64_t gt_cluster_promised(const struct gt_cluster *cluster, uint32_t node, enum gt_promise_kind kind)
{
    uint64_t mask = 0;
    for (uint32_t slot = ledger_first(cluster, node); slot != GT_NONE; slot = cluster->promises[slot].next)
        mask |= cluster->promises[slot].told.kind == kind ? cluster->promises[slot].told.place.mask : 0;
    return mask;
}

const struct gt_node_set *gt_cluster_kept_nodes(const struct gt_cluster *cluster, enum gt_promise_kind kind)
{
    GT_ASSERT(kind >= GT_PROMISE_NODE);
    return &cluster->kept[kind - GT_PROMISE_NODE];
}

const struct gt_promise *gt_cluster_kept_from(const struct gt_cluster *cluster, uint32_t node, uint64_t owner)
{
    const struct gt_promise *found = NULL;
    for (uint32_t slot = ledger_first(cluster, node); slot != GT_NONE; slot = cluster->promises[slot].next) {
        const struct gt_promise *told = &cluster->promises[slot].told;
        if (told->kind == GT_PROMISE_SPARE)
            return told;
        if (told->kind == GT_PROMISE_NOTED_NODE || (told->kind == GT_PROMISE_NODE && told->owner != owner))
            found = told;
    }
    return found;
}

const struct gt_promise *gt_cluster_promise_of(const struct gt_cluster *cluster, uint32_t node, unsigned gpu)
{
    const struct promise *found = NULL;
    for (uint32_t slot = ledger_first(cluster, node); slot != GT_NONE; slot = cluster->promises[slot].next) {
        const struct promise *promise = &cluster->promises[slot];
        if (promise->told.place.mask >> gpu & 1 && (!found || promise->taken >> gpu & 1))
            found = promise;
    }
    return found ? &found->told : NULL;
}

void gt_promise_say(const struct gt_promise *promise, const char *whose, uint64_t unix_ms, struct gt_buf *to)
{
    static const struct {
        const char *what, *unknown; /* unknown: to whom, where `whose` is NULL; NULL: to no owner */
    } words[] = {
        [GT_PROMISE_PLANNED] = {"planned for ", "a job that has ended"},
        [GT_PROMISE_RESERVED] = {"reserved for pods to come of ", "a job that has ended"},
        [GT_PROMISE_ADMITTED] = {"reserved for ", "a Workload that Kueue has let in"},
        [GT_PROMISE_VACATED] = {"vacated for ", "a job that has ended"},
        [GT_PROMISE_FOREIGN] = {"reserved by the other scheduler for pods to come", NULL},
        [GT_PROMISE_NODE] = {"reserved for ", "another job"},
        [GT_PROMISE_SPARE] = {"spare, left free for pods that lose their nodes", NULL},
        [GT_PROMISE_PEOPLE] = {"reserved by people", NULL},
        [GT_PROMISE_NOTED] = {"reserved by the leading replica for pods to come", NULL},
        [GT_PROMISE_NOTED_NODE] = {"reserved by the leading replica for a waiting job", NULL},
    };
    const char *unknown = words[promise->kind].unknown;
    bool ends = promise->until_ms && promise->until_ms != UINT64_MAX;
    uint64_t at_ms = ends ? promise->until_ms : unknown ? promise->since_ms : 0;
    gt_buf_printf(to, "%s%s", words[promise->kind].what, !unknown ? "" : whose ? whose : unknown);
    if (at_ms) {
        char at[GT_TIME_TEXT_SIZE];
        gt_time_text((int64_t)((at_ms + unix_ms) / 1000), at);
        gt_buf_printf(to, ends ? " until %s" : ", since %s", at);
    }
    if (promise->kind == GT_PROMISE_PEOPLE && whose)
        gt_buf_printf(to, " for %s", whose);
}

void gt_promise_say_some(enum gt_promise_kind kind, uint32_t count, const char *what, struct gt_buf *to)
{
    if (!count)
        return;
    gt_buf_printf(to, "; %u %s%s ", count, what, count == 1 ? " is" : "s are");
    gt_promise_say(&(struct gt_promise){.kind = kind}, NULL, 0, to);
}
