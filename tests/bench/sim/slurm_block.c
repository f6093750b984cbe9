/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/*
 * Slurm's topology/block with --segment: the selection is repeated for each segment (unit) on what is left:
 * of the blocks (supernodes) that hold it, the one with the fewest free nodes, the last block among equals. A
 * segment that fits nowhere fails the job. Written from Slurm's documentation; larger blocks of joined blocks
 * do not matter for a unit that fits into one block.
 */
static uint32_t choose(void *state, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    (void)state;
    uint32_t best = GT_NONE;
    for (uint32_t s = 0; s < world->site->super_count; s++)
        if (slots[s] >= pods && (best == GT_NONE || slots[s] <= slots[best]))
            best = s;
    return best;
}

static bool place(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    return gt_group_each_unit(state, world, job, places, choose);
}

const struct gt_group_policy gt_group_slurm_block = {
    .name = "slurm-block", .keeps_groups = true, .place = place};
