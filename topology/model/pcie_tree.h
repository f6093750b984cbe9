/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_PCIE_TREE_H
#define GPUTOPO_MODEL_PCIE_TREE_H

#include "topology/model/node.h"

/*
 * The PCIe tree of a node as a picture shows it: NUMA nodes, their host bridges, those bridges where paths
 * branch (the switches), and the devices as leaves. Bridges with one device below them are left out.
 */
enum gt_tree_type { GT_TREE_TOP, GT_TREE_NUMA, GT_TREE_HOST, GT_TREE_SWITCH, GT_TREE_GPU, GT_TREE_NIC };

struct gt_tree_item {
    enum gt_tree_type type;
    int number; /* NUMA node (-1 unknown), or index of the GPU or NIC */
    const char
        *name; /* of a host bridge; PCI address of the others, "" of a NUMA node; points into the node */
    unsigned parent;            /* position in items */
    unsigned first_child, next; /* 0: none; item 0 is the top, nobody's child */
    unsigned level;             /* switches above, 0 for the first below a host bridge */
};

struct gt_tree {
    struct gt_tree_item *items; /* a parent stands before its children */
    unsigned count;
    unsigned levels; /* rows of switches */
};

/* False without memory. Children of every item are in order: GPUs by index, then NICs. */
bool gt_tree_make(const struct gt_node *node, struct gt_tree *ret);
void gt_tree_done(struct gt_tree *tree);
static inline void gt_tree_done_p(struct gt_tree *tree)
{
    gt_tree_done(tree);
}
#define gt_auto_tree __attribute__((cleanup(gt_tree_done_p)))

#endif
