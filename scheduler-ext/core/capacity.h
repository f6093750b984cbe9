/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/cluster.h"

/* How much room a cluster has: for explanations, and as bounds to compare a plan with. */

/* (*ret)[supernode id]: how many pods of `gpus` GPUs have room on the nodes of each tier-1 supernode, 0 for
 * inner ones. The array has gt_cluster_supernodes() entries; the caller frees it with free(). */
int gt_capacity_of(const struct gt_cluster *cluster, unsigned gpus, uint32_t **ret, struct gt_err **err);

/* The same if the cluster were empty: with all GPUs of all nodes free and healthy, and all nodes eligible. */
struct gt_empty_spec {
    struct gt_numa_pod pod;             /* each has 1 GPU or more */
    const struct gt_node_set *excluded; /* nodes that are not used; NULL: none */
    /* Most such pods on a node, whatever its GPUs. NULL: nothing else limits them. */
    uint32_t (*most)(const void *arg, uint32_t node);
    const void *arg;
};
int gt_capacity_empty(const struct gt_cluster *cluster, const struct gt_empty_spec *spec, uint32_t **ret,
                      struct gt_err **err);

struct gt_bounds {
    uint64_t slots;   /* pods that have room, whatever the topology */
    uint64_t whole;   /* units that each fit into one supernode: sum of floor(room / pods) */
    uint32_t largest; /* most pods that one supernode holds */
};

/* For units of `pods` pods. `room` has `count` entries, as from gt_capacity_of(). */
struct gt_bounds gt_bounds_of(const uint32_t *room, uint32_t count, uint32_t pods);
