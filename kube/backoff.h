/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_BACKOFF_H
#define GPUTOPO_KUBE_BACKOFF_H

#include <stdint.h>

/* A small random source, so that a thousand agents do not knock at one time. */
struct gt_jitter {
    uint64_t state;
};

/* Seeds from the kernel. */
void gt_jitter_seed(struct gt_jitter *jitter);

/* A number from 0 to limit - 1; 0 for limit 0. */
uint64_t gt_jitter_below(struct gt_jitter *jitter, uint64_t limit);

/* An exponential back-off: 0.2 s, doubled at each failure, 30 s at most; 0 failures: nothing. */
struct gt_backoff {
    unsigned failures;
};

enum { GT_BACKOFF_FIRST_MS = 200, GT_BACKOFF_MAX_MS = 30000, GT_BACKOFF_ASKED_MAX_S = 120 };

/*
 * Counts one failure and says how long to wait: between half and all of the step, and never less than
 * `asked_s` (Retry-After, believed up to GT_BACKOFF_ASKED_MAX_S) to which the jitter is added.
 */
uint64_t gt_backoff_next(struct gt_backoff *backoff, unsigned asked_s, struct gt_jitter *jitter);

#endif
