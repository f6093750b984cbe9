/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/drain.h"

#include "base/bits.h"

struct candidate {
    uint32_t node, supernode, used, share; /* share: used GPUs of the supernode, per mille */
};

struct drain {
    struct gt_cluster *cluster;
    struct gt_plan_request request;
    struct candidate *list;
    uint64_t *freed; /* [node] */
    uint32_t count;
};

static int by_drain(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    GT_BY(x->share, y->share);
    GT_BY(x->supernode, y->supernode);
    GT_BY(x->used, y->used);
    return (x->node > y->node) - (x->node < y->node);
}

/* All nodes where pods may be placed; the caller frees them. */
static struct candidate *drain_collect(const struct gt_cluster *cluster, const struct gt_node_set *excluded,
                                       uint32_t *ret_count)
{
    uint32_t nodes = gt_cluster_nodes(cluster), supernodes = gt_cluster_supernodes(cluster), count = 0;
    struct candidate *list = calloc((size_t)nodes + 1, sizeof(*list));
    uint64_t *used = calloc((size_t)supernodes + 1, sizeof(*used)),
             *all = calloc((size_t)supernodes + 1, sizeof(*all));
    for (uint32_t n = 0; list && used && all && n < nodes; n++) {
        struct gt_cluster_node info;
        if (!gt_cluster_get_node(cluster, n, &info) || !info.eligible || gt_node_set_has(excluded, n))
            continue;
        list[count] = (struct candidate){n, info.supernode, gt_bit_count(info.healthy & ~info.available), 0};
        used[info.supernode] += list[count].used;
        all[info.supernode] += gt_bit_count(info.healthy);
        count++;
    }
    for (uint32_t i = 0; i < count; i++)
        list[i].share =
            (uint32_t)(all[list[i].supernode] ? used[list[i].supernode] * 1000 / all[list[i].supernode]
                                              : 1000);
    free(used);
    free(all);
    *ret_count = count;
    return list;
}

/* Frees the GPUs of the first `count` nodes. */
static bool drain_fits(struct drain *drain, uint32_t count)
{
    struct gt_plan_failure failure;
    for (uint32_t i = 0; i < drain->count; i++)
        drain->freed[drain->list[i].node] = i < count ? UINT64_MAX : 0;
    return gt_plan_job(drain->cluster, &drain->request, &failure);
}

static bool find_shortest(struct drain *drain)
{
    uint32_t low = 0, high = drain->count; /* it fits with `high`, not with `low` */
    if (!drain_fits(drain, high))
        return false;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (drain_fits(drain, middle))
            high = middle;
        else
            low = middle;
    }
    return drain_fits(drain, high);
}

bool gt_drain_plan(struct gt_cluster *cluster, const struct gt_plan_request *request)
{
    struct drain drain = {.cluster = cluster, .request = *request};
    drain.list = drain_collect(cluster, request->excluded, &drain.count);
    drain.freed = calloc((size_t)gt_cluster_nodes(cluster) + 1, sizeof(*drain.freed));
    drain.request.freed = drain.freed;
    bool found = drain.list && drain.freed && drain.count;
    if (found) {
        qsort(drain.list, drain.count, sizeof(*drain.list), by_drain);
        found = find_shortest(&drain);
    }
    free(drain.list);
    free(drain.freed);
    return found;
}
