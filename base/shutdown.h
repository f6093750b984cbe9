/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_SHUTDOWN_H
#define GPUTOPO_BASE_SHUTDOWN_H

#include "base/loop.h"

/*
 * Ends the process on a signal, whatever hangs. A thread waits for SIGTERM and SIGINT, passes them to the
 * loop, and calls _exit() if the process is still there `limit_ms` later: because a thread hangs, or the loop
 * itself. Then the exit status is 1 if the loop hangs, since nothing was shut down.
 */
struct gt_shutdown;

/* Call before other threads start: they inherit the blocked signals. `callback` is called on the loop's
 * thread, once for each signal. */
int gt_shutdown_new(struct gt_loop *loop, unsigned limit_ms, gt_signal_callback *callback, void *arg,
                    struct gt_shutdown **ret, struct gt_err **err);

/* The loop has ended: the limit counts from now, or from an earlier signal. `status`: the exit status where
 * it is exceeded. */
void gt_shutdown_begin(struct gt_shutdown *shutdown, int status);

/* The process ends in time. Call before the loop is freed. */
void gt_shutdown_free(struct gt_shutdown *shutdown);

#endif
