/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct gt_err;

/* A set of node ids; zeroed: empty. A NULL set counts as empty. Owned by the caller: gt_node_set_done() frees
 * its memory. */
struct gt_node_set {
    uint64_t *bits;
    uint32_t nodes; /* ids below this have a bit */
};
static inline bool gt_node_set_has(const struct gt_node_set *set, uint32_t node)
{
    return set && node < set->nodes && (set->bits[node / 64] >> node % 64 & 1);
}
int gt_node_set_add(struct gt_node_set *set, uint32_t node, struct gt_err **err);
void gt_node_set_remove(struct gt_node_set *set, uint32_t node);
/* The lowest id of the set that is at least `from`; UINT32_MAX: none. */
uint32_t gt_node_set_next(const struct gt_node_set *set, uint32_t from);
uint32_t gt_node_set_count(const struct gt_node_set *set);
/* Takes all nodes out and keeps the memory. */
void gt_node_set_clear(struct gt_node_set *set);
void gt_node_set_done(struct gt_node_set *set);
