/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_HTTP_LINGER_H
#define GPUTOPO_HTTP_LINGER_H

#include "base/loop.h"

/*
 * If a connection is closed while its peer still sends, the kernel resets it, and the peer may lose the
 * answer that is on its way. For a socket that is added here, incoming data is read and discarded for a
 * moment instead.
 */
struct gt_linger;

int gt_linger_new(struct gt_loop *loop, struct gt_linger **ret, struct gt_err **err);
/* Keeps a duplicate of the socket until the peer closes it, at most two seconds; at most 32 sockets at a
 * time, further ones are not kept. */
void gt_linger_add(struct gt_linger *linger, int fd);
void gt_linger_free(struct gt_linger *linger);

#endif
