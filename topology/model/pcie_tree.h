/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/*
 * The PCIe tree of a node for pictures: NUMA nodes, their host bridges, the bridges at which paths branch
 * (the switches), and the devices as leaves. Bridges with only one device below them are left out.
 */
enum gt_tree_type { GT_TREE_TOP, GT_TREE_NUMA, GT_TREE_HOST, GT_TREE_SWITCH, GT_TREE_GPU, GT_TREE_NIC };

struct gt_tree_item {
    enum gt_tree_type type;
    int number;       /* NUMA node (-1 unknown), or index of the GPU or NIC */
    const char *name; /* of a host bridge, or of a second panel of GPUs without a NUMA node, "" for a NUMA
                       * node, else the PCI address; lives as long as the node */
    unsigned parent;  /* position in items */
    unsigned first_child, next; /* positions in items, 0: none; item 0 is the top */
    unsigned level;             /* number of switches above it */
};

struct gt_tree {
    struct gt_tree_item *items; /* each parent is before its children */
    unsigned count;
    unsigned levels; /* the number of rows of switches */
};

/* False without memory. Children of every item are in order: GPUs by index, then NICs. */
bool gt_tree_make(const struct gt_node *node, struct gt_tree *ret);
void gt_tree_done(struct gt_tree *tree);
static inline void gt_tree_done_p(struct gt_tree *tree)
{
    gt_tree_done(tree);
}
#define gt_auto_tree __attribute__((cleanup(gt_tree_done_p)))
