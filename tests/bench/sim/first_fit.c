/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/* First fit: the first supernode that holds the unit. */
static uint32_t choose(void *state, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    (void)state;
    for (uint32_t s = 0; s < world->site->super_count; s++)
        if (slots[s] >= pods)
            return s;
    return GT_NONE;
}

static bool place(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    return gt_group_each_unit(state, world, job, places, choose);
}

const struct gt_group_policy gt_group_first_fit = {.name = "first-fit", .keeps_groups = true, .place = place};
