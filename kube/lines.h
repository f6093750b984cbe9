/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* One line without its newline; not NUL-terminated. Returning false stops gt_lines_feed(). */
typedef bool gt_lines_callback(void *arg, const char *line, size_t len);

/* Splits a stream that comes in arbitrary pieces into lines; an incomplete line waits in a buffer with a
 * limit. */
struct gt_lines {
    struct gt_buf rest; /* its max is the longest line */
    gt_lines_callback *on_line;
    /* gets the first rest.max bytes of a longer line; the rest of it is dropped */
    gt_lines_callback *on_long;
    bool dropping; /* up to the end of a line that was too long */
};

/*
 * Calls the callback for each line that `data` completes or makes too long. 0; -ECANCELED if the callback
 * returned false, and then `lines` is not used any more (it may be freed); -ENOMEM.
 */
int gt_lines_feed(struct gt_lines *lines, const char *data, size_t len, void *arg);

/* Drops an incomplete line. */
void gt_lines_reset(struct gt_lines *lines);
