/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_DRAIN_H
#define GPUTOPO_CORE_DRAIN_H

#include "scheduler-ext/core/plan.h"

/*
 * Which nodes to let run empty for a job that waits. Nodes are put into the order in which they may be
 * expected to become free: supernodes by the share of them that is in use, in a supernode nodes by what is in
 * use. The shortest beginning of that order with which the job would fit, everything on it gone, is found by
 * halving, since more room never hurts; the nodes that its plan uses then are the answer.
 *
 * True: the plan is in the pods of the request, as if nobody were on those nodes. False: it would not fit on
 * the empty cluster, or memory ran out. `freed` of the request is not used.
 */
bool gt_drain_plan(struct gt_cluster *cluster, const struct gt_plan_request *request);

#endif
