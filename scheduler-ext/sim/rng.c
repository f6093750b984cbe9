/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/trace.h"

#include <math.h>

void gt_rng_seed(struct gt_rng *rng, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        rng->state[i] = z ^ (z >> 31);
    }
}

static uint64_t rotated(uint64_t x, unsigned by)
{
    return (x << by) | (x >> (64 - by));
}

static uint64_t rng_next_of(struct gt_rng *rng)
{
    uint64_t *s = rng->state, result = rotated(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotated(s[3], 45);
    return result;
}

uint32_t gt_rng_below(struct gt_rng *rng, uint32_t limit)
{
    if (limit == 0)
        return 0;
    uint64_t reject = -(uint64_t)limit % limit; /* numbers below this would make small results more likely */
    uint64_t x;
    do
        x = rng_next_of(rng);
    while (x < reject);
    return (uint32_t)(x % limit);
}

double gt_rng_unit(struct gt_rng *rng)
{
    return (double)(rng_next_of(rng) >> 11) * 0x1p-53;
}

double gt_rng_exponential(struct gt_rng *rng, double mean)
{
    return -mean * log1p(-gt_rng_unit(rng));
}
