/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"

/*
 * Pods that get their GPUs by one ResourceClaim, made from a ResourceClaimTemplate of gputopo-scheduler. The
 * webhook writes it in place of their limits.
 *
 * The claim has a request for each container, "gpus-0", "gpus-1"...; if an ordinary init container has GPUs
 * that others take over, requests are split so that each container has whole requests. The template's name
 * says how many GPUs each request asks for, "gputopo-gpus-4-2": so the pod's spec, which cannot be changed,
 * says how many GPUs it has.
 */
#define GT_CLAIM_TEMPLATE_PREFIX "gputopo-gpus-"
#define GT_CLAIM_OF_POD          "gputopo-gpus" /* the claim's name in the pod */

enum {
    GT_CLAIM_GPUS_MAX = 32, /* also the limit of requests; both are the API server's */
    GT_CLAIM_TEMPLATE_SIZE = 128,
    GT_CLAIM_REQUEST_SIZE = 16,
};

/* The number of GPUs of each request, at least 1; at most GT_CLAIM_GPUS_MAX in total. */
struct gt_claim_sizes {
    unsigned count;
    unsigned gpus[GT_CLAIM_GPUS_MAX];
};

void gt_claim_template_name(const struct gt_claim_sizes *sizes, char to[static GT_CLAIM_TEMPLATE_SIZE]);
/* The sizes of such a name; false for any other name. */
bool gt_claim_template_sizes(const char *name, struct gt_claim_sizes *ret);
void gt_claim_request_name(unsigned number, char to[static GT_CLAIM_REQUEST_SIZE]);

/* Appends the body of a template, to create it. */
void gt_claim_template_write(const char *name, const struct gt_claim_sizes *sizes, struct gt_buf *to);

/* Which requests each container of a pod has. In the claim the GPUs have the order of gt_pod_gpus.counts. */
struct gt_pod_claim {
    struct gt_claim_sizes sizes;
    struct gt_claim_span {
        unsigned first, count;
    } spans[GT_POD_PLAN_CONTAINERS_MAX];
};
/* False if it would be more than a claim may have, or nothing. */
bool gt_pod_claim_make(const struct gt_pod_containers *containers, struct gt_pod_claim *ret);

/* The claim of such a template in the spec of a pod or template. */
struct gt_claim_of_pod {
    const char *name;      /* in the pod */
    const char *template_; /* NULL: it has none */
    struct gt_claim_sizes sizes;
};
void gt_claim_of_pod_read(const cJSON *spec, struct gt_claim_of_pod *ret);
/* The number of GPUs that a container gets from the claim. */
unsigned gt_claim_gpus_of(const struct gt_claim_of_pod *claim, const cJSON *container);

/*
 * Reads the claims in the spec of a pod or template one after the other; *entry must be all zeros the first
 * time. False: there are no more.
 */
struct gt_claim_entry {
    const char *name;      /* in the pod, "" none */
    const char *template_; /* the ResourceClaimTemplate, or... */
    const char *claim;     /* ...the ResourceClaim that it names; one of the two is "" */
    unsigned at;           /* its position in the list */
    const cJSON *item;
};
bool gt_claim_entry_next(const cJSON *spec, struct gt_claim_entry *entry);

/* How often containers name a claim of the pod, without ordinary init containers. */
unsigned gt_claim_uses(const cJSON *spec, const char *name);

/* Gives the first container of the spec one GPU by limits, unless it has some. */
void gt_pod_spec_ask_for_one(cJSON *spec, const char *resource);

/* Whether a pod is Pending and has claims of any driver: its kubelet may be waiting to prepare them. */
bool gt_pod_waits_for_claims(const cJSON *pod);
