/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/cluster.h"

/*
 * How many pods of `gpus` GPUs, 1 or more, the node's kubelet surely admits when `available` are its
 * available GPUs. Where it refuses sets that are spread over NUMA nodes (topology/model/numa.h), pods that
 * are promised GPUs and have not come yet count, too: it does not know of promises, and serves pods in the
 * order in which they come. So all orders must do.
 */
unsigned gt_numa_pods(const struct gt_cluster *cluster, uint32_t node, uint64_t available, unsigned gpus);
