/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "tests/bench/sim/peers.h"

/*
 * Volcano's network topology: of the HyperNodes of the lowest tier that hold the whole job, the one that is
 * fullest with it, (used + requested) / allocatable, random among equals; else each unit alone in the same
 * way, without looking ahead.
 */
struct volcano_state {
    struct gt_rng rng;
    unsigned gpus; /* of the job's pods */
};

static int open_state(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                      struct gt_err **err)
{
    (void)world;
    struct volcano_state *state = calloc(1, sizeof(*state));
    if (!state)
        return gt_fail_sys(err, ENOMEM, "policy volcano");
    gt_rng_seed(&state->rng, setup->seed);
    *ret = state;
    return 0;
}

static uint32_t choose(void *p, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    struct volcano_state *state = p;
    uint32_t best = GT_NONE, equal = 0;
    double best_part = 0;
    for (uint32_t s = 0; s < world->site->super_count; s++) {
        if (slots[s] < pods)
            continue;
        uint32_t used = world->super_gpus[s] - world->slots[1][s] + pods * state->gpus;
        double part = (double)used / world->super_gpus[s];
        if (best != GT_NONE && part < best_part)
            continue;
        if (best == GT_NONE || part > best_part)
            equal = 0;
        best_part = part;
        if (gt_rng_below(&state->rng, ++equal) == 0)
            best = s;
    }
    return best;
}

static bool place(void *p, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    struct volcano_state *state = p;
    state->gpus = job->gpus;
    uint32_t whole = choose(state, world, world->slots[job->gpus], job->pods);
    if (whole != GT_NONE && gt_group_fill(world, whole, job->gpus, job->pods, places))
        return true;
    return gt_group_each_unit(state, world, job, places, choose);
}

const struct gt_group_policy gt_group_volcano = {
    .name = "volcano", .keeps_groups = true, .open = open_state, .close = free, .place = place};
