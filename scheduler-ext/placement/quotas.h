/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/resource_quota.h"

/* The ResourceQuotas that limit GPUs. No I/O, no clock. */
struct gt_quotas {                    /* zeroed: empty */
    struct gt_resource_quota **items; /* by namespace and name */
    uint32_t count, capacity;
    uint32_t version; /* changes with each change */
};

enum { GT_QUOTAS_MAX = 1 << 15 };

/* Takes over the quota, and replaces one of the same name. On failure it is freed. */
int gt_quotas_put(struct gt_quotas *quotas, struct gt_resource_quota *quota, struct gt_err **err);
void gt_quotas_remove(struct gt_quotas *quotas, const char *namespace_, const char *name);
/* The quotas of a namespace; borrowed, valid until the next change. */
struct gt_resource_quota *const *gt_quotas_of(const struct gt_quotas *quotas, const char *namespace_,
                                              uint32_t *ret_count);
void gt_quotas_done(struct gt_quotas *quotas);
