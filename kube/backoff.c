/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/backoff.h"

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
static uint64_t next(struct gt_jitter *jitter)
{
    uint64_t z = jitter->state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

uint64_t gt_jitter_below(struct gt_jitter *jitter, uint64_t limit)
{
    return limit ? next(jitter) % limit : 0;
}

uint64_t gt_backoff_next(struct gt_backoff *backoff, unsigned asked_s, struct gt_jitter *jitter)
{
    uint64_t step = GT_BACKOFF_FIRST_MS;
    for (unsigned i = 0; i < backoff->failures && step < GT_BACKOFF_MAX_MS; i++)
        step *= 2;
    if (step > GT_BACKOFF_MAX_MS)
        step = GT_BACKOFF_MAX_MS;
    if (backoff->failures < 1000)
        backoff->failures++;
    uint64_t asked = (asked_s < GT_BACKOFF_ASKED_MAX_S ? asked_s : GT_BACKOFF_ASKED_MAX_S) * UINT64_C(1000);
    uint64_t wait = step / 2 + gt_jitter_below(jitter, step / 2 + 1);
    return asked ? asked + gt_jitter_below(jitter, step) : wait;
}
