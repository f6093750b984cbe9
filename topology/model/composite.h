/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_COMPOSITE_H
#define GPUTOPO_MODEL_COMPOSITE_H

#include "topology/model/device_name.h"

/*
 * Composite devices of Dynamic Resource Allocation: several GPUs of a node that are given as one. A name says
 * which GPUs, and how many, so that it means nothing where the node has changed, and never other GPUs:
 *   pair-0000-0e-00-0-0000-0f-00-0   two GPUs with a direct link
 *   zone-0000-0e-00-0-4              the link zone of four GPUs, of which this is the first
 *   node-8                           all GPUs of the node
 */
enum gt_composite_type { GT_COMPOSITE_PAIR, GT_COMPOSITE_ZONE, GT_COMPOSITE_NODE, GT_COMPOSITE_TYPES };
enum {
    GT_COMPOSITE_GPUS_MAX = 32,                                                  /* of a node that has any */
    GT_COMPOSITES_MAX = GT_COMPOSITE_GPUS_MAX * (GT_COMPOSITE_GPUS_MAX - 1) / 2, /* of one type */
};

/* "pair", "zone", "node" */
const char *gt_composite_word(enum gt_composite_type type);

/* All of one type, as masks of GPUs, ascending; their number. None has less than two GPUs. A node of more
 * than GT_COMPOSITE_GPUS_MAX GPUs has none. */
unsigned gt_composite_list(const struct gt_node *node, enum gt_composite_type type,
                           uint64_t ret[static GT_COMPOSITES_MAX]);
/* The name of one of those. */
void gt_composite_name(const struct gt_node *node, enum gt_composite_type type, uint64_t gpus,
                       char to[static GT_DRA_DEVICE_SIZE]);

/* Whether a name may be one of a composite, of whatever node. */
bool gt_composite_is_name(const char *name);

/* What a name is looked up in: the GPUs' names as devices ("" none) and their link zones. */
struct gt_composite_gpus {
    unsigned count;
    const char *const *names;
    const uint8_t *zones;
};
/* The GPUs that are called so; 0: these have no such composite. */
uint64_t gt_composite_find(const struct gt_composite_gpus *of, const char *name);
uint64_t gt_composite_of_node(const struct gt_node *node, const char *name);

#endif
