/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/pods/policy.h"

const struct gt_pod_policy *const gt_pod_policies[] = {
    &gt_pod_gputopo,
    &gt_pod_extender,
    &gt_pod_extender_managed,
    &gt_pod_fgd,
    &gt_pod_fgd_cpu,
    &gt_pod_best_fit,
    &gt_pod_dot_product,
    &gt_pod_packing,
    &gt_pod_clustering,
    &gt_pod_random,
    NULL,
};
