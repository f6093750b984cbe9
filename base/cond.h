/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_COND_H
#define GPUTOPO_BASE_COND_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Condition variables that wait by the clock of gt_clock_ns(), which nobody can set. */

static inline void gt_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Call with the lock held, as pthread_cond_timedwait(): ETIMEDOUT when that time has come. */
static inline int gt_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    return pthread_cond_timedwait(cond, lock, &until);
}

#endif
