/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WEBHOOK_WEBHOOK_H
#define GPUTOPO_WEBHOOK_WEBHOOK_H

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/placement/controller.h"

/*
 * The admission webhook: an AdmissionReview of admission.k8s.io/v1 in, one out. No I/O: it answers from what
 * is known, at once, on every replica (docs/reference/placement-controller.md).
 */
struct gt_webhook {
    const char *resource;           /* "metax-tech.com/gpu" */
    const struct gt_owners *owners; /* NULL: none are known */
    const struct gt_cache *cache;   /* NULL: no siblings are known */
    struct gt_placement *placement; /* NULL: no plans are known */
    enum gt_claims claims;
};

enum { GT_WEBHOOK_BODY_MAX = 4 << 20 };

/*
 * Adds the gate to a new pod that asks for GPUs and whose job has a group size on any template; where its job
 * is planned and a place is reserved for it, it gets its plan instead. Plans that others wrote on it go.
 * Where the pod's owner is of a kind that has templates, but not known yet, the pod is gated in doubt: the
 * controller lifts a gate that was not needed, and nobody could add one later. A pod that breaks a rule of
 * the annotations is refused with its sentence: to ask once costs the API server half as much as twice.
 * Claims that its user wrote become those of the companion, or are refused (own_claim.h).
 * -EINVAL where the body is no AdmissionReview: nothing is appended, the request is answered with status 400.
 */
int gt_webhook_mutate(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                      struct gt_err **err);

/* Refuses new or changed owners that break a rule. What was broken before may be changed, and anything may be
 * deleted. */
int gt_webhook_validate(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                        struct gt_err **err);

#endif
