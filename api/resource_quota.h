/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * ResourceQuota: what it says of GPUs. Only "requests.NAME" is a quota of an extended resource; "NAME" and
 * "limits.NAME" have no effect.
 */
enum {
    GT_QUOTA_SCOPES_MAX = 16,  /* in a quota; Kubernetes has seven */
    GT_QUOTA_VALUES_MAX = 256, /* in all of its scopes together */
};

enum gt_quota_scope_kind {
    GT_QUOTA_TERMINATING, /* pods with activeDeadlineSeconds */
    GT_QUOTA_NOT_TERMINATING,
    GT_QUOTA_BEST_EFFORT, /* pods that ask for neither CPU nor memory */
    GT_QUOTA_NOT_BEST_EFFORT,
    GT_QUOTA_PRIORITY_CLASS,
    GT_QUOTA_OTHER_SCOPE, /* about volumes or affinity, or unknown: treated as if it matched no pod */
};

enum gt_quota_operator { GT_QUOTA_EXISTS, GT_QUOTA_DOES_NOT_EXIST, GT_QUOTA_IN, GT_QUOTA_NOT_IN };

struct gt_quota_scope {
    enum gt_quota_scope_kind kind;
    enum gt_quota_operator operator;
    const char *const *values;
    unsigned value_count;
};

struct gt_resource_quota {
    const char *namespace_, *name;
    uint64_t hard; /* the lower one of spec.hard and status.hard: the API server enforces the status, which is
                      updated a moment after the spec */
    uint64_t used;
    const struct gt_quota_scope *scopes; /* a pod has to match all of them */
    unsigned scope_count;
};

/* *ret is one block with its texts; free it with free(). -EINVAL with the path of what is
 * invalid. *ret is NULL without an error if it does not limit this resource. */
int gt_resource_quota_read(const cJSON *object, const char *resource, struct gt_resource_quota **ret,
                           struct gt_err **err);

/* The properties of a pod that scopes check. */
struct gt_quota_pod {
    const char *priority_class; /* NULL or "": none */
    bool has_deadline, best_effort;
};
/* Whether the API server counts such pods against the quota. */
bool gt_resource_quota_matches(const struct gt_resource_quota *quota, const struct gt_quota_pod *pod);
