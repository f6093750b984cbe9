/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

/* The spare nodes, which only recreated pods may use, as in cache/cache_spares.c: the last ones of each
 * supernode's completely free nodes. */

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
