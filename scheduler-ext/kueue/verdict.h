/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/workload.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/plan.h"

/* Whether the cluster has room for the units of one Workload now. Nothing is changed. */
struct gt_fit_spec {
    struct gt_cache *cache;
    const struct gt_resource_flavor *flavors;
    unsigned flavor_count;
    const struct gt_node_set *avoid; /* nodes that are reserved for others */
    uint32_t held;                   /* Workloads with reserved places, only for the text */
};

enum gt_fit {
    GT_FIT_NOTHING, /* it asks for no groups */
    GT_FIT_YES,
    GT_FIT_NO,
    GT_FIT_NEVER,
    GT_FIT_FAILED, /* for example, no memory */
};

struct gt_fit_places {
    struct gt_plan_pod *pods;
    struct gt_cache_request **requests; /* [pod] other resources; NULL: none */
    struct gt_promise_id *promises;     /* [pod] scratch of the caller */
    uint32_t count;                     /* 0: none are known */
};
/* To be called before the cache is freed; empties *places. */
void gt_fit_places_done(struct gt_cache *cache, struct gt_fit_places *places);

/* Appends a sentence to `text`. *ret are the places with GT_FIT_YES, otherwise empty. */
enum gt_fit gt_fit_workload(const struct gt_fit_spec *spec, const struct gt_workload *workload,
                            struct gt_fit_places *ret, struct gt_buf *text);
