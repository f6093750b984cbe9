/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/node_set.h"

/*
 * The GPUs that a kubelet with a verdict (topology/model/numa.h) gives a pod of these free ones; 0: it
 * refuses the pod, or may refuse it. ret_masks[i] are those of its request i; NULL: they are not asked for. A
 * pod with too many requests is served as if it had one.
 */
uint64_t gt_numa_serve(const struct gt_class *class, uint64_t free, struct gt_numa_pod pod,
                       uint64_t *ret_masks);

/* How many such pods it serves one after the other. */
unsigned gt_numa_serves(const struct gt_class *class, uint64_t free, struct gt_numa_pod pod);

/*
 * How many such pods, of 1 GPU or more, the node's kubelet surely admits when `available` are its available
 * GPUs. Where it refuses sets that are spread over NUMA nodes, pods that are promised GPUs and have not come
 * yet count, too: it does not know of promises, and serves pods in the order in which they come. So all
 * orders must do. Passed pods count likewise.
 */
unsigned gt_numa_pods(const struct gt_cluster *cluster, uint32_t node, uint64_t available,
                      struct gt_numa_pod pod);

/* Whether the node exists, and its kubelet refuses sets that are spread over NUMA nodes. */
bool gt_numa_judges(const struct gt_cluster *cluster, uint32_t node);

/* A pod that a scheduler may be binding to one of `nodes`, where it is not known to which: it counts on each.
 */
struct gt_passed_pod {
    uint64_t owner; /* a number of the caller, not 0 */
    uint64_t until_ms;
    struct gt_numa_pod pod;
    struct gt_node_set nodes;
};
enum { GT_PASSED_PODS_MAX = 64 }; /* as many as a node has GPUs at most; with more, the first is forgotten */
/* Takes over its nodes. */
void gt_numa_pass(struct gt_cluster *cluster, const struct gt_passed_pod *pod);
/* Ends that of the owner (0: none), and those whose time is over. Returns whether one has ended. */
bool gt_numa_end_passed(struct gt_cluster *cluster, uint64_t owner, uint64_t now_ms);
