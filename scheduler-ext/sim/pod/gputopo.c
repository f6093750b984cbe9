/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "scheduler-ext/core/score.h"
#include "scheduler-ext/sim/pod/policy.h"

/*
 * Ours: gpu-aware of the decision core for whole GPUs; a node that lacks CPU or memory is left out. What
 * gpu-aware has no say in goes by simple rules: a share to the GPU with the least sufficient room of the
 * cluster, a pod without GPUs to the node with the fewest free GPUs, then the least CPU left.
 */
struct pod_core {
    struct gt_cluster *cluster;
    struct gt_node_set excluded; /* nodes that lack CPU or memory now */
};

static void close_state(void *p)
{
    struct pod_core *state = p;
    gt_cluster_free(state->cluster);
    gt_node_set_done(&state->excluded);
    free(state);
}

static int open_state(const struct gt_pod_world *world, const struct gt_pod_setup *setup, void **ret,
                      struct gt_err **err)
{
    struct gt_aware_weights weights = GT_AWARE_DEFAULT;
    weights.loss_weight = setup->loss_weight;
    struct pod_core *state = calloc(1, sizeof(*state));
    if (!state)
        return gt_fail_sys(err, ENOMEM, "policy gputopo");
    int r = 0;
    if (world->site->node_count) /* so that no decision needs memory */
        r = gt_node_set_add(&state->excluded, world->site->node_count - 1, err);
    if (r >= 0)
        r = gt_site_model(world->site, &state->cluster, err);
    if (r >= 0)
        r = gt_score_set_weights(state->cluster, &weights, err);
    if (r < 0) {
        close_state(state);
        return r;
    }
    *ret = state;
    return 0;
}

static uint64_t whole_gpus(const struct gt_pod_node *node)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < node->gpus; i++)
        if (node->gpu[i] == GT_GPU_MILLI)
            mask |= UINT64_C(1) << i;
    return mask;
}

static void changed(void *p, const struct gt_pod_world *world, uint32_t node)
{
    struct pod_core *state = p;
    if (world->nodes[node].gpus)
        gt_cluster_set_free(state->cluster, node, whole_gpus(&world->nodes[node]));
}

/* The core's choice among the nodes that fit; GT_NONE where no node has so many whole GPUs free. */
static uint32_t choose_whole(struct pod_core *state, const struct gt_pod_world *world, unsigned gpus,
                             const bool *fits)
{
    gt_node_set_clear(&state->excluded);
    for (uint32_t node = 0; node < world->site->node_count; node++)
        if (!fits[node])
            gt_node_set_add(&state->excluded, node, NULL);
    return gt_score_best(state->cluster, &state->excluded, gpus);
}

static uint32_t choose(void *p, const struct gt_pod_world *world, const struct gt_pod_kind *shape,
                       const bool *fits)
{
    uint32_t best = GT_NONE;
    uint64_t best_key = UINT64_MAX;
    if (shape->milli == GT_GPU_MILLI)
        return choose_whole(p, world, shape->gpus, fits);
    for (uint32_t n = 0; n < world->site->node_count; n++) {
        const struct gt_pod_node *node = &world->nodes[n];
        if (!fits[n])
            continue;
        uint64_t gpu = shape->gpus ? node->gpu[gt_pod_tightest_gpu(node, shape->milli)] : node->gpu_free;
        if (shape->gpus && gpu == GT_GPU_MILLI)
            continue; /* an idle GPU: for the core to choose */
        uint64_t key = gpu << 32 | (node->cpu - shape->cpu);
        if (key < best_key) {
            best_key = key;
            best = n;
        }
    }
    return best == GT_NONE ? choose_whole(p, world, 1, fits) : best;
}

static uint64_t choose_gpus(void *p, uint32_t node, const struct gt_pod_kind *shape)
{
    struct pod_core *state = p;
    struct gt_score_parts parts;
    return gt_score_one(state->cluster, node, shape->gpus, &parts) ? parts.choice.mask : 0;
}

const struct gt_pod_policy gt_pod_gputopo = {
    .name = "gputopo",
    .open = open_state,
    .close = close_state,
    .choose = choose,
    .choose_gpus = choose_gpus,
    .changed = changed,
};
