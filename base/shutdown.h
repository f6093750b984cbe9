/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

/*
 * Ends the process on a signal, even if a thread hangs. A thread waits for SIGTERM and SIGINT, passes them to
 * the loop, and calls _exit() if the process still runs `limit_ms` later because the loop or another thread
 * hangs. The exit status is 1 if the loop hangs, since nothing was shut down.
 */
struct gt_shutdown;

typedef void gt_signal_callback(void *arg, int signal);

/* Call before other threads start: they inherit the blocked signals. `callback` is called on the loop's
 * thread, once for each signal. */
int gt_shutdown_new(struct gt_loop *loop, unsigned limit_ms, gt_signal_callback *callback, void *arg,
                    struct gt_shutdown **ret, struct gt_err **err);

/* Call when the loop has ended: the limit counts from now, or from an earlier signal. `status` is the exit
 * status if the limit is exceeded. */
void gt_shutdown_begin(struct gt_shutdown *shutdown, int status);

/* Ends the thread: the process ends in time by itself. Call before the loop is freed. */
void gt_shutdown_free(struct gt_shutdown *shutdown);
