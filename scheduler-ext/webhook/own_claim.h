/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"

/*
 * Pods that ask for GPUs by claims of a user's ResourceClaimTemplate and are to be placed. The reference is
 * changed to the companion's template that asks for the same (api/pod_claim.h), so that the pod itself says
 * how many GPUs it has, also after the user's template was changed or deleted. What no template of the
 * companion can ask for cannot be planned, and is refused with a sentence.
 */

/* Changes the spec of a pod or a pod template in `namespace_`; `resource` is the resource in limits. 1:
 * changed, and the JSON patch operations for the pod are appended to `patch` (may be NULL); 0: it has no such
 * claim. -EINVAL with a sentence where it cannot be planned; -ENOENT with a sentence where a
 * ResourceClaimTemplate is not known. */
int gt_own_claim_replace(const struct gt_cache *cache, const char *namespace_, const char *resource,
                         cJSON *spec, struct gt_buf *patch, struct gt_err **err);

/* Changes all pod templates of an owner, as far as possible. False: one refers to a ResourceClaimTemplate
 * that is not known. */
bool gt_own_claims_replace(const struct gt_cache *cache, const char *namespace_, const char *resource,
                           cJSON *owner);
