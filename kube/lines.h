/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_LINES_H
#define GPUTOPO_KUBE_LINES_H

#include <stdbool.h>

#include "base/buf.h"

/* Cuts a stream that comes in arbitrary chunks into lines; what is not whole yet waits in a bounded buffer.
 */
struct gt_lines {
    struct gt_buf rest; /* its max is the longest line */
};

/* One line without its newline; not NUL-terminated. False stops the feeding. */
typedef bool gt_lines_callback(void *arg, const char *line, size_t len);

/*
 * Calls back for each line that `data` completes. 0; -EFBIG where a line is longer than rest.max;
 * -ECANCELED where the callback said so, and then `lines` is not touched any more (it may be gone); -ENOMEM.
 */
int gt_lines_feed(struct gt_lines *lines, const char *data, size_t len, gt_lines_callback *callback,
                  void *arg);

/* Forgets what waits. */
void gt_lines_reset(struct gt_lines *lines);

#endif
