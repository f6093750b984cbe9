/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/core/score.h"

/* Functions on a cluster for tests and benches only. */

/* Computes every derived number again and compares: 0, or -EUCLEAN with the first wrong one. */
int gt_cluster_check(const struct gt_cluster *cluster, struct gt_err **err);

/* The best node for a pod of k GPUs that is not in `excluded` (NULL: of all), GT_NONE if none is feasible. */
uint32_t gt_score_best(struct gt_cluster *cluster, const struct gt_node_set *excluded, unsigned k);

/* The number of assumptions. */
uint32_t gt_cluster_assumptions(const struct gt_cluster *cluster);

/* The pod runs there now: its GPUs are in use. */
void gt_cluster_confirm(struct gt_cluster *cluster, struct gt_promise_id assumption);

/* Assumes every pod that is not running; all or nothing. ret_assumptions has pod_count places (GT_NONE for a
 * running pod). */
int gt_plan_assume(struct gt_cluster *cluster, const struct gt_plan_pod *pods, uint32_t pod_count,
                   uint64_t owner, struct gt_promise_id *ret_assumptions, struct gt_err **err);
