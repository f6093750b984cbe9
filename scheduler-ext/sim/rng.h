/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SIM_RNG_H
#define GPUTOPO_SIM_RNG_H

#include <stdint.h>

/* A small generator of random numbers (xoshiro256**, seeded by splitmix64): the same seed gives the same
 * numbers on every machine. */
struct gt_rng {
    uint64_t state[4];
};

void gt_rng_seed(struct gt_rng *rng, uint64_t seed);
uint32_t gt_rng_below(struct gt_rng *rng, uint32_t limit); /* 0 to limit - 1, unbiased; 0 for limit 0 */
double gt_rng_unit(struct gt_rng *rng);                    /* in [0, 1) */
double gt_rng_exponential(struct gt_rng *rng, double mean);

#endif
