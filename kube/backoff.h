/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_BACKOFF_H
#define GPUTOPO_KUBE_BACKOFF_H

#include "base/backoff.h"

/* How long to wait before the next request to the API server. */
struct gt_backoff {
    unsigned failures;
};

enum { GT_BACKOFF_FIRST_MS = 200, GT_BACKOFF_MAX_MS = 30000, GT_BACKOFF_RETRY_AFTER_MAX_S = 120 };

/*
 * Counts one failure and says how long to wait: between half and all of the step, and never less than
 * `retry_after_s` (Retry-After, up to GT_BACKOFF_RETRY_AFTER_MAX_S) to which the jitter is added.
 */
uint64_t gt_backoff_next(struct gt_backoff *backoff, unsigned retry_after_s, struct gt_jitter *jitter);

#endif
