/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_PLAN_NODES_H
#define GPUTOPO_CORE_PLAN_NODES_H

#include "scheduler-ext/core/plan_work.h"

/* Pods on the nodes of one supernode. */

/* Places the pods of a run that have no place yet into one supernode. False: it has too little room; what was
 * placed stays taken. */
bool gt_place_in_super(struct job *job, uint32_t super, unsigned gpus, uint32_t first, uint32_t count);

/* The first of `count` pods and those after it, on one node that holds them. Which GPUs they get stays open,
 * but where one takes all. */
void gt_place_on_node(struct job *job, uint32_t node, unsigned gpus, struct gt_plan_pod *pods,
                      uint32_t count);

/* All pods of a job of hard units, by trying all ways. False: nothing is placed; *ret_exact: it does not fit,
 * else the search was cut short. */
bool gt_place_mixed(struct job *job, bool *ret_exact);

/* When all pods have a node: gives GPUs to those that have none (pod_gpus.h). */
void gt_give_gpus(struct job *job);

#endif
