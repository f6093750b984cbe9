/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "tests/bench/sim/peers.h"

int gt_group_open_rng(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                      struct gt_err **err)
{
    (void)world;
    struct gt_rng *rng = malloc(sizeof(*rng));
    if (!rng)
        return gt_fail_sys(err, ENOMEM, "policy");
    gt_rng_seed(rng, setup->seed);
    *ret = rng;
    return 0;
}

/* The `count` lowest bits of a mask. */
static uint64_t lowest(uint64_t mask, unsigned count)
{
    uint64_t rest = mask;
    while (count--)
        rest &= rest - 1;
    return mask & ~rest;
}

void gt_group_take_lowest(struct gt_world *world, uint32_t node, unsigned gpus, struct gt_place *ret)
{
    *ret = (struct gt_place){node, lowest(gt_world_available(world, node), gpus)};
    gt_world_take(world, node, ret->mask);
}

/* The fullest node that holds all pods; else the one that holds most. */
static uint32_t choose_node(const struct gt_world *world, uint32_t super, unsigned gpus, uint32_t need,
                            uint32_t *ret_slots)
{
    const struct gt_site *site = world->site;
    uint32_t best = GT_NONE, best_slots = 0;
    unsigned best_free = 0;
    for (uint32_t node = site->first_node[super]; node < site->first_node[super + 1]; node++) {
        unsigned free = gt_world_count(world, node);
        uint32_t slots = free / gpus;
        if (!slots)
            continue;
        bool holds = slots >= need, best_holds = best_slots >= need;
        if (best == GT_NONE || (holds != best_holds            ? holds
                                : holds || slots == best_slots ? free < best_free
                                                               : slots > best_slots)) {
            best = node;
            best_slots = slots;
            best_free = free;
        }
    }
    *ret_slots = best_slots < need ? best_slots : need;
    return best;
}

bool gt_group_fill(struct gt_world *world, uint32_t super, unsigned gpus, uint32_t count,
                   struct gt_place *places)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t slots, node = choose_node(world, super, gpus, count - done, &slots);
        if (node == GT_NONE) {
            gt_group_undo(world, places, done);
            return false;
        }
        for (uint32_t i = 0; i < slots; i++, done++)
            gt_group_take_lowest(world, node, gpus, &places[done]);
    }
    return true;
}

static bool place_run(void *state, struct gt_world *world, const struct gt_sim_job *job, uint32_t count,
                      struct gt_place *places, gt_group_choose *choose)
{
    uint32_t super = choose(state, world, world->slots[job->gpus], count);
    return super != GT_NONE && gt_group_fill(world, super, job->gpus, count, places);
}

static bool place_unit(void *state, struct gt_world *world, const struct gt_sim_job *job,
                       struct gt_place *places, gt_group_choose *choose)
{
    if (place_run(state, world, job, job->unit, places, choose))
        return true;
    if (!job->atom)
        return false;
    for (uint32_t done = 0; done < job->unit; done += job->atom)
        if (!place_run(state, world, job, job->atom, places + done, choose)) {
            gt_group_undo(world, places, done);
            return false;
        }
    return true;
}

bool gt_group_units_from(void *state, struct gt_world *world, const struct gt_sim_job *job,
                         struct gt_place *places, uint32_t first, gt_group_choose *choose)
{
    for (uint32_t pod = first * job->unit; pod < job->pods; pod += job->unit)
        if (!place_unit(state, world, job, places + pod, choose)) {
            gt_group_undo(world, places, pod);
            return false;
        }
    return true;
}

bool gt_group_each_unit(void *state, struct gt_world *world, const struct gt_sim_job *job,
                        struct gt_place *places, gt_group_choose *choose)
{
    return gt_group_units_from(state, world, job, places, 0, choose);
}

uint32_t gt_site_domain_end(const struct gt_site *site, unsigned level, uint32_t super)
{
    const uint32_t *of = level && level <= GT_SITE_UPPER ? site->upper[level - 1] : NULL;
    uint32_t end = super + 1;
    if (level && !of)
        return site->super_count;
    while (level && end < site->super_count && of[end] == of[super])
        end++;
    return end;
}
