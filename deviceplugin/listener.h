/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

/*
 * A listening unix socket. gRPC's own listener stops for ever after one failed accept, and at its end removes
 * the path even if a newer process owns it; this one does neither. Only root and our own user may connect, at
 * most GT_CONNECTIONS_MAX at a time; without free descriptors it waits and tries again.
 */
struct gt_listener;

enum { GT_CONNECTIONS_MAX = 16 };

/* A connection was accepted: `fd` belongs to the callee. On the loop's thread. */
typedef void gt_accepted(void *arg, int fd);

/* `path`: at most 107 bytes, must not exist. */
int gt_listener_new(struct gt_loop *loop, const char *path, gt_accepted *accepted, void *arg,
                    struct gt_listener **ret, struct gt_err **err);

/* Renames the socket within its directory: programs that watch for the new name can then connect at once. */
int gt_listener_rename(struct gt_listener *listener, const char *path, struct gt_err **err);

/* Whether the socket at the path is still this listener's. */
bool gt_listener_in_place(const struct gt_listener *listener);

/* Removes the socket if the path is still ours. Accepted connections stay open. */
void gt_listener_free(struct gt_listener *listener);
GT_DEFINE_CLEANUP(struct gt_listener *, gt_listener_free)

/* Connects to a unix socket without waiting; a descriptor, or a negative error that names the path. */
int gt_unix_connect(const char *path, struct gt_err **err);

/* Removes sockets in the directory whose names begin and end so, if nobody listens on them any more; not all
 * of very many. */
void gt_listener_sweep(const char *directory, const char *begin, const char *end);
