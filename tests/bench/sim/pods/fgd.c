/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "base/err.h"
#include "tests/bench/sim/pods/policy.h"

/*
 * Fragmentation gradient descent (Weng et al., USENIX ATC 2023): the node whose expected fragment, over the
 * typical pods of the workload, grows least. Typical are the most frequent (CPU, GPUs, share) that make up
 * 95 % of the pods.
 */
struct typical {
    uint32_t cpu, gpus, milli;
    uint64_t models;
    double share;
};

struct fgd_state {
    uint32_t count;
    struct typical typical[];
};

static const double TYPICAL_PART = 0.95;

static int by_count(const void *a, const void *b)
{
    const struct gt_pod_kind *x = *(const struct gt_pod_kind *const *)a;
    const struct gt_pod_kind *y = *(const struct gt_pod_kind *const *)b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    if (x->cpu != y->cpu)
        return x->cpu < y->cpu ? 1 : -1;
    if (x->milli != y->milli)
        return x->milli < y->milli ? 1 : -1;
    return (x < y) - (x > y); /* the larger one, in the order of the shapes */
}

static int open_state(const struct gt_pod_world *world, const struct gt_pod_setup *setup, void **ret,
                      struct gt_err **err)
{
    (void)setup;
    struct fgd_state *state = calloc(1, sizeof(*state) + world->kind_count * sizeof(struct typical));
    gt_auto_free const struct gt_pod_kind **order = calloc(world->kind_count, sizeof(*order));
    if (!state || !order) {
        free(state);
        return gt_fail_sys(err, ENOMEM, "policy fgd");
    }
    for (uint32_t i = 0; i < world->kind_count; i++)
        order[i] = &world->kinds[i];
    qsort(order, world->kind_count, sizeof(*order), by_count);
    double covered = 0;
    for (uint32_t i = 0; i < world->kind_count && covered < TYPICAL_PART * world->pod_rows; i++) {
        covered += order[i]->count;
        state->typical[state->count++] = (struct typical){order[i]->cpu, order[i]->gpus, order[i]->milli,
                                                          order[i]->models, order[i]->count};
    }
    for (uint32_t t = 0; t < state->count; t++)
        state->typical[t].share /= covered;
    *ret = state;
    return 0;
}

static double fragment(const struct fgd_state *state, const struct gt_pod_node *node, uint32_t cpu,
                       const uint16_t *gpu)
{
    uint32_t gpus = node->gpus;
    double sum = 0;
    uint32_t all = 0;
    for (uint32_t i = 0; i < gpus; i++)
        all += gpu[i];
    for (uint32_t t = 0; t < state->count && all; t++) {
        const struct typical *typical = &state->typical[t];
        uint32_t unusable = all, fitting = 0;
        if (typical->gpus && typical->cpu <= cpu && gt_pod_accepts(node, typical->models)) {
            uint32_t too_small = 0;
            for (uint32_t i = 0; i < gpus; i++) {
                bool fits = gpu[i] >= typical->milli;
                fitting += fits;
                too_small += fits ? 0 : gpu[i];
            }
            if (fitting >= typical->gpus)
                unusable = too_small;
        }
        sum += typical->share * unusable;
    }
    return sum;
}

static double score_of(double before, double after)
{
    return trunc(100 / (1 + exp((after - before) / GT_GPU_MILLI)));
}

/* The score with a share on the best GPU, which is *ret_gpu. */
static double score_share(const struct fgd_state *state, const struct gt_pod_node *node,
                          const struct gt_pod_kind *kind, unsigned *ret_gpu)
{
    double before = fragment(state, node, node->cpu, node->gpu), best = -1;
    uint16_t gpu[GT_GPUS_MAX];
    for (unsigned i = 0; i < node->gpus; i++)
        gpu[i] = node->gpu[i];
    for (unsigned i = 0; i < node->gpus; i++) {
        if (node->gpu[i] < kind->milli)
            continue;
        gpu[i] = (uint16_t)(gpu[i] - kind->milli);
        double score = score_of(before, fragment(state, node, node->cpu - kind->cpu, gpu));
        gpu[i] = node->gpu[i];
        if (score > best) {
            best = score;
            *ret_gpu = i;
        }
    }
    return best;
}

static double score(void *p, const struct gt_pod_node *node, const struct gt_pod_kind *kind)
{
    const struct fgd_state *state = p;
    unsigned chosen;
    if (kind->gpus == 1 && kind->milli < GT_GPU_MILLI)
        return score_share(state, node, kind, &chosen);
    uint16_t gpu[GT_GPUS_MAX];
    uint32_t need = kind->gpus;
    for (unsigned i = 0; i < node->gpus; i++) {
        bool takes = need && node->gpu[i] == GT_GPU_MILLI;
        gpu[i] = takes ? 0 : node->gpu[i];
        need -= takes;
    }
    return score_of(fragment(state, node, node->cpu, node->gpu),
                    fragment(state, node, node->cpu - kind->cpu, gpu));
}

static unsigned choose_gpu(void *p, const struct gt_pod_node *node, const struct gt_pod_kind *kind)
{
    unsigned chosen = 0;
    score_share(p, node, kind, &chosen);
    return chosen;
}

const struct gt_pod_policy gt_pod_fgd = {
    .name = "fgd", .open = open_state, .close = free, .score = score, .choose_gpu = choose_gpu};

/* The same policy, which uses CPU also where others do not: to measure what CPU is worth. */
const struct gt_pod_policy gt_pod_fgd_cpu = {.name = "fgd-cpu",
                                             .open = open_state,
                                             .close = free,
                                             .score = score,
                                             .sees_cpu = true,
                                             .choose_gpu = choose_gpu};
