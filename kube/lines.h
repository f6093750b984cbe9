/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_LINES_H
#define GPUTOPO_KUBE_LINES_H

#include <stdbool.h>

#include "base/buf.h"

/* One line without its newline; not NUL-terminated. False stops the feeding. */
typedef bool gt_lines_callback(void *arg, const char *line, size_t len);

/* Cuts a stream that comes in arbitrary chunks into lines; what is not whole yet waits in a bounded buffer.
 */
struct gt_lines {
    struct gt_buf rest; /* its max is the longest line */
    gt_lines_callback *on_line;
    gt_lines_callback *on_long; /* the first rest.max bytes of a longer line; what follows of it is dropped */
    bool dropping;              /* up to the end of a line that was too long */
};

/*
 * Calls back for each line that `data` completes, or makes too long. 0; -ECANCELED where the callback said
 * so, and then `lines` is not touched any more (it may be gone); -ENOMEM.
 */
int gt_lines_feed(struct gt_lines *lines, const char *data, size_t len, void *arg);

/* Forgets what waits. */
void gt_lines_reset(struct gt_lines *lines);

#endif
