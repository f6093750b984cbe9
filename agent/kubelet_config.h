/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/*
 * What the kubelet of this node is configured to do with NUMA nodes, and what these have. Flags on the
 * kubelet's command line and its drop-in directory are not read.
 */

/* Reads a KubeletConfiguration (YAML or JSON) from a text, or what the kubelet's configz answers, with it in
 * a member; only the latter where `is_answer`. Where that cannot be read, or a policy does not exist,
 * ret->unknown says it and the rest is "". */
void gt_kubelet_config_parse(const char *text, size_t len, const char *source, bool is_answer,
                             struct gt_kubelet *ret);

/* The same from a file. -ENOENT: there is none; ret->unknown says it, too. */
int gt_kubelet_config_read(const char *path, struct gt_kubelet *ret);

/* Adds CPUs and memory of the NUMA nodes below `root`/sys to the node. */
void gt_numa_nodes_read(const char *root, struct gt_node *node);
