/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/policy.h"

const struct gt_group_policy *const gt_group_policies[] = {
    &gt_group_gputopo,
    &gt_group_gputopo_static,
    &gt_group_gpu_aware,
    NULL,
};
