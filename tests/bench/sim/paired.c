/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "tests/bench/sim/peers.h"

/*
 * Sites where Kueue, Huawei's plugin or Volcano place only groups: a job of one pod is placed by
 * kube-scheduler, which packs (MostAllocated) or takes the first node with room.
 */
struct paired {
    struct gt_rng rng; /* among equals of MostAllocated */
    void *groups;      /* of the policy for groups */
};

static void close_with(const struct gt_group_policy *groups, void *p)
{
    struct paired *state = p;
    if (groups->close && state->groups)
        groups->close(state->groups);
    free(state);
}

static int open_with(const struct gt_group_policy *groups, const struct gt_world *world,
                     const struct gt_group_setup *setup, void **ret, struct gt_err **err)
{
    struct paired *state = calloc(1, sizeof(*state));
    if (!state)
        return gt_fail_sys(err, ENOMEM, "policy");
    gt_rng_seed(&state->rng, setup->seed ^ UINT64_C(0x9a12ed));
    int r = groups->open ? groups->open(world, setup, &state->groups, err) : 0;
    if (r < 0) {
        free(state);
        return r;
    }
    *ret = state;
    return 0;
}

static uint32_t first_node(const struct gt_world *world, unsigned gpus)
{
    for (uint32_t node = 0; node < world->site->node_count; node++)
        if (gt_world_count(world, node) >= gpus)
            return node;
    return GT_NONE;
}

static bool place_with(const struct gt_group_policy *groups, bool most, void *p, struct gt_world *world,
                       const struct gt_sim_job *job, struct gt_place *places)
{
    struct paired *state = p;
    if (job->pods > 1)
        return groups->place(state->groups, world, job, places);
    uint32_t node =
        most ? gt_group_most_allocated_node(&state->rng, world, job->gpus) : first_node(world, job->gpus);
    if (node == GT_NONE)
        return false;
    gt_group_take_lowest(world, node, job->gpus, places);
    return true;
}

#define PAIR(id, label, groups, most)                                                                        \
    static int open_##id(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,       \
                         struct gt_err **err)                                                                \
    {                                                                                                        \
        return open_with(&(groups), world, setup, ret, err);                                                 \
    }                                                                                                        \
    static void close_##id(void *state)                                                                      \
    {                                                                                                        \
        close_with(&(groups), state);                                                                        \
    }                                                                                                        \
    static bool place_##id(void *state, struct gt_world *world, const struct gt_sim_job *job,                \
                           struct gt_place *places)                                                          \
    {                                                                                                        \
        return place_with(&(groups), (most), state, world, job, places);                                     \
    }                                                                                                        \
    const struct gt_group_policy gt_group_##id = {                                                           \
        .name = (label), .keeps_groups = true, .open = open_##id, .close = close_##id, .place = place_##id}

PAIR(kueue_most, "kueue+most", gt_group_kueue, true);
PAIR(kueue_first, "kueue+first", gt_group_kueue, false);
PAIR(kueue_preferred_first, "kueue-preferred+first", gt_group_kueue_preferred, false);
PAIR(huawei_most, "huawei+most", gt_group_huawei, true);
PAIR(huawei_first, "huawei+first", gt_group_huawei, false);
PAIR(volcano_most, "volcano+most", gt_group_volcano, true);
PAIR(volcano_first, "volcano+first", gt_group_volcano, false);
