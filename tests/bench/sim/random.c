/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/* Random: any supernode that holds the unit. */
static uint32_t choose(void *state, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    uint32_t best = GT_NONE, feasible = 0;
    for (uint32_t s = 0; s < world->site->super_count; s++)
        if (slots[s] >= pods && gt_rng_below(state, ++feasible) == 0)
            best = s;
    return best;
}

static bool place(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    return gt_group_each_unit(state, world, job, places, choose);
}

const struct gt_group_policy gt_group_random = {
    .name = "random", .keeps_groups = true, .open = gt_group_open_rng, .close = free, .place = place};
