/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan.h"

/*
 * Chooses victims: running pods to evict so that a waiting job fits, with its units whole. These are
 * minimized in this order: the highest priority of a victim, the number of jobs with victims, the number of
 * victims, and their GPUs.
 *
 * The highest priority is found by binary search, since more room never makes a job unplaceable. Then several
 * candidate sets are reduced as far as possible, first by whole jobs, then by pods, and the smallest of them
 * is the result: all pods, those of one job, those of one supernode, those of the smallest group of
 * supernodes with the fewest jobs, and the result of gt_advise() (advise.h). So no pod is evicted needlessly.
 * For a job with equal units a solution is found whenever one exists, and it is optimal where each pod is a
 * job by itself. Otherwise a smaller one may exist: the problem is then as hard as set cover.
 */

/*
 * True: the plan is in the pods of the request, as if the victims were gone; none is chosen where the job
 * fits without. False: it would not fit even if all were gone, or no memory; nothing is chosen. `freed` of
 * the request are GPUs that become free anyway.
 */
bool gt_victims_choose(struct gt_cluster *cluster, const struct gt_plan_request *request,
                       struct gt_running_pod *victims, uint32_t count);
