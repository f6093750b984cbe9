/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_ENDING_H
#define GPUTOPO_BASE_ENDING_H

#include "base/loop.h"

/*
 * The end of the process, whatever hangs. A thread of its own waits for SIGTERM and SIGINT, tells the loop,
 * and leaves by _exit() where the process is still there `limit_ms` later: because a thread hangs that the
 * end has to wait for, or the loop itself. Of the latter the exit status is 1, since nothing was ended then.
 */
struct gt_ending;

/* Call before other threads start: they inherit the blocked signals. `callback` is called on the loop's
 * thread, once for each signal. */
int gt_ending_new(struct gt_loop *loop, unsigned limit_ms, gt_signal_callback *callback, void *arg,
                  struct gt_ending **ret, struct gt_err **err);

/* The loop has ended: from now, or from the signal before, the limit counts. `status`: the exit status where
 * it is exceeded. */
void gt_ending_begin(struct gt_ending *ending, int status);

/* The end has come in time. Before the loop is freed. */
void gt_ending_free(struct gt_ending *ending);

#endif
