/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/pods/policy.h"

bool gt_pod_fits(const struct gt_pod_node *node, const struct gt_pod_kind *kind)
{
    if (kind->gpus * kind->milli > node->gpu_free || !gt_pod_accepts(node, kind->models))
        return false;
    uint32_t found = 0;
    for (uint32_t i = 0; i < node->gpus && found < kind->gpus; i++)
        found += node->gpu[i] >= kind->milli;
    return found >= kind->gpus;
}

unsigned gt_pod_tightest_gpu(const struct gt_pod_node *node, uint32_t milli)
{
    unsigned best = 0;
    uint32_t best_free = UINT32_MAX;
    for (unsigned i = 0; i < node->gpus; i++)
        if (node->gpu[i] >= milli && node->gpu[i] < best_free) {
            best = i;
            best_free = node->gpu[i];
        }
    return best;
}
