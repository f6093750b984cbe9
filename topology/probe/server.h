/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "topology/probe/prober.h"

/* Makes the socket for clients: mode 0600, or open to everyone if `open_mode`, since the peer is checked on
 * every connection. A socket on which no probe listens any more is replaced; otherwise it is an error. */
int gt_server_listen(const char *path, bool open_mode, int *ret_fd, struct gt_err **err);

struct gt_server_options {
    int listener;  /* -1 none */
    int peer;      /* an inherited connection, -1 none; the server ends with it */
    uid_t allowed; /* accepted beside the own uid and root's; (uid_t)-1 none */
};

/* Serves until the inherited connection ends, then returns 0; without one it serves for ever. */
int gt_server_run(struct gt_prober *prober, const struct gt_server_options *options, struct gt_err **err);

/* From now on this process, and all that it starts, can make unix sockets only and gain no privileges. This
 * cannot be undone. Unlike a network namespace it needs no capability. -ENOTSUP on unknown processors. */
int gt_no_network(struct gt_err **err);
