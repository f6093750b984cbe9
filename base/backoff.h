/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* A small random source, so that a thousand daemons do not send requests at the same moment. */
struct gt_jitter {
    uint64_t state;
};

/* Seeds it from the kernel's random numbers. */
void gt_jitter_seed(struct gt_jitter *jitter);

/* A number from 0 to limit - 1; 0 for limit 0. */
uint64_t gt_jitter_below(struct gt_jitter *jitter, uint64_t limit);

/* Exponential back-off: `first`, doubled for each of the `failures` so far, at most `max`; all in one unit.
 */
uint64_t gt_backoff_step(uint64_t failures, uint64_t first, uint64_t max);

/* The same, shortened at random by up to a quarter. */
uint64_t gt_backoff_pause(uint64_t failures, uint64_t first, uint64_t max, struct gt_jitter *jitter);

/* A random time between half of the step and the step, in milliseconds. With `retry_after_s` (Retry-After of
 * an HTTP server, at most GT_BACKOFF_RETRY_AFTER_MAX_S) it is at least that, plus jitter of up to half of
 * it. */
uint64_t gt_backoff_wait(uint64_t failures, uint64_t first_ms, uint64_t max_ms, unsigned retry_after_s,
                         struct gt_jitter *jitter);

/* The same for requests to the API server that are only read or repeated: counts one failure. */
struct gt_backoff {
    unsigned failures;
};
enum { GT_BACKOFF_FIRST_MS = 200, GT_BACKOFF_MAX_MS = 30000, GT_BACKOFF_RETRY_AFTER_MAX_S = 120 };
uint64_t gt_backoff_next(struct gt_backoff *backoff, unsigned retry_after_s, struct gt_jitter *jitter);
