/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/bench/sim/pods/policy.h"

/* Dot product: the node whose free resources are least aligned with the request. */
static double score(void *state, const struct gt_pod_node *node, const struct gt_pod_kind *kind)
{
    (void)state;
    double cpu = (double)node->cpu * kind->cpu / GT_PODS_CPU_MAX / GT_PODS_CPU_MAX;
    double gpu = (double)node->gpu_free * (kind->gpus * kind->milli) / GT_PODS_GPU_MAX / GT_PODS_GPU_MAX;
    return trunc(100 * (1 - (cpu + gpu) / 2));
}

const struct gt_pod_policy gt_pod_dot_product = {.name = "dot-product", .score = score};
