/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "tests/bench/sim/pods/policy.h"

/* Random: any node on which the pod fits, any GPU that has room. */
static int open_state(const struct gt_pod_world *world, const struct gt_pod_setup *setup, void **ret,
                      struct gt_err **err)
{
    (void)world;
    struct gt_rng *rng = malloc(sizeof(*rng));
    if (!rng)
        return gt_fail_sys(err, ENOMEM, "policy random");
    gt_rng_seed(rng, setup->seed);
    *ret = rng;
    return 0;
}

static uint32_t choose(void *state, const struct gt_pod_world *world, const struct gt_pod_kind *kind,
                       const bool *fits)
{
    (void)kind;
    uint32_t chosen = 0, feasible = 0;
    for (uint32_t node = 0; node < world->all->count; node++)
        if (fits[node] && gt_rng_below(state, ++feasible) == 0)
            chosen = node;
    return chosen;
}

static unsigned choose_gpu(void *state, const struct gt_pod_node *node, const struct gt_pod_kind *kind)
{
    unsigned chosen = 0;
    uint32_t feasible = 0;
    for (unsigned i = 0; i < node->gpus; i++)
        if (node->gpu[i] >= kind->milli && gt_rng_below(state, ++feasible) == 0)
            chosen = i;
    return chosen;
}

const struct gt_pod_policy gt_pod_random = {
    .name = "random", .open = open_state, .close = free, .choose = choose, .choose_gpu = choose_gpu};
