/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUEUE_VERDICT_H
#define GPUTOPO_KUEUE_VERDICT_H

#include "api/workload.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/plan.h"

/* Whether the cluster, as it is at this moment, can take the units of one Workload. Nothing is changed. */
struct gt_fit_spec {
    struct gt_cache *cache;
    const struct gt_resource_flavor *flavors;
    unsigned flavor_count;
    const struct gt_node_set *avoid; /* nodes that are reserved for others */
    uint32_t held;                   /* Workloads whose places are taken, only for the text */
};

enum gt_fit {
    GT_FIT_NOTHING, /* it asks for no groups */
    GT_FIT_YES,
    GT_FIT_NO,
    GT_FIT_NEVER,
    GT_FIT_FAILED, /* no memory, for instance */
};

struct gt_fit_places {
    struct gt_plan_pod *pods;
    struct gt_cache_request **requests; /* of each: what it needs besides GPUs; NULL: nothing */
    uint32_t count;                     /* 0: none are known */
};
/* Before the cache. They are none then. */
void gt_fit_places_done(struct gt_cache *cache, struct gt_fit_places *places);

/* Adds a sentence to `text`. `*ret` are the places of GT_FIT_YES, and otherwise none. */
enum gt_fit gt_fit_workload(const struct gt_fit_spec *spec, const struct gt_workload *workload,
                            struct gt_fit_places *ret, struct gt_buf *text);

#endif
