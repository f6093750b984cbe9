/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/pods/policy.h"

bool gt_pod_fits(const struct gt_pod_node *node, const struct gt_pod_kind *shape)
{
    if (shape->gpus * shape->milli > node->gpu_free || !gt_pod_accepts(node, shape->models))
        return false;
    uint32_t found = 0;
    for (uint32_t i = 0; i < node->gpus && found < shape->gpus; i++)
        found += node->gpu[i] >= shape->milli;
    return found >= shape->gpus;
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
