/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/pods/policy.h"

/* Best fit: the least CPU and GPU left over, with equal weights, normalized to 0..100. */
static double score(void *state, const struct gt_pod_node *node, const struct gt_pod_kind *kind)
{
    (void)state;
    double cpu = (double)node->cpu - kind->cpu;
    double gpu = (double)node->gpu_free - kind->gpus * kind->milli;
    return 100 * (1 - 0.5 * cpu / GT_PODS_CPU_MAX - 0.5 * gpu / GT_PODS_GPU_MAX);
}

const struct gt_pod_policy gt_pod_best_fit = {.name = "best-fit", .score = score, .stretched = true};
