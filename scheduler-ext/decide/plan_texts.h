/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/cache.h"

/* The annotations that give a pod, its agent and its launcher the plan. No I/O. */

/* The planned place of a pod, and its rank in the job. */
struct gt_planned_place {
    struct gt_place place; /* its GPUs are split over the pod's containers */
    uint32_t unit, unit_rank, rank;
    unsigned tier; /* 0: no supernode holds the unit */
};

/* The values of the annotations. */
struct gt_plan_texts {
    char node[GT_CLUSTER_NAME_MAX + 1], unit[12], unit_rank[12], rank[12], tier[12];
    const char *supernode; /* the cluster's */
    char *gpus;            /* owned */
};
/* -ENOENT where the node or a GPU does not exist. gt_plan_texts_done() frees *ret. */
int gt_plan_texts_make(const struct gt_cache *cache, const struct gt_cache_pod *pod,
                       const struct gt_planned_place *planned, struct gt_plan_texts *ret,
                       struct gt_err **err);
void gt_plan_texts_done(struct gt_plan_texts *texts);

/* The annotations of a plan as keys and values; they point into `texts`. */
enum { GT_PLAN_PAIRS = 7 };
void gt_plan_pairs(const struct gt_plan_texts *texts, struct gt_pair ret[static GT_PLAN_PAIRS]);
