/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/*
 * The remainder table of Huawei's sp-block, without a reserve: a supernode that holds q whole blocks (units)
 * and a remainder of r slots is in row r, column q. First the rows are searched in ascending order, in each
 * the columns up to the number of blocks still needed; then the larger columns, again by ascending rows. A
 * supernode gives all its blocks. Equals are chosen at random, like the random order of Go's maps.
 */
static uint64_t cell(uint32_t slots, uint32_t block, uint32_t needed)
{
    uint64_t column = slots / block, row = slots % block;
    return column <= needed ? row << 32 | column : UINT64_C(1) << 63 | column << 32 | row;
}

static uint32_t choose_super(struct gt_rng *rng, const struct gt_world *world, const uint32_t *slots,
                             uint32_t block, uint32_t needed)
{
    uint32_t best = GT_NONE, equal = 0;
    uint64_t best_cell = UINT64_MAX;
    for (uint32_t s = 0; s < world->site->super_count; s++) {
        if (slots[s] < block)
            continue;
        uint64_t own = cell(slots[s], block, needed);
        if (own > best_cell)
            continue;
        if (own < best_cell)
            equal = 0;
        best_cell = own;
        if (gt_rng_below(rng, ++equal) == 0)
            best = s;
    }
    return best;
}

static uint32_t choose_one(void *state, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    return choose_super(state, world, slots, pods, 1);
}

static bool place(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    const uint32_t *slots = world->slots[job->gpus];
    uint32_t units = job->pods / job->unit, done = 0;
    while (done < units) {
        uint32_t super = choose_super(state, world, slots, job->unit, units - done);
        if (super == GT_NONE)
            break;
        for (uint32_t blocks = slots[super] / job->unit; blocks && done < units; blocks--, done++)
            gt_group_fill(world, super, job->gpus, job->unit, places + done * job->unit);
    }
    return gt_group_units_from(state, world, job, places, done, choose_one);
}

const struct gt_group_policy gt_group_huawei = {
    .name = "huawei", .keeps_groups = true, .open = gt_group_open_rng, .close = free, .place = place};
