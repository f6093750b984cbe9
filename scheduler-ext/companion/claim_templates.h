/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/companion/part.h"

/*
 * The ResourceClaimTemplates that pods name (api/pod_claim.h): created when the first pod of a namespace
 * needs one, and deleted some minutes after the last such pod is gone. A template without our label is left
 * as it is. A pod waits until its template exists, since its claim is made from it.
 */
struct gt_claim_templates;

int gt_claim_templates_new(const struct gt_part_env *env, struct gt_claim_templates **ret,
                           struct gt_err **err);
void gt_claim_templates_free(struct gt_claim_templates *templates); /* NULL is allowed */

/* After `false` no request is in flight. */
void gt_claim_templates_lead(struct gt_claim_templates *templates, bool leads);
void gt_claim_templates_observe_pod(struct gt_claim_templates *templates, const struct gt_pod *pod);
/* Every ResourceClaimTemplate of the cluster; then that all were listed: nothing is written before. */
void gt_claim_templates_observe(struct gt_claim_templates *templates, const cJSON *object);
void gt_claim_templates_observe_deleted(struct gt_claim_templates *templates, const char *namespace_,
                                        const char *name);
void gt_claim_templates_on_listed(struct gt_claim_templates *templates);
