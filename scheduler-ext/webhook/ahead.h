/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/owner.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/jobs/job.h"

/* Whether a job that is being created would not fit even into the empty cluster (decide/never.h); a sentence
 * says why. `object` is its owner's object, of which `job` was made. */
bool gt_ahead_never_fits(struct gt_cache *cache, const char *resource, const cJSON *object,
                         const struct gt_owner *owner, const struct gt_job *job, struct gt_buf *text);
