/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

/* The nodes that are left to pods which come again, as in cache/cache_spares.c: of each supernode the last
 * ones that are wholly free. */

void gt_spares_node_changed(struct group_run *run, uint32_t node)
{
    const struct gt_world *world = run->world;
    uint32_t super = world->site->nodes[node].super, left = run->options->spares;
    uint32_t first = world->site->first_node[super], end = world->site->first_node[super + 1];
    if (left > end - first)
        left = 0;
    for (uint32_t n = end; run->options->spares && n-- > first;) {
        run->parts.spare[n] = left && !run->dead[n] && world->free[n] == world->all[n];
        left -= run->parts.spare[n];
    }
}
