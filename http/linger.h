/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_HTTP_LINGER_H
#define GPUTOPO_HTTP_LINGER_H

#include "base/loop.h"

/*
 * A connection that is closed while its peer still sends is reset by the kernel, and the peer may lose the
 * answer that was on its way. What is put here is read over for a moment instead.
 */
struct gt_linger;

int gt_linger_new(struct gt_loop *loop, struct gt_linger **ret, struct gt_err **err);
/* Keeps a duplicate of the socket until the peer ends, at most two seconds; no more than 32 at a time. */
void gt_linger_add(struct gt_linger *linger, int fd);
void gt_linger_free(struct gt_linger *linger);

#endif
