/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan.h"

/*
 * Chooses nodes to drain for a waiting job. Nodes are sorted by how soon they are expected to be free:
 * supernodes by the share of their GPUs in use, nodes within a supernode by their GPUs in use. A binary
 * search finds the shortest prefix of this order with which the job would fit if these nodes were empty; the
 * search is valid since more room never makes a job unplaceable. The result is the nodes that the plan uses
 * then.
 *
 * True: the plan is in the pods of the request, as if no pods were on these nodes. False: the job would not
 * fit even into the empty cluster, or no memory. `freed` of the request is not used.
 */
bool gt_drain_plan(struct gt_cluster *cluster, const struct gt_plan_request *request);
