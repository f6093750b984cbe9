/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/identity.h"

/* Where a pod says itself which job it is of: that job, its index, and how many pods the job has; 1. `ours`:
 * by our own annotations, else by others'. -EINVAL where a number is missing or invalid. */
int gt_pods_identify(const struct gt_pod_meta *pod, bool ours, struct gt_pod_identity *ret,
                     struct gt_err **err);
