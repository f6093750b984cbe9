/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/err.h"
#include "scheduler-ext/core/score.h"
#include "scheduler-ext/sim/group/policy.h"

/* gpu-aware of the decision core: each pod alone on the node with the best value. Groups are ignored. Pods
 * ask for GPUs only. */
struct aware {
    struct gt_cluster *cluster;
    struct gt_mix *mix;
    double *values;
    uint32_t *ids; /* 0, 1, ... */
};

static void gpu_aware_close_state(void *p)
{
    struct aware *state = p;
    gt_cluster_free(state->cluster);
    gt_mix_free(state->mix);
    free(state->values);
    free(state->ids);
    free(state);
}
GT_DEFINE_CLEANUP(struct aware *, gpu_aware_close_state)

static int open_state(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                      struct gt_err **err)
{
    struct gt_aware_weights weights = GT_AWARE_DEFAULT;
    weights.loss_weight = setup->loss_weight;
    GT_CLEANUP(gpu_aware_close_state) struct aware *state = calloc(1, sizeof(*state));
    GT_NEED(state, err, "policy gpu-aware");
    uint32_t nodes = world->site->node_count;
    state->values = calloc((size_t)nodes + 1, sizeof(*state->values));
    state->ids = calloc((size_t)nodes + 1, sizeof(*state->ids));
    GT_NEED(state->values && state->ids, err, "policy gpu-aware");
    for (uint32_t node = 0; node < nodes; node++)
        state->ids[node] = node;
    GT_TRY(gt_mix_new(&state->mix, err));
    GT_TRY(gt_site_model(world->site, &state->cluster, err));
    GT_TRY(gt_score_set_weights(state->cluster, &weights, err));
    *ret = gt_steal(state);
    return 0;
}

static void gpu_aware_came(void *p, const struct gt_sim_job *job)
{
    struct aware *state = p;
    const struct gt_mix_amounts pod = {.gpus = job->gpus};
    for (uint32_t i = 0; i < job->pods; i++)
        gt_mix_came(state->mix, &pod);
}

/* As gt_node_values() of the companion. */
static uint32_t best_node(struct aware *aware, unsigned gpus)
{
    uint32_t nodes = gt_cluster_nodes(aware->cluster);
    const uint8_t *available = gt_cluster_available(aware->cluster);
    const struct gt_mix_amounts pod = {.gpus = gpus};
    gt_score_all(aware->cluster, gpus, aware->values);
    for (uint32_t n = 0; n < nodes; n++) {
        struct gt_mix_amounts left = {.gpus = available[n], .of = {INT64_MAX, INT64_MAX}};
        if (!isnan(aware->values[n]))
            aware->values[n] = gt_score_strand(aware->cluster, aware->mix, &left, &pod, aware->values[n]);
    }
    return gt_score_first(aware->cluster, aware->values, aware->ids, nodes);
}

static void gpu_aware_changed(void *p, const struct gt_world *world, uint32_t node)
{
    struct aware *state = p;
    gt_cluster_set_free(state->cluster, node, gt_world_available(world, node));
}

static bool gpu_aware_place(void *p, struct gt_world *world, const struct gt_sim_job *job,
                            struct gt_place *places)
{
    struct aware *state = p;
    for (uint32_t pod = 0; pod < job->pods; pod++) {
        uint32_t node = best_node(state, job->gpus);
        struct gt_score_parts parts;
        if (node == GT_NONE || !gt_score_one(state->cluster, node, job->gpus, &parts)) {
            gt_group_undo(world, places, pod);
            while (pod--)
                gpu_aware_changed(state, world, places[pod].node);
            return false;
        }
        places[pod] = (struct gt_place){node, parts.choice.mask};
        gt_world_take(world, node, parts.choice.mask);
        gpu_aware_changed(state, world, node);
    }
    return true;
}

const struct gt_group_policy gt_group_gpu_aware = {.name = "gpu-aware",
                                                   .open = open_state,
                                                   .close = gpu_aware_close_state,
                                                   .place = gpu_aware_place,
                                                   .came = gpu_aware_came,
                                                   .changed = gpu_aware_changed};
