/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

#include <string.h>

const struct gt_group_policy *const peer_policies[] = {
    &gt_group_gputopo,         &gt_group_gputopo_static,
    &gt_group_kueue,           &gt_group_kueue_slices,
    &gt_group_kueue_preferred, &gt_group_slurm_block,
    &gt_group_huawei,          &gt_group_kai,
    &gt_group_volcano,         &gt_group_first_fit,
    &gt_group_best_fit,        &gt_group_worst_fit,
    &gt_group_random,          &gt_group_kueue_most,
    &gt_group_kueue_first,     &gt_group_kueue_preferred_first,
    &gt_group_huawei_most,     &gt_group_huawei_first,
    &gt_group_volcano_most,    &gt_group_volcano_first,
    &gt_group_least_allocated, &gt_group_most_allocated,
    &gt_group_gpu_aware,       NULL,
};

const struct gt_group_policy *peer_policy(const char *name)
{
    size_t i = 0;
    while (peer_policies[i] && strcmp(peer_policies[i]->name, name) != 0)
        i++;
    return peer_policies[i];
}
