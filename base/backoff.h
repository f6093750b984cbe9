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
