/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_RESOURCE_CLAIM_H
#define GPUTOPO_API_RESOURCE_CLAIM_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * ResourceClaim (resource.k8s.io/v1): what is read of it. Texts are borrowed: they belong to the object that
 * was read.
 */
enum {
    GT_CLAIM_RESULTS_MAX = 32, /* as the API server has it */
    GT_CLAIM_PODS_MAX = 256,   /* likewise */
};

struct gt_claim_result { /* one device that was given to it */
    const char *request; /* with the part behind a slash */
    const char *driver, *pool, *device;
    bool admin; /* adminAccess */
};

struct gt_resource_claim {
    const char *namespace_, *name, *uid;
    bool deleting;
    bool allocated;
    unsigned result_count, pod_count;
    struct gt_claim_result results[GT_CLAIM_RESULTS_MAX];
    const char *pods[GT_CLAIM_PODS_MAX]; /* that it is reserved for */
};

/* -EINVAL with the path of what is wrong. */
int gt_resource_claim_read(const cJSON *object, struct gt_resource_claim *ret, struct gt_err **err);

#endif
