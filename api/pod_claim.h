/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_POD_CLAIM_H
#define GPUTOPO_API_POD_CLAIM_H

#include "api/pod.h"

/*
 * Pods whose GPUs come by one ResourceClaim, of a ResourceClaimTemplate that gputopo-scheduler keeps. The
 * webhook writes it in the place of their limits.
 *
 * The claim has a request for each container, "gpus-0", "gpus-1"...; where an ordinary init container has
 * GPUs that others take over, requests are parted so that each container has whole ones. The name of the
 * template says how many GPUs each asks for, "gputopo-gpus-4-2": so the pod's spec, which nobody can change,
 * says how many GPUs it has.
 */
#define GT_CLAIM_TEMPLATE_PREFIX "gputopo-gpus-"
#define GT_CLAIM_OF_POD          "gputopo-gpus" /* its name in the pod */

enum {
    GT_CLAIM_GPUS_MAX = 32, /* and requests: as the API server has it */
    GT_CLAIM_TEMPLATE_SIZE = 128,
    GT_CLAIM_REQUEST_SIZE = 16,
};

/* The GPUs of each request: 1 or more, GT_CLAIM_GPUS_MAX together. */
struct gt_claim_sizes {
    unsigned count;
    unsigned gpus[GT_CLAIM_GPUS_MAX];
};

void gt_claim_template_name(const struct gt_claim_sizes *sizes, char to[static GT_CLAIM_TEMPLATE_SIZE]);
/* The way back; false for any other name. */
bool gt_claim_template_sizes(const char *name, struct gt_claim_sizes *ret);
void gt_claim_request_name(unsigned number, char to[static GT_CLAIM_REQUEST_SIZE]);

/* Appends the body of one to be created. */
void gt_claim_template_write(const char *name, const struct gt_claim_sizes *sizes, struct gt_buf *to);

/* Which requests each container of a pod's list has. In the claim GPUs lie as gt_pod_gpus.counts has them. */
struct gt_pod_claim {
    struct gt_claim_sizes sizes;
    struct gt_claim_span {
        unsigned first, count;
    } spans[GT_POD_PLAN_CONTAINERS_MAX];
};
/* False where it would be more than a claim may have, or nothing. */
bool gt_pod_claim_make(const struct gt_pod_containers *containers, struct gt_pod_claim *ret);

/* Of a pod's spec, or a template's: the claim of such a template. */
struct gt_claim_of_pod {
    const char *name;      /* in the pod */
    const char *template_; /* NULL: it has none */
    struct gt_claim_sizes sizes;
};
void gt_claim_of_pod_read(const cJSON *spec, struct gt_claim_of_pod *ret);
/* The GPUs that a container has of it. */
unsigned gt_claim_gpus_of(const struct gt_claim_of_pod *claim, const cJSON *container);

/*
 * The claims of a pod's spec, or a template's, one after the other; the first time *entry is all zero. False:
 * there are no more.
 */
struct gt_claim_entry {
    const char *name;      /* in the pod, "" none */
    const char *template_; /* the ResourceClaimTemplate, or... */
    const char *claim;     /* ...the ResourceClaim that it names; "" the other */
    unsigned at;           /* in the list */
    const cJSON *item;
};
bool gt_claim_entry_next(const cJSON *spec, struct gt_claim_entry *entry);

/* Containers that name a claim of the pod, except for ordinary init containers; each as often as it does. */
unsigned gt_claim_uses(const cJSON *spec, const char *name);

/* Gives the first container of the spec one GPU by limits, where it has none. */
void gt_pod_spec_ask_for_one(cJSON *spec, const char *resource);

/* Whether a pod is Pending and has claims of any driver: its kubelet may be waiting to prepare them. */
bool gt_pod_waits_for_claims(const cJSON *pod);

#endif
