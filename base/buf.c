/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"

static bool buf_reserve(struct gt_buf *buf, size_t more)
{
    GT_ASSERT(buf->len <= buf->max && (!buf->data || buf->data[buf->len] == '\0'));
    if (buf->failed)
        return false;
    if (more > buf->max - buf->len) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->len + more + 1;
    if (need <= buf->capacity)
        return true;
    size_t capacity = buf->capacity ? buf->capacity : 256;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(buf->data, capacity);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

char *gt_buf_extend(struct gt_buf *buf, size_t len)
{
    if (!buf_reserve(buf, len))
        return NULL;
    char *begin = buf->data + buf->len;
    buf->len += len;
    buf->data[buf->len] = '\0';
    return begin;
}

void gt_buf_add(struct gt_buf *buf, const void *bytes, size_t len)
{
    GT_ASSERT(bytes || !len);
    char *to = gt_buf_extend(buf, len);
    if (to && len)
        memcpy(to, bytes, len);
}

void gt_buf_puts(struct gt_buf *buf, const char *text)
{
    gt_buf_add(buf, text, strlen(text));
}

void gt_buf_vprintf(struct gt_buf *buf, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n < 0)
        buf->failed = true;
    else if (buf_reserve(buf, (size_t)n)) {
        vsnprintf(buf->data + buf->len, (size_t)n + 1, format, again);
        buf->len += (size_t)n;
    }
    va_end(again);
}

void gt_buf_printf(struct gt_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gt_buf_vprintf(buf, format, args);
    va_end(args);
}

void gt_buf_truncate(struct gt_buf *buf, size_t len)
{
    GT_ASSERT(len <= buf->len);
    buf->len = len;
    if (buf->data)
        buf->data[len] = '\0';
}

void gt_buf_consume(struct gt_buf *buf, size_t n)
{
    if (n > buf->len)
        n = buf->len;
    if (!n)
        return;
    memmove(buf->data, buf->data + n, buf->len - n + 1);
    buf->len -= n;
}

int gt_buf_check(const struct gt_buf *buf, const char *what, struct gt_err **err)
{
    if (buf->failed)
        return gt_fail(err, ENOBUFS, "%s: larger than the limit of %zu bytes, or no memory", what, buf->max);
    return 0;
}

char *gt_buf_take(struct gt_buf *buf)
{
    gt_buf_add(buf, "", 0);
    if (buf->failed)
        return NULL;
    char *data = buf->data;
    *buf = (struct gt_buf){.max = buf->max};
    return data;
}

void gt_buf_done(struct gt_buf *buf)
{
    free(buf->data);
    *buf = (struct gt_buf){.max = buf->max};
}
