/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan_within.h"

/*
 * Slow and suspect GPUs: below feasibility and room. A job that avoids them is planned without regard to them
 * first: if that plan has none, it is the one. Within each supernode the job then takes, of nodes that are
 * alike and equally full, those with the fewest such GPUs: the free GPUs of the supernode's nodes stay the
 * same numbers. Last the job is planned without any slow GPU, for a single unit in each supernode. That plan
 * is taken where it leaves the cluster at least as many places of each size of the chain, and lies no farther
 * apart. So while no job ends, and where sizes divide one another, nothing is refused that would have fitted
 * (plan_rule.h): what fits is told by these numbers.
 */

/* Whether the request is for gt_plan_slow(), and not to be planned as it is. */
static inline bool gt_plan_minds_slow(const struct gt_cluster *cluster, const struct gt_plan_request *request)
{
    return cluster->slow_nodes && !request->settled &&
           (request->slow == GT_SLOW_NEVER || (request->slow == GT_SLOW_AVOID && !request->rules));
}

/* Plans by `plan`, which is gt_plan_job(). */
bool gt_plan_slow(struct gt_cluster *cluster, const struct gt_plan_request *request, gt_plan_fn *plan,
                  struct gt_plan_failure *ret_failure);

/* Moves pods between nodes that are alike, when all have one and before they get their GPUs. */
void gt_slow_trade(struct job *job);
