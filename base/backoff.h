/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_BACKOFF_H
#define GPUTOPO_BASE_BACKOFF_H

#include <stdint.h>

/* A small random source, so that a thousand daemons do not knock at one time. */
struct gt_jitter {
    uint64_t state;
};

/* Seeds from the kernel. */
void gt_jitter_seed(struct gt_jitter *jitter);

/* A number from 0 to limit - 1; 0 for limit 0. */
uint64_t gt_jitter_below(struct gt_jitter *jitter, uint64_t limit);

/* Exponential back-off: `first`, doubled for each of the `failures` that came before, `max` at most. */
uint64_t gt_backoff_step(uint64_t failures, uint64_t first, uint64_t max);

/* The same, less up to a quarter of it at random. */
uint64_t gt_backoff_pause(uint64_t failures, uint64_t first, uint64_t max, struct gt_jitter *jitter);

#endif
