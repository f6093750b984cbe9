/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/bench/sim/pods/policy.h"

/* GPU packing: shares are placed on GPUs in use first, then on idle GPUs of nodes in use, then on idle
 * nodes. */
static double score(void *state, const struct gt_pod_node *node, const struct gt_pod_kind *kind)
{
    (void)state;
    if (!kind->gpus)
        return 0;
    uint32_t idle = 0, free_percent = 0, need = kind->gpus;
    for (uint32_t i = 0; i < node->gpus; i++)
        idle += node->gpu[i] == GT_GPU_MILLI;
    if (idle == node->gpus)
        return fmax(33 - (double)idle, idle);
    if (need == 1 && kind->milli < GT_GPU_MILLI) { /* the fullest GPU in use; whole ones are idle */
        uint32_t least = node->gpu[gt_pod_tightest_gpu(node, kind->milli)];
        need -= least < GT_GPU_MILLI;
        free_percent = least / 10;
    }
    if (need)
        return fmax(50 - (double)need, 33);
    return fmax(100 - trunc(free_percent / 10.0), 50);
}

const struct gt_pod_policy gt_pod_packing = {.name = "packing", .score = score};
