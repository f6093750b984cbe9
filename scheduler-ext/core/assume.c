/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "scheduler-ext/core/internal.h"

static int grow(struct gt_cluster *cluster, struct gt_err **err)
{
    uint32_t old = cluster->assumption_capacity, new = old ? old + old / 2 : 256;
    struct assumption *pool = realloc(cluster->assumptions, new * sizeof(*pool));
    if (!pool)
        return gt_fail_sys(err, ENOMEM, "cluster");
    cluster->assumptions = pool;
    cluster->assumption_capacity = new;
    return 0;
}

int gt_cluster_assume(struct gt_cluster *cluster, uint32_t node, uint64_t mask, uint64_t owner,
                      uint64_t expires, uint32_t *ret, struct gt_err **err)
{
    if (!gt_core_has_node(cluster, node))
        return gt_fail(err, ENOENT, "there is no node %u", node);
    if (!mask || mask & ~cluster->available[node])
        return gt_fail(err, EBUSY, "node %s: GPUs %#llx are not available, only %#llx are",
                       cluster->node_names.text[node], (unsigned long long)mask,
                       (unsigned long long)cluster->available[node]);
    uint32_t id = cluster->assumption_free;
    if (id != GT_NONE)
        cluster->assumption_free = cluster->assumptions[id].next;
    else {
        if (cluster->assumption_count == cluster->assumption_capacity) {
            int r = grow(cluster, err);
            if (r < 0)
                return r;
        }
        id = cluster->assumption_count++;
    }
    uint32_t first = cluster->first_assumption[node];
    cluster->assumptions[id] = (struct assumption){mask, owner, expires, node, first, GT_NONE};
    if (first != GT_NONE)
        cluster->assumptions[first].previous = id;
    cluster->first_assumption[node] = id;
    cluster->assumed[node] |= mask;
    gt_core_refresh(cluster, node);
    *ret = id;
    return 0;
}

void gt_cluster_forget(struct gt_cluster *cluster, uint32_t id)
{
    if (id >= cluster->assumption_count || cluster->assumptions[id].node == GT_NONE)
        return;
    struct assumption *a = &cluster->assumptions[id];
    uint32_t node = a->node;
    if (a->previous != GT_NONE)
        cluster->assumptions[a->previous].next = a->next;
    else
        cluster->first_assumption[node] = a->next;
    if (a->next != GT_NONE)
        cluster->assumptions[a->next].previous = a->previous;
    cluster->assumed[node] &= ~a->mask;
    gt_core_refresh(cluster, node);
    a->node = GT_NONE;
    a->next = cluster->assumption_free;
    cluster->assumption_free = id;
}

uint32_t gt_cluster_expire(struct gt_cluster *cluster, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < cluster->assumption_count; id++)
        if (cluster->assumptions[id].node != GT_NONE && cluster->assumptions[id].expires <= now) {
            gt_cluster_forget(cluster, id);
            count++;
        }
    return count;
}

uint32_t gt_cluster_forget_owner(struct gt_cluster *cluster, uint64_t owner)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < cluster->assumption_count; id++)
        if (cluster->assumptions[id].node != GT_NONE && cluster->assumptions[id].owner == owner) {
            gt_cluster_forget(cluster, id);
            count++;
        }
    return count;
}

uint32_t gt_cluster_find_assumption(const struct gt_cluster *cluster, uint32_t node, uint64_t mask,
                                    uint64_t owner)
{
    uint32_t id = gt_core_has_node(cluster, node) ? cluster->first_assumption[node] : GT_NONE;
    while (id != GT_NONE &&
           (cluster->assumptions[id].owner != owner || cluster->assumptions[id].mask != mask))
        id = cluster->assumptions[id].next;
    return id;
}
