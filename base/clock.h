/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Time that only goes forward (CLOCK_MONOTONIC): for deadlines and durations. */
static inline uint64_t gt_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t gt_clock_ms(void)
{
    return gt_clock_ns() / 1000000;
}

/* What this thread has spent: unlike a duration it does not grow while others have the processor. */
static inline uint64_t gt_clock_thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The time of day (CLOCK_REALTIME), in ms since 1970: for times that others read. */
static inline uint64_t gt_clock_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Signed, for the time left until a deadline, which may be negative. */
static inline int64_t gt_clock_signed_ms(void)
{
    return (int64_t)gt_clock_ms();
}

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
