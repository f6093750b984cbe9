/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/*
 * Topology-aware scheduling of Kueue 0.19, pkg/cache/scheduler/tas_flavor_snapshot.go, with the levels
 * supernode and node; tests/bench/sim/kueue has its own answers. A unit is a slice. The supernode with the
 * fewest slices that holds the whole job is chosen. Where none does, a job that asks for slices alone fills
 * the supernodes with the fewest slices first (LeastFreeCapacity, since 0.15). One that prefers a supernode,
 * too (kueue-preferred), takes those with most first, and for the rest the one with the fewest that holds it
 * (BestFit, before 0.15 for all). Inside a supernode the nodes with the least room are filled first. Among
 * equals: fewer pods, then the name. Where the cluster has leaves and spines, kueue-preferred takes the
 * lowest level with a domain that holds the whole job, else the highest, and chooses likewise at each level
 * below. A job of one pod asks for no topology and goes to the node with the least room of all; only
 * kueue-slices and kueue-preferred have it ask like the others.
 */

/* A row of supernodes: one, a leaf, a spine. */
struct domain {
    uint32_t first, end, slices, room; /* first: GT_NONE: there is none */
};

static struct domain domain_at(const uint32_t *slots, uint32_t pods, uint32_t first, uint32_t end)
{
    struct domain domain = {first, end, 0, 0};
    for (uint32_t s = first; s < end; s++) {
        domain.slices += slots[s] / pods;
        domain.room += slots[s];
    }
    return domain;
}

/* Among the domains of a level (0: supernodes) in [first, end). */
static struct domain choose_domain(const struct gt_world *world, const uint32_t *slots, uint32_t pods,
                                   uint32_t wanted, bool most_first, uint32_t first, uint32_t end,
                                   unsigned level)
{
    struct domain best = {GT_NONE, GT_NONE, 0, 0};
    for (uint32_t next; first < end && first < world->site->super_count; first = next) {
        next = gt_site_domain_end(world->site, level, first);
        struct domain at = domain_at(slots, pods, first, next);
        if (!at.slices)
            continue;
        bool holds = at.slices >= wanted, best_holds = best.slices >= wanted;
        bool better = holds != best_holds        ? holds
                      : at.slices != best.slices ? (at.slices > best.slices) == (most_first && !holds)
                                                 : at.room < best.room;
        if (best.first == GT_NONE || better)
            best = at;
    }
    return best;
}

static uint32_t choose_one(void *state, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    (void)state;
    return choose_domain(world, slots, pods, 1, false, 0, UINT32_MAX, 0).first;
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

/* Places the pods of whole units in a supernode. */
static void fill_super(struct gt_world *world, const struct gt_sim_job *job, uint32_t super, uint32_t pods,
                       struct gt_place *places)
{
    const uint32_t *first = world->site->first_node;
    for (uint32_t pod = 0; pod < pods;)
        pod += fill_least(world, first[super], first[super + 1], job->gpus, pods - pod, places + pod);
}

/* BestFit: places up to `units` units in the domains of a level in [first, end); returns how many. */
static uint32_t fill_best(struct gt_world *world, const struct gt_sim_job *job, unsigned level,
                          uint32_t first, uint32_t end, uint32_t units, struct gt_place *places)
{
    const uint32_t *slots = world->slots[job->gpus];
    uint32_t done = 0;
    while (done < units) {
        struct domain at = choose_domain(world, slots, job->unit, units - done, true, first, end, level);
        if (at.first == GT_NONE)
            break;
        uint32_t count = at.slices < units - done ? at.slices : units - done;
        struct gt_place *next = places + (size_t)done * job->unit;
        if (level)
            fill_best(world, job, level - 1, at.first, at.end, count, next);
        else
            fill_super(world, job, at.first, count * job->unit, next);
        done += count;
    }
    return done;
}

static bool place_preferred(void *state, struct gt_world *world, const struct gt_sim_job *job,
                            struct gt_place *places)
{
    const uint32_t *slots = world->slots[job->gpus];
    uint32_t units = job->pods / job->unit;
    unsigned level = 0;
    (void)state;
    while (level < GT_SITE_UPPER && world->site->upper[level] &&
           choose_domain(world, slots, job->unit, units, true, 0, UINT32_MAX, level).slices < units)
        level++;
    uint32_t done = fill_best(world, job, level, 0, UINT32_MAX, units, places);
    return gt_group_units_from(NULL, world, job, places, done, choose_one);
}

static bool place_sliced(void *state, struct gt_world *world, const struct gt_sim_job *job,
                         struct gt_place *places)
{
    const uint32_t *slots = world->slots[job->gpus];
    uint32_t units = job->pods / job->unit, done = 0;
    (void)state;
    while (done < units) {
        /* LeastFreeCapacity looks only at first for one that holds all */
        uint32_t wanted = done ? UINT32_MAX : units;
        struct domain at = choose_domain(world, slots, job->unit, wanted, false, 0, UINT32_MAX, 0);
        if (at.first == GT_NONE)
            break;
        uint32_t count = at.slices < units - done ? at.slices : units - done;
        fill_super(world, job, at.first, count * job->unit, places + (size_t)done * job->unit);
        done += count;
    }
    return gt_group_units_from(NULL, world, job, places, done, choose_one);
}

static bool place(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    return job->pods > 1 ? place_sliced(state, world, job, places)
                         : fill_least(world, 0, world->site->node_count, job->gpus, 1, places) == 1;
}

const struct gt_group_policy gt_group_kueue = {.name = "kueue", .keeps_groups = true, .place = place};
const struct gt_group_policy gt_group_kueue_slices = {
    .name = "kueue-slices", .keeps_groups = true, .place = place_sliced};
const struct gt_group_policy gt_group_kueue_preferred = {
    .name = "kueue-preferred", .keeps_groups = true, .place = place_preferred};
