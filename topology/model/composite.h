/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/*
 * Composite devices of Dynamic Resource Allocation: several GPUs of a node that are given as one device. A
 * name says which GPUs, and how many, so that it never matches other GPUs when the node has changed:
 *   pair-0000-0e-00-0-0000-0f-00-0   two GPUs with a direct link
 *   zone-0000-0e-00-0-4              the link zone of four GPUs, of which this is the first
 *   node-8                           all GPUs of the node
 */
enum gt_composite_type { GT_COMPOSITE_PAIR, GT_COMPOSITE_ZONE, GT_COMPOSITE_NODE, GT_COMPOSITE_TYPES };
enum {
    GT_COMPOSITE_GPUS_MAX = 32, /* a node with more GPUs has no composites */
    GT_COMPOSITES_MAX = GT_COMPOSITE_GPUS_MAX * (GT_COMPOSITE_GPUS_MAX - 1) / 2, /* of one type */
};

/* "pair", "zone", "node" */
const char *gt_composite_word(enum gt_composite_type type);

/* Writes all composites of one type as masks of GPUs, ascending, and returns their number. Each has at least
 * two GPUs. A node of more than GT_COMPOSITE_GPUS_MAX GPUs has none. */
unsigned gt_composite_list(const struct gt_node *node, enum gt_composite_type type,
                           uint64_t ret[static GT_COMPOSITES_MAX]);
/* The name of a composite that gt_composite_list() has listed. */
void gt_composite_name(const struct gt_node *node, enum gt_composite_type type, uint64_t gpus,
                       char to[static GT_DRA_DEVICE_SIZE]);

/* Whether a name has the form of a composite's name, for any node. */
bool gt_composite_is_name(const char *name);

/* The GPUs among which a name is searched: their device names ("" none) and link zones. */
struct gt_composite_gpus {
    unsigned count;
    const char *const *names;
    const uint8_t *zones;
};
/* The GPUs of the composite with this name, as a mask; 0: there is no such composite. */
uint64_t gt_composite_find(const struct gt_composite_gpus *gpus, const char *name);
uint64_t gt_composite_of_node(const struct gt_node *node, const char *name);
