/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/pod_claim.h"
#include "base/buf.h"

/*
 * ResourceClaim (resource.k8s.io/v1): the members that are read, and what gputopo-scheduler writes. Texts are
 * borrowed: they belong to the object that was read.
 */
enum {
    GT_CLAIM_RESULTS_MAX = 32, /* the limit of the API server */
    GT_CLAIM_REQUESTS_MAX = 32,
    GT_CLAIM_PODS_MAX = 256, /* likewise */
};

struct gt_claim_result { /* one device that was allocated to it */
    const char *request; /* with the part after a slash, if any */
    const char *driver, *pool, *device;
    bool admin; /* adminAccess */
};

struct gt_claim_request {
    const char *name;
    const char *device_class; /* "" if it has alternatives */
    unsigned count;           /* number of devices; 0: all that match */
};

struct gt_resource_claim {
    const char *namespace_, *name, *uid;
    const char *resource_version; /* "" not known */
    const char *pod, *pod_uid;    /* the pod for which it was made from a template; "" none */
    bool is_protected; /* it has GT_CLAIM_FINALIZER, or other finalizers, which must not be replaced */
    bool deleting;
    unsigned request_count;
    struct gt_claim_request requests[GT_CLAIM_REQUESTS_MAX];
    bool allocated;
    unsigned result_count, pod_count;
    struct gt_claim_result results[GT_CLAIM_RESULTS_MAX];
    const char *pods[GT_CLAIM_PODS_MAX]; /* names of the pods that it is reserved for */
};

/* -EINVAL with the path of what is wrong. */
int gt_resource_claim_read(const cJSON *object, struct gt_resource_claim *ret, struct gt_err **err);

/* The finalizer of Kubernetes: an allocated claim is not deleted while it is in use. */
#define GT_CLAIM_FINALIZER "resource.kubernetes.io/delete-protection"

/* For merge patches: each is valid for this version of the object only. */
struct gt_claim_version {
    const char *uid, *resource_version;
};
void gt_claim_write_protection(const struct gt_claim_version *version, struct gt_buf *to);

/* For a patch of its status: devices of a node's pool, allocated at `now_s` (Unix time). Without the time,
 * the scheduler of Kubernetes 1.36 and later would add it, but an allocation must not change. */
struct gt_claim_allocation {
    const char *node;
    const struct gt_claim_result *results;
    unsigned count;
    int64_t now_s;
};
void gt_claim_write_allocation(const struct gt_claim_version *version,
                               const struct gt_claim_allocation *allocation, struct gt_buf *to);
void gt_claim_write_no_allocation(const struct gt_claim_version *version, struct gt_buf *to);

/*
 * ResourceClaimTemplate (resource.k8s.io/v1): what the templates of users ask for. Texts are borrowed: they
 * belong to the object that was read.
 */
struct gt_claim_template {
    const char *namespace_, *name;
    bool asks;           /* it asks for GPUs of the class GT_DRA_CLASS */
    const char *request; /* the name of the request; it asks for `gpus` GPUs, and no other request does */
    unsigned gpus;
    /* Why no GPUs can be planned for it, as the end of a sentence about it (static text); NULL: they can. A
     * plan considers only the number of GPUs. */
    const char *unfit;
};

/* -EINVAL with the path of what is wrong. */
int gt_claim_template_read(const cJSON *object, struct gt_claim_template *ret, struct gt_err **err);
