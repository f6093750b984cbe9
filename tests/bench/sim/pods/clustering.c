/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/bench/sim/pods/policy.h"

/* GPU clustering: requests of one type are placed together, then the fuller node wins; a pod without GPUs is
 * placed anywhere. */
static double score(void *state, const struct gt_pod_node *node, const struct gt_pod_kind *kind)
{
    (void)state;
    if (!kind->type)
        return 0;
    bool same = node->pods[kind->type], other = false;
    for (unsigned t = 1; t < GT_POD_TYPES; t++)
        other |= t != kind->type && node->pods[t];
    double base = same ? (other ? 50 : 75) : other ? 0 : 25;
    return trunc(base + 25 * ((double)GT_PODS_GPU_MAX - node->gpu_free) / GT_PODS_GPU_MAX);
}

const struct gt_pod_policy gt_pod_clustering = {.name = "clustering", .score = score};
