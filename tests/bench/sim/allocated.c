/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/*
 * kube-scheduler's LeastAllocated and MostAllocated on the GPUs of a node: an integer from 0 to 100, with the
 * requested GPUs counted as used, random among equals. Each pod is placed alone: groups are ignored.
 */
static uint32_t choose_node(struct gt_rng *rng, const struct gt_world *world, unsigned gpus, bool most)
{
    uint32_t best = GT_NONE, equal = 0;
    int best_score = -1;
    for (uint32_t node = 0; node < world->site->node_count; node++) {
        unsigned all = world->site->nodes[node].gpus, free = gt_world_count(world, node);
        if (free < gpus)
            continue;
        unsigned used = all - free + gpus;
        int score = (int)((most ? used : all - used) * 100 / all);
        if (score < best_score)
            continue;
        if (score > best_score)
            equal = 0;
        best_score = score;
        if (gt_rng_below(rng, ++equal) == 0)
            best = node;
    }
    return best;
}

uint32_t gt_group_most_allocated_node(struct gt_rng *rng, const struct gt_world *world, unsigned gpus)
{
    return choose_node(rng, world, gpus, true);
}

static bool place_all(struct gt_rng *rng, struct gt_world *world, const struct gt_sim_job *job,
                      struct gt_place *places, bool most)
{
    for (uint32_t pod = 0; pod < job->pods; pod++) {
        uint32_t node = choose_node(rng, world, job->gpus, most);
        if (node == GT_NONE) {
            gt_group_undo(world, places, pod);
            return false;
        }
        gt_group_take_lowest(world, node, job->gpus, &places[pod]);
    }
    return true;
}

static bool place_least(void *state, struct gt_world *world, const struct gt_sim_job *job,
                        struct gt_place *places)
{
    return place_all(state, world, job, places, false);
}

static bool place_most(void *state, struct gt_world *world, const struct gt_sim_job *job,
                       struct gt_place *places)
{
    return place_all(state, world, job, places, true);
}

const struct gt_group_policy gt_group_least_allocated = {
    .name = "least-allocated", .open = gt_group_open_rng, .close = free, .place = place_least};
const struct gt_group_policy gt_group_most_allocated = {
    .name = "most-allocated", .open = gt_group_open_rng, .close = free, .place = place_most};
