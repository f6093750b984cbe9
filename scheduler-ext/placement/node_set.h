/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_NODE_SET_H
#define GPUTOPO_PLACEMENT_NODE_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* A set of nodes, by id. */
struct gt_node_set {
    uint64_t *bits;
    uint32_t nodes;
};
bool gt_node_set_has(const struct gt_node_set *set, uint32_t node);
int gt_node_set_add(struct gt_node_set *set, uint32_t node, struct gt_err **err);
void gt_node_set_done(struct gt_node_set *set);

#endif
