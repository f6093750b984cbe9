/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "scheduler-ext/core/cluster.h"

/* A cluster of nodes that are one mesh each, small enough to try every set of pods. */

enum { MESH_NODES = 6, MESH_GPUS = 8 };

/* Supernodes s0, s1... (0: none). supers[i] is that of node i. `numa`: how its kubelets judge pods; NULL:
 * not. The caller frees the cluster. */
struct gt_cluster *mesh_cluster_new(unsigned supernodes, const unsigned supers[MESH_NODES],
                                    const struct gt_numa *numa, uint32_t ret_nodes[MESH_NODES]);

/* Two NUMA nodes of four GPUs, or of two and six, with single-numa-node or restricted. */
enum { MESH_NUMAS = 4 };
const struct gt_numa *mesh_numa(unsigned number);

/* Marks GPUs of the node as in use. */
void mesh_cluster_take(struct gt_cluster *cluster, uint32_t node, uint64_t mask);

/* A pseudo-random number below n; changes the state. */
unsigned mesh_below(uint64_t *state, unsigned n);
