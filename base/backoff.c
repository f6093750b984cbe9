/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include <sys/random.h>
#include <time.h>

#include "base/assert.h"

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
static uint64_t backoff_random(struct gt_jitter *jitter)
{
    uint64_t z = jitter->state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

uint64_t gt_jitter_below(struct gt_jitter *jitter, uint64_t limit)
{
    return limit ? backoff_random(jitter) % limit : 0;
}

uint64_t gt_backoff_step(uint64_t failures, uint64_t first, uint64_t max)
{
    GT_ASSERT(first); /* else it would be asked again without a pause */
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

uint64_t gt_backoff_wait(uint64_t failures, uint64_t first_ms, uint64_t max_ms, unsigned retry_after_s,
                         struct gt_jitter *jitter)
{
    uint64_t step = gt_backoff_step(failures, first_ms, max_ms);
    uint64_t retry_after =
        (retry_after_s < GT_BACKOFF_RETRY_AFTER_MAX_S ? retry_after_s : GT_BACKOFF_RETRY_AFTER_MAX_S) *
        UINT64_C(1000);
    uint64_t wait = step / 2 + gt_jitter_below(jitter, step / 2 + 1);
    uint64_t spread = step > retry_after / 2 ? step : retry_after / 2;
    return retry_after > wait ? retry_after + gt_jitter_below(jitter, spread) : wait;
}

uint64_t gt_backoff_next(struct gt_backoff *backoff, unsigned retry_after_s, struct gt_jitter *jitter)
{
    return gt_backoff_wait(backoff->failures++, GT_BACKOFF_FIRST_MS, GT_BACKOFF_MAX_MS, retry_after_s,
                           jitter);
}
