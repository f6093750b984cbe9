/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/node_set.h"

/*
 * How many pods of `gpus` GPUs, 1 or more, the node's kubelet surely admits when `available` are its
 * available GPUs. Where it refuses sets that are spread over NUMA nodes (topology/model/numa.h), pods that
 * are promised GPUs and have not come yet count, too: it does not know of promises, and serves pods in the
 * order in which they come. So all orders must do. Passed pods count likewise.
 */
unsigned gt_numa_pods(const struct gt_cluster *cluster, uint32_t node, uint64_t available, unsigned gpus);

/* Whether the node exists, and its kubelet refuses sets that are spread over NUMA nodes. */
bool gt_numa_judges(const struct gt_cluster *cluster, uint32_t node);

/* A pod that a scheduler may be binding to one of `nodes`, where it is not known to which: it counts on each.
 */
struct gt_passed_pod {
    uint64_t owner; /* a number of the caller, not 0 */
    uint64_t until_ms;
    unsigned gpus;
    struct gt_node_set nodes;
};
enum { GT_PASSED_PODS_MAX = 64 }; /* as many as a node has GPUs at most; with more, the first is forgotten */
/* Takes over its nodes. */
void gt_numa_pass(struct gt_cluster *cluster, const struct gt_passed_pod *pod);
/* Ends that of the owner (0: none), and those whose time is over. Returns whether one has ended. */
bool gt_numa_end_passed(struct gt_cluster *cluster, uint64_t owner, uint64_t now_ms);
