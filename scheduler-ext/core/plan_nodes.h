/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan_work.h"

/* Places pods on the nodes of one supernode. */

/* Places those pods of a run that have no place yet in one supernode. False: it has too little room; pods
 * that were placed stay placed. */
bool gt_place_in_super(struct job *job, uint32_t super, unsigned gpus, uint32_t first, uint32_t count);

/* Places `count` pods in a row on one node that has room for them. Their GPUs are chosen later, unless one
 * pod takes all. */
void gt_place_on_node(struct job *job, uint32_t node, unsigned gpus, struct gt_plan_pod *pods,
                      uint32_t count);

/* Places all pods of a job with hard units by an exhaustive search. False: nothing is placed; *ret_exact: it
 * does not fit, otherwise the search was cut short. */
bool gt_place_mixed(struct job *job, bool *ret_exact);

/* Chooses GPUs for the pods that have none (pod_gpus.h); all pods must have a node. */
void gt_give_gpus(struct job *job);
