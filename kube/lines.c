/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/lines.h"

#include <errno.h>
#include <string.h>

void gt_lines_reset(struct gt_lines *lines)
{
    gt_buf_done(&lines->rest);
}

static int keep(struct gt_lines *lines, const char *data, size_t len)
{
    if (len > lines->rest.max - lines->rest.len)
        return -EFBIG;
    gt_buf_add(&lines->rest, data, len);
    return lines->rest.failed ? -ENOMEM : 0;
}

int gt_lines_feed(struct gt_lines *lines, const char *data, size_t len, gt_lines_callback *callback,
                  void *arg)
{
    const char *end = data + len;
    while (data < end) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        if (!newline)
            return keep(lines, data, (size_t)(end - data));
        size_t part = (size_t)(newline - data);
        if (part > lines->rest.max)
            return -EFBIG;
        if (lines->rest.len) {
            int r = keep(lines, data, part);
            if (r < 0)
                return r;
            struct gt_buf line = lines->rest;
            lines->rest = (struct gt_buf){.max = line.max};
            bool go_on = callback(arg, line.data, line.len);
            gt_buf_done(&line);
            if (!go_on)
                return -ECANCELED;
        } else if (!callback(arg, data, part)) {
            return -ECANCELED;
        }
        data = newline + 1;
    }
    return 0;
}
