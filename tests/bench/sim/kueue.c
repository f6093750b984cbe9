/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/*
 * Topology-aware scheduling of Kueue 0.19, pkg/cache/scheduler/tas_flavor_snapshot.go, with the levels
 * supernode and node; tests/bench/sim/kueue has its own answers. A unit is a slice. The supernode with the
 * fewest slices that holds the whole job is chosen. Where none does, a job that asks for slices alone fills
 * the supernodes with the fewest slices first (LeastFreeCapacity, since 0.15). One that prefers a supernode,
 * too (kueue-preferred), takes those with most first, and for the rest the one with the fewest that holds it
 * (BestFit, before 0.15 for all). Inside a supernode the nodes with the least room are filled first. Among
 * equals: fewer pods, then the name. A job of one pod asks for no topology and goes to the node with the
 * least room of all; only kueue-slices and kueue-preferred have it ask like the others.
 */
static uint32_t choose_domain(const struct gt_world *world, const uint32_t *slots, uint32_t pods,
                              uint32_t wanted, bool most_first)
{
    uint32_t best = GT_NONE, best_slices = 0;
    for (uint32_t s = 0; s < world->site->super_count; s++) {
        uint32_t slices = slots[s] / pods;
        if (!slices)
            continue;
        bool holds = slices >= wanted, best_holds = best_slices >= wanted;
        bool better = holds != best_holds     ? holds
                      : slices != best_slices ? (slices > best_slices) == (most_first && !holds)
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
    return choose_domain(world, slots, pods, 1, false);
}

/* Places up to `count` pods on the node with the least room of [first, end); 0: none has room. */
static uint32_t fill_least(struct gt_world *world, uint32_t first, uint32_t end, unsigned gpus,
                           uint32_t count, struct gt_place *places)
{
    uint32_t best = GT_NONE, best_room = UINT32_MAX, done = 0;
    for (uint32_t node = first; node < end; node++) {
        uint32_t room = gt_world_count(world, node) / gpus;
        if (room && room < best_room) {
            best = node;
            best_room = room;
        }
    }
    while (best != GT_NONE && done < count && done < best_room)
        gt_group_take_lowest(world, best, gpus, &places[done++]);
    return done;
}

static bool place_slices(struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places,
                         bool preferred)
{
    const uint32_t *slots = world->slots[job->gpus], *first = world->site->first_node;
    uint32_t units = job->pods / job->unit, done = 0;
    while (done < units) {
        /* LeastFreeCapacity looks only at first for one that holds all */
        uint32_t wanted = preferred || !done ? units - done : UINT32_MAX;
        uint32_t super = choose_domain(world, slots, job->unit, wanted, preferred);
        if (super == GT_NONE)
            break;
        uint32_t slices = slots[super] / job->unit, pod = done * job->unit;
        done += slices < units - done ? slices : units - done;
        while (pod < done * job->unit)
            pod += fill_least(world, first[super], first[super + 1], job->gpus, done * job->unit - pod,
                              places + pod);
    }
    return gt_group_units_from(NULL, world, job, places, done, choose_one);
}

static bool place(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    (void)state;
    return job->pods > 1 ? place_slices(world, job, places, false)
                         : fill_least(world, 0, world->site->node_count, job->gpus, 1, places) == 1;
}

static bool place_sliced(void *state, struct gt_world *world, const struct gt_sim_job *job,
                         struct gt_place *places)
{
    (void)state;
    return place_slices(world, job, places, false);
}

static bool place_preferred(void *state, struct gt_world *world, const struct gt_sim_job *job,
                            struct gt_place *places)
{
    (void)state;
    return place_slices(world, job, places, true);
}

const struct gt_group_policy gt_group_kueue = {.name = "kueue", .keeps_groups = true, .place = place};
const struct gt_group_policy gt_group_kueue_slices = {
    .name = "kueue-slices", .keeps_groups = true, .place = place_sliced};
const struct gt_group_policy gt_group_kueue_preferred = {
    .name = "kueue-preferred", .keeps_groups = true, .place = place_preferred};
