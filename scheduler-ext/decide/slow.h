/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"

/* Says which GPUs of a job's pods, used or planned, are slow or suspect, and what would free it of them.
 * Returns a digest of which they are; 0, and nothing is said: none is, or the job says that it takes any. */
uint64_t gt_slow_job_text(struct gt_cache *cache, const struct gt_cache_job *job, struct gt_buf *to);
