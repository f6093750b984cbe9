/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WEBHOOK_OWN_CLAIM_H
#define GPUTOPO_WEBHOOK_OWN_CLAIM_H

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"

/*
 * Pods that ask for GPUs by claims of a user's ResourceClaimTemplate, and are to be placed. The template of
 * the companion that asks for the same takes its place (api/pod_claim.h): so the pod itself says how many
 * GPUs it has, whatever becomes of the user's. What the companion's does not ask for cannot be planned, and
 * is refused with a sentence.
 */

/* Of a pod's spec, or a template's, in `namespace_`; `resource` is that of limits. 1: changed, and what has
 * to be changed of the pod is appended to `patch` (NULL: nowhere); 0: it has no such claim. -EINVAL with the
 * sentence, or -ENOENT where a template is not known, with one, too. */
int gt_own_claim_replace(const struct gt_cache *cache, const char *namespace_, const char *resource,
                         cJSON *spec, struct gt_buf *patch, struct gt_err **err);

/* Of all templates of an owner, as far as they can be. False: one names a ResourceClaimTemplate that is not
 * known. */
bool gt_own_claims_replace(const struct gt_cache *cache, const char *namespace_, const char *resource,
                           cJSON *owner);

#endif
