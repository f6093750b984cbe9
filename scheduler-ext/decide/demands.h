/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/decide/view.h"

/* The resources besides GPUs that a job's members to be placed need, and plans that respect them. No I/O, no
 * clock. */
enum { GT_DEMANDS_MAX = 16 }; /* further ones count as the largest one with as many GPUs */

struct gt_demands {
    struct gt_cache_demand list[GT_DEMANDS_MAX];
    unsigned count; /* 0: nothing limits them */
    uint8_t *of;    /* [member] its demand, where it is to be placed */
    struct gt_plan_limit *limits;
    uint32_t limit_count; /* nodes that do not have enough for them */
};

/* -ENOMEM. Call gt_demands_done() in any case. */
int gt_demands_make(const struct gt_job_view *view, enum gt_cache_room room, struct gt_demands *ret,
                    struct gt_err **err);
void gt_demands_done(struct gt_demands *demands);

/* The same for a job that has no pods yet: `requests` are those of its members and must outlive *ret. */
int gt_demands_make_ahead(struct gt_cache *cache, const struct gt_job *job,
                          const struct gt_cache_request *const *requests, struct gt_demands *ret,
                          struct gt_err **err);

/* gt_plan_job() within the resources that nodes have now. Pods with different demands may share a node, and
 * are moved where its resources are not enough for both. */
bool gt_demands_plan(struct gt_cache *cache, struct gt_demands *demands,
                     const struct gt_plan_request *request, struct gt_plan_failure *ret_failure);

/* How people write an amount of a resource: "16", "64Gi". */
void gt_demands_amount_text(const char *name, uint64_t amount, struct gt_buf *to);
/* "CPU" for cpu; the name of other resources. */
const char *gt_demands_resource_name(const char *name);

/* "; 3 nodes lack CPU (a pod needs 16, at most 4 is free), 1 node offers too few GPUs (...)", or nothing. */
void gt_demands_text(struct gt_cache *cache, const struct gt_demands *demands,
                     const struct gt_node_set *excluded, struct gt_buf *to);
