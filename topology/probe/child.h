/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PROBE_CHILD_H
#define GPUTOPO_PROBE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Starts gputopo-probe as a child that serves *ret_fd, a stream socket, and has no other descriptor of ours.
 */
int gt_child_spawn(const char *program, const char *root, bool quiet, pid_t *ret_pid, int *ret_fd,
                   struct gt_err **err);

/* Waits at most `patience_ms` for its end, then kills it. Close its connection before. */
void gt_child_end(pid_t pid, int patience_ms);

#endif
