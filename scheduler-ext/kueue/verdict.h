/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUEUE_VERDICT_H
#define GPUTOPO_KUEUE_VERDICT_H

#include "api/workload.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/plan.h"

/* Whether the cluster, as it is at this moment, can take the units of one Workload. Nothing is changed. */
struct gt_fit_spec {
    struct gt_cache *cache;
    const cJSON *flavors;            /* specs of ResourceFlavors, by name */
    const struct gt_node_set *avoid; /* nodes that are kept for others */
    uint32_t held;                   /* Workloads whose places are taken, only for the text */
};

enum gt_fit {
    GT_FIT_NOTHING, /* it asks for no groups */
    GT_FIT_YES,
    GT_FIT_NO,
    GT_FIT_NEVER,
    GT_FIT_FAILED, /* no memory, for instance */
};

/* Adds a sentence to `text`. GT_FIT_YES: *ret_pods are `*ret_count` places, which the caller frees. */
enum gt_fit gt_fit_workload(const struct gt_fit_spec *spec, const struct gt_workload *workload,
                            struct gt_plan_pod **ret_pods, uint32_t *ret_count, struct gt_buf *text);

#endif
