/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/jobs/rules.h"

/* Jobs that would not fit even if no pod were in the cluster, all its GPUs were healthy, and all its nodes
 * could be used: they wait for other hardware, not for room. No I/O, no clock. */
struct gt_never_spec {
    const struct gt_job_units *units;
    const struct gt_plan_pod *pods;        /* [member] those with `running` are left out */
    const struct gt_node_set *excluded;    /* nodes where its pods may not run; NULL: none */
    const struct gt_cache_demand *demands; /* of its pods */
    unsigned demand_count;                 /* 0: nothing besides GPUs limits them */
};

/* True: it can never be placed; a sentence says which fact forbids it, and what would do. False also where
 * that is not sure (pods of several sizes), no node is known, or there is no memory. */
bool gt_never_fits(struct gt_cache *cache, const struct gt_never_spec *spec, struct gt_buf *text);
