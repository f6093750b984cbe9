/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/* Worst fit: the supernode with the most room; the first of equals. */
static uint32_t choose(void *state, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    (void)state;
    uint32_t best = GT_NONE;
    for (uint32_t s = 0; s < world->site->super_count; s++)
        if (slots[s] >= pods && (best == GT_NONE || slots[s] > slots[best]))
            best = s;
    return best;
}

static bool place(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    return gt_group_each_unit(state, world, job, places, choose);
}

const struct gt_group_policy gt_group_worst_fit = {.name = "worst-fit", .keeps_groups = true, .place = place};
