/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/backoff.h"

/* Computes how long to wait before the next request to the API server. */
struct gt_backoff {
    unsigned failures;
};

enum { GT_BACKOFF_FIRST_MS = 200, GT_BACKOFF_MAX_MS = 30000, GT_BACKOFF_RETRY_AFTER_MAX_S = 120 };

/*
 * Counts one failure and returns the milliseconds to wait: a random time between half of the step and the
 * step. With `retry_after_s` (Retry-After, at most GT_BACKOFF_RETRY_AFTER_MAX_S) it is at least that, plus
 * jitter.
 */
uint64_t gt_backoff_next(struct gt_backoff *backoff, unsigned retry_after_s, struct gt_jitter *jitter);
