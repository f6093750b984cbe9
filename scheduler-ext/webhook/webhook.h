/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/placement/controller.h"

/*
 * The admission webhook: answers an AdmissionReview of admission.k8s.io/v1. No I/O: every replica answers
 * immediately from its cache (docs/reference/placement-controller.md).
 */
struct gt_webhook {
    const char *resource;           /* "metax-tech.com/gpu" */
    const struct gt_owners *owners; /* NULL: none known */
    const struct gt_cache *cache;   /* NULL: no other pods known */
    struct gt_placement *placement; /* NULL: no plans known */
    enum gt_claims claims;
};

enum { GT_WEBHOOK_BODY_MAX = 4 << 20, GT_WEBHOOK_VALUES_MAX = 1 << 16 }; /* of a review */

/*
 * Adds the gate to a new pod that asks for GPUs and whose job has a group size on any template; where its job
 * is planned and a place is reserved for the pod, it gets its plan instead. Plan annotations from others are
 * removed. Where the pod's owner is of a kind with templates and not known yet, the pod is gated in any case:
 * the controller removes a gate that was not needed, and a gate cannot be added later. A pod that breaks a
 * rule of the annotations is refused here with a sentence, which saves the API server a second webhook call.
 * Claims of users are changed to those of the companion, or refused (own_claim.h). Appends the response to
 * `answer`. -EINVAL where the body is not an AdmissionReview: nothing is appended, and the caller answers
 * with status 400.
 */
int gt_webhook_mutate(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                      struct gt_err **err);

/* Refuses new or changed owners that break a rule. An owner that broke a rule before may be changed, and
 * every owner may be deleted. One that would not fit even into the empty cluster gets a warning. */
int gt_webhook_validate(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                        struct gt_err **err);

/* Refuses what it is asked about: the API server's conditions let pass only what breaks a rule of ours. */
int gt_webhook_forbid(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                      struct gt_err **err);
