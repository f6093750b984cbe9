/* SPDX-License-Identifier: Apache-2.0 */
#include <zlib.h>

#include "http/internal.h"

/* Level 1: a large answer costs the loop a few milliseconds, and a higher level saves little more. */
enum { GZIP_LEVEL = 1, GZIP_MIN = 1 << 10, GZIP_MAX = 16 << 20, GZIP_WINDOW = 15 + 16, GZIP_MEMORY = 8 };

bool gt_gzip(struct gt_buf *body)
{
    z_stream stream = {0};
    if (body->len < GZIP_MIN || body->len > GZIP_MAX ||
        deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    gt_auto_buf struct gt_buf zipped = GT_BUF(body->len);
    char *to = gt_buf_extend(&zipped, body->len);
    stream.next_in = (unsigned char *)body->data;
    stream.avail_in = (unsigned)body->len;
    stream.next_out = (unsigned char *)to;
    stream.avail_out = to ? (unsigned)body->len : 0;
    bool smaller = to && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    size_t len = body->len - stream.avail_out;
    deflateEnd(&stream);
    if (!smaller)
        return false;
    gt_buf_done(body); /* it is held until a slow client has all */
    gt_buf_add(body, zipped.data, len);
    return !body->failed;
}
