/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch.h"

#include <errno.h>
#include <string.h>

void gt_lines_reset(struct gt_lines *lines)
{
    gt_buf_done(&lines->rest);
    lines->dropping = false;
}

/* A line that is whole, or as much of it as may be. False where the callback stops the feeding. */
static bool hand_on(struct gt_lines *lines, const char *data, size_t len, gt_lines_callback *callback,
                    void *arg)
{
    if (!lines->rest.len)
        return callback(arg, data, len);
    struct gt_buf line = lines->rest;
    lines->rest = (struct gt_buf){.max = line.max};
    bool go_on = callback(arg, line.data, line.len);
    gt_buf_done(&line);
    return go_on;
}

int gt_lines_feed(struct gt_lines *lines, const char *data, size_t len, void *arg)
{
    const char *end = data + len;
    while (data < end) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        size_t part = (size_t)((newline ? newline : end) - data);
        size_t room = lines->rest.max - lines->rest.len;
        bool too_long = !lines->dropping && part > room;
        size_t kept = too_long ? room : part;
        if (!lines->dropping && (lines->rest.len || (!newline && !too_long))) {
            gt_buf_add(&lines->rest, data, kept);
            if (lines->rest.failed)
                return -ENOMEM;
        }
        if (too_long) {
            lines->dropping = !newline;
            if (!hand_on(lines, data, kept, lines->on_long, arg))
                return -ECANCELED;
        } else if (lines->dropping) {
            lines->dropping = !newline;
        } else if (newline && !hand_on(lines, data, kept, lines->on_line, arg)) {
            return -ECANCELED;
        }
        data += part + (newline != NULL);
    }
    return 0;
}
