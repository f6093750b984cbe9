/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "tests/bench/sim/peers.h"

/*
 * Volcano's network topology: of the HyperNodes of the lowest tier that hold the whole job, the one that is
 * fullest with it, (used + requested) / allocatable, random among equals. Where that is no supernode, each
 * unit alone in the same way in it, without looking ahead.
 */
struct volcano_state {
    struct gt_rng rng;
    unsigned gpus;       /* of the job's pods */
    uint32_t first, end; /* supernodes for its units */
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

/* The HyperNode of that level that holds the units. */
static uint32_t choose_hypernode(struct volcano_state *state, const struct gt_world *world, unsigned level,
                                 const struct gt_sim_job *job)
{
    const uint32_t *slots = world->slots[job->gpus], count = world->site->super_count;
    uint32_t best = GT_NONE, equal = 0;
    double best_part = 0;
    for (uint32_t first = 0, end; first < count; first = end) {
        end = gt_site_domain_end(world->site, level, first);
        uint32_t units = 0;
        uint64_t gpus = 0, used = (uint64_t)job->pods * job->gpus;
        for (uint32_t s = first; s < end; s++) {
            units += slots[s] / job->unit;
            gpus += world->super_gpus[s];
            used += world->super_gpus[s] - world->slots[1][s];
        }
        double part = gpus ? (double)used / (double)gpus : 0;
        if (units < job->pods / job->unit || (best != GT_NONE && part < best_part))
            continue;
        if (best == GT_NONE || part > best_part)
            equal = 0;
        best_part = part;
        if (gt_rng_below(&state->rng, ++equal) == 0)
            best = first;
    }
    return best;
}

static uint32_t choose(void *p, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    struct volcano_state *state = p;
    uint32_t best = GT_NONE, equal = 0;
    double best_part = 0;
    for (uint32_t s = state->first; s < world->site->super_count && s < state->end; s++) {
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
    state->first = 0;
    state->end = UINT32_MAX;
    uint32_t whole = choose(state, world, world->slots[job->gpus], job->pods);
    if (whole != GT_NONE && gt_group_fill(world, whole, job->gpus, job->pods, places))
        return true;
    for (unsigned t = 0; t < GT_SITE_UPPER && world->site->upper[t]; t++) {
        uint32_t first = choose_hypernode(state, world, t + 1, job);
        if (first == GT_NONE)
            continue;
        state->first = first;
        state->end = gt_site_domain_end(world->site, t + 1, first);
        break;
    }
    return gt_group_each_unit(state, world, job, places, choose);
}

const struct gt_group_policy gt_group_volcano = {
    .name = "volcano", .keeps_groups = true, .open = open_state, .close = free, .place = place};
