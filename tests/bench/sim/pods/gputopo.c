/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/core/score.h"
#include "tests/bench/sim/pods/policy.h"

/*
 * Ours: gpu-aware of the decision core, with CPU and memory, as in the extender, for pods with whole GPUs and
 * without GPUs. A share of a GPU, which the core does not know, is placed on the GPU of the cluster with the
 * least sufficient room.
 */
struct pod_core {
    struct gt_cluster *cluster;
    struct gt_mix *mix;
    double *values; /* [node] */
    uint32_t *ids;  /* [node] */
    uint8_t *tens;  /* [node] */
    bool *scored;   /* [node] */
    uint32_t start; /* of the next search for nodes that fit */
    struct gt_aware_weights weights;
    struct gt_rng ties;
};

static void close_state(void *p)
{
    struct pod_core *state = p;
    gt_cluster_free(state->cluster);
    gt_mix_free(state->mix);
    free(state->values);
    free(state->ids);
    free(state->tens);
    free(state->scored);
    free(state);
}

static int open_state(const struct gt_pod_world *world, const struct gt_pod_setup *setup, void **ret,
                      struct gt_err **err)
{
    gt_auto_site struct gt_site *site = NULL;
    struct gt_aware_weights weights = GT_AWARE_DEFAULT;
    weights.loss_weight = setup->loss_weight;
    struct pod_core *state = calloc(1, sizeof(*state));
    if (!state)
        return gt_fail_sys(err, ENOMEM, "policy gputopo");
    uint32_t nodes = world->all->count;
    state->values = calloc((size_t)nodes + 1, sizeof(*state->values));
    state->ids = calloc((size_t)nodes + 1, sizeof(*state->ids));
    state->tens = calloc((size_t)nodes + 1, sizeof(*state->tens));
    state->scored = calloc((size_t)nodes + 1, sizeof(*state->scored));
    state->weights = weights;
    gt_rng_seed(&state->ties, setup->seed);
    int r = state->values && state->ids && state->tens && state->scored
                ? 0
                : gt_fail_sys(err, ENOMEM, "policy gputopo");
    for (uint32_t node = 0; r >= 0 && node < nodes; node++)
        state->ids[node] = world->all->node[node].gpus ? node : GT_NONE;
    if (r >= 0)
        r = gt_mix_new(&state->mix, err);
    if (r >= 0)
        r = openb_site(world->all, &site, err);
    if (r >= 0)
        r = gt_site_model(site, &state->cluster, err);
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

static struct gt_mix_amounts amounts_of(unsigned gpus, uint32_t cpu_milli, uint32_t memory_mib)
{
    return (struct gt_mix_amounts){
        .gpus = gpus, .of = {[GT_MIX_CPU] = cpu_milli, [GT_MIX_MEMORY] = (int64_t)memory_mib << 20}};
}

/* The values of the nodes that fit and have so many whole GPUs free; NAN for others. */
static void set_values(struct pod_core *state, const struct gt_pod_world *world,
                       const struct gt_mix_amounts *amounts, const bool *fits)
{
    uint32_t nodes = world->all->count;
    const uint8_t *available = gt_cluster_available(state->cluster);
    if (amounts->gpus)
        gt_score_all(state->cluster, amounts->gpus, state->values);
    for (uint32_t n = 0; n < nodes; n++) {
        const struct gt_pod_node *node = &world->nodes[n];
        double value = amounts->gpus ? state->values[n] : 0;
        struct gt_mix_amounts left = amounts_of(node->gpus ? available[n] : 0, node->cpu, node->memory);
        state->values[n] = !fits[n] || isnan(value)
                               ? (double)NAN
                               : gt_score_strand(state->cluster, state->mix, &left, amounts, value);
    }
}

/* The core's choice among the nodes that fit; GT_NONE where no node has so many whole GPUs free. */
static uint32_t choose_whole(struct pod_core *state, const struct gt_pod_world *world,
                             const struct gt_mix_amounts *amounts, const bool *fits)
{
    set_values(state, world, amounts, fits);
    return gt_score_first(state->cluster, state->values, state->ids, world->all->count);
}

static uint32_t choose(void *p, const struct gt_pod_world *world, const struct gt_pod_kind *kind,
                       const bool *fits)
{
    struct pod_core *state = p;
    struct gt_mix_amounts pod = amounts_of(kind->gpus, kind->cpu, world->memory);
    uint32_t best = GT_NONE, best_room = GT_GPU_MILLI;
    if (!kind->gpus || kind->milli == GT_GPU_MILLI) {
        gt_mix_came(state->mix, &pod);
        return choose_whole(state, world, &pod, fits);
    }
    for (uint32_t n = 0; n < world->all->count; n++) {
        const struct gt_pod_node *node = &world->nodes[n];
        if (fits[n] && node->gpu[gt_pod_tightest_gpu(node, kind->milli)] < best_room) {
            best = n;
            best_room = node->gpu[gt_pod_tightest_gpu(node, kind->milli)];
        }
    }
    return best == GT_NONE ? choose_whole(state, world, &pod, fits) : best; /* an idle GPU */
}

static uint64_t choose_gpus(void *p, uint32_t node, const struct gt_pod_kind *kind)
{
    struct pod_core *state = p;
    struct gt_score_parts parts;
    return gt_score_one(state->cluster, node, kind->gpus, &parts) ? parts.choice.mask : 0;
}

const struct gt_pod_policy gt_pod_gputopo = {
    .name = "gputopo",
    .open = open_state,
    .close = close_state,
    .choose = choose,
    .choose_gpus = choose_gpus,
    .changed = changed,
    .sees_cpu = true,
};

/* ---- as installed: what kube-scheduler makes of it ---- */

/* Its own scores that differ between nodes, with their default weights: NodeResourcesFit with LeastAllocated,
 * and NodeResourcesBalancedAllocation. */
static double own_scores(const struct openb_node *all, const struct gt_pod_node *node, uint32_t cpu,
                         uint32_t memory)
{
    double cpu_left = all->cpu_milli ? (double)(node->cpu - cpu) / all->cpu_milli : 0;
    double memory_left = all->memory_mib ? (double)(node->memory - memory) / all->memory_mib : 0;
    double least = trunc((trunc(cpu_left * 100) + trunc(memory_left * 100)) / 2);
    return least + trunc((1 - fabs(cpu_left - memory_left) / 2) * 100);
}

/* kube-scheduler scores only the first nodes that fit from where it stopped the last time: of 100 and more
 * nodes 50 % less one for each 125, at least 5 % and 100 (percentageOfNodesToScore). */
static void find_scored(struct pod_core *state, uint32_t nodes, const bool *fits)
{
    uint32_t percent = 50 - (nodes / 125 < 45 ? nodes / 125 : 45), wanted = nodes * percent / 100, i = 0;
    wanted = wanted > 100 ? wanted : 100;
    memset(state->scored, 0, nodes * sizeof(*state->scored));
    for (; i < nodes && wanted; i++) {
        uint32_t n = (state->start + i) % nodes;
        state->scored[n] = fits[n];
        wanted -= fits[n];
    }
    state->start = (state->start + i) % nodes;
}

static uint32_t choose_with_extender(struct pod_core *state, const struct gt_pod_world *world,
                                     const struct gt_pod_kind *kind, const bool *fits, bool asked)
{
    struct gt_mix_amounts pod = amounts_of(kind->gpus, kind->cpu, world->memory);
    uint32_t best = GT_NONE, equal = 0, nodes = world->all->count;
    double best_sum = 0;
    find_scored(state, nodes, fits);
    gt_mix_came(state->mix, &pod);
    if (asked) {
        set_values(state, world, &pod, state->scored);
        gt_score_kube_scheduler(state->cluster, &state->weights, state->values, state->ids, nodes,
                                state->tens);
    }
    for (uint32_t n = 0; n < nodes; n++) {
        if (!state->scored[n])
            continue;
        double sum = own_scores(&world->all->node[n], &world->nodes[n], kind->cpu, world->memory) +
                     (asked ? 100 * state->tens[n] : 0); /* weight 10, and 100 for its 10 */
        if (best != GT_NONE && sum < best_sum)
            continue;
        equal = best == GT_NONE || sum > best_sum ? 1 : equal + 1;
        best_sum = sum;
        if (gt_rng_below(&state->ties, equal) == 0)
            best = n;
    }
    return best;
}

static uint32_t choose_installed(void *state, const struct gt_pod_world *world,
                                 const struct gt_pod_kind *kind, const bool *fits)
{
    return choose_with_extender(state, world, kind, fits, true);
}

static uint32_t choose_managed(void *state, const struct gt_pod_world *world, const struct gt_pod_kind *kind,
                               const bool *fits)
{
    return choose_with_extender(state, world, kind, fits, kind->gpus > 0);
}

const struct gt_pod_policy gt_pod_extender = {.name = "extender",
                                              .open = open_state,
                                              .close = close_state,
                                              .choose = choose_installed,
                                              .choose_gpus = choose_gpus,
                                              .changed = changed,
                                              .sees_cpu = true};
const struct gt_pod_policy gt_pod_extender_managed = {.name = "extender-managed",
                                                      .open = open_state,
                                                      .close = close_state,
                                                      .choose = choose_managed,
                                                      .choose_gpus = choose_gpus,
                                                      .changed = changed,
                                                      .sees_cpu = true};
