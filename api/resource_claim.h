/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_RESOURCE_CLAIM_H
#define GPUTOPO_API_RESOURCE_CLAIM_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * ResourceClaim (resource.k8s.io/v1): what is read of it, and what gputopo-scheduler writes. Texts are
 * borrowed: they belong to the object that was read.
 */
enum {
    GT_CLAIM_RESULTS_MAX = 32, /* as the API server has it */
    GT_CLAIM_REQUESTS_MAX = 32,
    GT_CLAIM_PODS_MAX = 256, /* likewise */
};

struct gt_claim_result { /* one device that was given to it */
    const char *request; /* with the part behind a slash */
    const char *driver, *pool, *device;
    bool admin; /* adminAccess */
};

struct gt_claim_request {
    const char *name;
    const char *device_class; /* "" where it has alternatives */
    unsigned count;           /* 0: all that match */
};

struct gt_resource_claim {
    const char *namespace_, *name, *uid;
    const char *resource_version; /* "" not known */
    const char *pod, *pod_uid;    /* for which it was made from a template; "" none */
    bool is_protected;            /* it has GT_CLAIM_FINALIZER, or others, which that must not replace */
    bool deleting;
    unsigned request_count;
    struct gt_claim_request requests[GT_CLAIM_REQUESTS_MAX];
    bool allocated;
    unsigned result_count, pod_count;
    struct gt_claim_result results[GT_CLAIM_RESULTS_MAX];
    const char *pods[GT_CLAIM_PODS_MAX]; /* that it is reserved for */
};

/* -EINVAL with the path of what is wrong. */
int gt_resource_claim_read(const cJSON *object, struct gt_resource_claim *ret, struct gt_err **err);

/* Kubernetes' own: it keeps an allocated claim until it is used no more. */
#define GT_CLAIM_FINALIZER "resource.kubernetes.io/delete-protection"

/* Merge patches. Each holds for this version of the object alone. */
struct gt_claim_version {
    const char *uid, *resource_version;
};
void gt_claim_write_protection(const struct gt_claim_version *of, struct gt_buf *to);

/* Of its status: devices of a node's pool, allocated at `now_s`. Since 1.36 the scheduler would write the
 * time itself, into what must not change. */
struct gt_claim_allocation {
    const char *node;
    const struct gt_claim_result *results;
    unsigned count;
    int64_t now_s;
};
void gt_claim_write_allocation(const struct gt_claim_version *of,
                               const struct gt_claim_allocation *allocation, struct gt_buf *to);
void gt_claim_write_no_allocation(const struct gt_claim_version *of, struct gt_buf *to);

#endif
