/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/policy.h"

/*
 * Kueue's topology-aware BestFit with a unit as its slice: domains (supernodes) are counted in slices. Chosen
 * is the domain with the fewest slices that holds all remaining slices; else the one with most. Among equals:
 * fewer pods, then the name.
 */
static uint32_t choose_domain(const struct gt_world *world, const uint32_t *slots, uint32_t pods,
                              uint32_t wanted)
{
    uint32_t best = GT_NONE, best_slices = 0;
    for (uint32_t s = 0; s < world->site->super_count; s++) {
        uint32_t slices = slots[s] / pods;
        if (!slices)
            continue;
        bool holds = slices >= wanted, best_holds = best_slices >= wanted;
        bool better = holds != best_holds     ? holds
                      : slices != best_slices ? (holds ? slices < best_slices : slices > best_slices)
                                              : slots[s] < slots[best];
        if (best == GT_NONE || better) {
            best = s;
            best_slices = slices;
        }
    }
    return best;
}

static uint32_t choose_one(void *state, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    (void)state;
    return choose_domain(world, slots, pods, 1);
}

static bool place(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    const uint32_t *slots = world->slots[job->gpus];
    uint32_t units = job->pods / job->unit, done = 0;
    while (done < units) {
        uint32_t super = choose_domain(world, slots, job->unit, units - done);
        if (super == GT_NONE)
            break;
        for (uint32_t slices = slots[super] / job->unit; slices && done < units; slices--, done++)
            gt_group_fill(world, super, job->gpus, job->unit, places + done * job->unit);
    }
    return gt_group_units_from(state, world, job, places, done, choose_one);
}

const struct gt_group_policy gt_group_kueue = {.name = "kueue", .keeps_groups = true, .place = place};
