/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/webhook/own_claim.h"

/*
 * Owners whose templates name ResourceClaimTemplates of users: they are read as if they named those of the
 * companion instead, as the webhook will change their pods (webhook/own_claim.h). An owner that is seen
 * before its ResourceClaimTemplate is kept, and read again when the template is known.
 */
struct gt_own_claims;

struct gt_own_claims_spec {
    const struct gt_cache *cache;
    struct gt_owners *owners;
    /* An owner has been read again. */
    void (*on_owner)(void *arg, enum gt_job_kind kind, const char *namespace_, const char *name);
    void *arg;
};

int gt_own_claims_new(const struct gt_own_claims_spec *spec, struct gt_own_claims **ret, struct gt_err **err);
void gt_own_claims_free(struct gt_own_claims *own); /* NULL is allowed */

/* Changes an owner before it is read. */
void gt_own_claims_prepare(struct gt_own_claims *own, enum gt_job_kind kind, cJSON *object);
/* The owner was deleted. */
void gt_own_claims_forget(struct gt_own_claims *own, enum gt_job_kind kind, const char *namespace_,
                          const char *name);
/* A ResourceClaimTemplate of this namespace was added. */
void gt_own_claims_observe_template(struct gt_own_claims *own, const char *namespace_);
