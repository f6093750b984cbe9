/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/inventory.h"

/* A node that is not finished: `n` GPUs at 0000:10:00.0, 0000:11:00.0... with UUIDs GPU-0, GPU-1..., NUMA
 * node i / 4, cardI and renderD(128 + I), and links whose bandwidth is drawn from `seed` (0: none, kind SYS).
 */
struct gt_node *machine_new(unsigned n, unsigned seed);

/* Finishes a node and makes the inventory that follows `previous`; takes over the reference of the node. */
struct gt_inventory *machine_inventory(struct gt_node *node, const struct gt_inventory *previous);

/* All devices as "ID+" healthy, "ID-" unhealthy, "ID!" lost, with blanks between; valid until the next call.
 */
const char *machine_list(const struct gt_inventory *inventory);

/* Pseudo-random numbers, the same for the same state. */
unsigned machine_random(uint64_t *state, unsigned below);
