/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan_work.h"

/*
 * A job that must lie in one supernode of a tier, or that lies close before anything else. If the plan that
 * is made without that lies in one, it is taken, so nothing is lost at tier 1; else the one with the fewest
 * available GPUs of those that hold it.
 */
typedef bool gt_plan_fn(struct gt_cluster *cluster, const struct gt_plan_request *request,
                        struct gt_plan_failure *ret_failure);

/* Whether the request is for gt_plan_within(), and not to be planned as it is. */
static inline bool gt_plan_has_tier(const struct gt_cluster *cluster, const struct gt_plan_request *request)
{
    bool several = request->unit_count > 1 || (request->unit_count && request->units->atom);
    return request->within ||
           (cluster->prefers_close && cluster->uppers && several && !request->flat && !request->chosen);
}

/* Plans by `plan` with requests that are to be planned as they are. */
bool gt_plan_within(struct gt_cluster *cluster, const struct gt_plan_request *request, gt_plan_fn *plan,
                    struct gt_plan_failure *ret_failure);
