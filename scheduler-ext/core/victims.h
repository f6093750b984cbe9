/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan.h"

/*
 * Chooses victims: running pods to evict so that a waiting job fits, with its units whole. A unit goes as a
 * whole: its pods have the same `job` and `unit` (GT_NONE: a pod by itself), and all of them must be
 * `movable`. These are minimized in this order: the highest priority of a victim, the number of jobs with
 * victims, their GPUs, and their pods.
 *
 * The highest priority is found by binary search, since more room never makes a job unplaceable. Then several
 * candidate sets are reduced as far as possible, first by whole jobs, then by units, and the least costly of
 * them is the result: all pods, those of one job, those of one supernode, those of the smallest group of
 * supernodes with the fewest jobs, and the result of gt_advise() (advise.h). So nobody is evicted needlessly.
 * For a job with equal units a solution is found whenever one exists. In the end all sets of up to 12 units
 * and pods are tried, on up to about 1,000 nodes: then the result is optimal. Beyond, a less costly one may
 * exist: the problem is then as hard as set cover.
 */

/*
 * True: the plan is in the pods of the request, as if the victims were gone; none is chosen where the job
 * fits without. False: it would not fit even if all were gone, or no memory; nothing is chosen. `freed` of
 * the request are GPUs that become free anyway. The victims have at least `least` GPUs.
 */
bool gt_victims_choose(struct gt_cluster *cluster, const struct gt_plan_request *request,
                       struct gt_running_pod *victims, uint32_t count, uint32_t least);
