/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/capacity.h"

#include "base/err.h"
#include "scheduler-ext/core/numa_room.h"

int gt_capacity_of(const struct gt_cluster *cluster, unsigned gpus, uint32_t **ret, struct gt_err **err)
{
    uint32_t *room = calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*room));
    GT_NEED(room, err, "cluster");
    struct gt_cluster_node node;
    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++)
        if (gt_cluster_get_node(cluster, id, &node))
            room[node.supernode] += gt_class_pods(node.class, node.available, gpus);
    *ret = room;
    return 0;
}

int gt_capacity_empty(const struct gt_cluster *cluster, const struct gt_empty_spec *spec, uint32_t **ret,
                      struct gt_err **err)
{
    uint32_t *room = calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*room));
    GT_NEED(room, err, "cluster");
    struct gt_cluster_node node;
    const struct gt_class *class = NULL;
    uint32_t pods = 0; /* on a node of `class`; many are alike, and some take milliseconds */
    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++) {
        if (gt_node_set_has(spec->excluded, id) || !gt_cluster_get_node(cluster, id, &node))
            continue;
        if (node.class != class)
            pods = gt_numa_serves(node.class, node.all, spec->pod);
        class = node.class;
        uint32_t most = pods && spec->most ? spec->most(spec->arg, id) : pods;
        room[node.supernode] += pods < most ? pods : most;
    }
    *ret = room;
    return 0;
}

struct gt_bounds gt_bounds_of(const uint32_t *room, uint32_t count, uint32_t pods)
{
    struct gt_bounds bounds = {0};
    for (uint32_t s = 0; s < count; s++) {
        bounds.slots += room[s];
        bounds.whole += room[s] / pods;
        bounds.largest = room[s] > bounds.largest ? room[s] : bounds.largest;
    }
    return bounds;
}
