/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The event loop of a daemon: one thread. Callbacks of descriptors and timers run on that thread. Other
 * threads reach it through base/mailbox.h.
 */
struct gt_loop;
struct gt_source;

typedef void gt_fd_callback(void *arg, uint32_t events);
typedef void gt_timer_callback(void *arg);

int gt_loop_new(struct gt_loop **ret, struct gt_err **err);

/* Frees the loop and every source still in it. */
void gt_loop_free(struct gt_loop *loop);
GT_DEFINE_CLEANUP(struct gt_loop *, gt_loop_free)
#define gt_auto_loop GT_CLEANUP(gt_loop_free)

/* Watches `fd` (not owned: the caller closes it, after gt_source_free) for POLLIN, POLLOUT... */
int gt_loop_add_fd(struct gt_loop *loop, int fd, uint32_t events, gt_fd_callback *callback, void *arg,
                   struct gt_source **ret, struct gt_err **err);

/* A timer, not armed yet. */
int gt_loop_add_timer(struct gt_loop *loop, gt_timer_callback *callback, void *arg, struct gt_source **ret,
                      struct gt_err **err);

/* Runs the timer once, `milliseconds` from now (at least 1); this replaces an earlier time. */
void gt_source_arm(struct gt_source *source, uint64_t milliseconds);
void gt_source_disarm(struct gt_source *source);

/* Removes and frees a source; safe within any callback, also its own. NULL is allowed. */
void gt_source_free(struct gt_source *source);

/* Runs until gt_loop_stop(), which may be called even before; returns the `result` given there, or a negative
 * error. */
int gt_loop_run(struct gt_loop *loop, struct gt_err **err);
void gt_loop_stop(struct gt_loop *loop, int result);
