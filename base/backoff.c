/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include <sys/random.h>
#include <time.h>

void gt_jitter_seed(struct gt_jitter *jitter)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
    }
    jitter->state = seed;
}

/* splitmix64 */
static uint64_t backoff_next(struct gt_jitter *jitter)
{
    uint64_t z = jitter->state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

uint64_t gt_jitter_below(struct gt_jitter *jitter, uint64_t limit)
{
    return limit ? backoff_next(jitter) % limit : 0;
}

uint64_t gt_backoff_step(uint64_t failures, uint64_t first, uint64_t max)
{
    uint64_t step = first;
    for (uint64_t i = 0; i < failures && step < max; i++)
        step *= 2;
    return step < max ? step : max;
}

uint64_t gt_backoff_pause(uint64_t failures, uint64_t first, uint64_t max, struct gt_jitter *jitter)
{
    uint64_t step = gt_backoff_step(failures, first, max);
    return step - gt_jitter_below(jitter, step / 4);
}
