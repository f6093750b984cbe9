/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct gt_err;

/*
 * A growing byte buffer with a limit. If an addition exceeds the limit, or there is no memory, the buffer is
 * marked as failed and does not change any more; the writer checks once, at the end. `data` is always
 * NUL-terminated after `len` bytes, or NULL while nothing was added.
 */
struct gt_buf {
    char *data;
    size_t len;
    size_t capacity;
    size_t max; /* the most bytes it may hold, without the NUL */
    bool failed;
};

#define GT_BUF(limit)                                                                                        \
    {                                                                                                        \
        .max = (limit)                                                                                       \
    }

void gt_buf_add(struct gt_buf *buf, const void *bytes, size_t len);
void gt_buf_puts(struct gt_buf *buf, const char *text);
/* Adds `len` bytes, which the caller then writes; returns where they begin. NULL if they do not fit. */
char *gt_buf_extend(struct gt_buf *buf, size_t len);
void gt_buf_printf(struct gt_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gt_buf_vprintf(struct gt_buf *buf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Leaves the first `len` bytes. */
void gt_buf_truncate(struct gt_buf *buf, size_t len);
/* Removes the first n bytes. */
void gt_buf_consume(struct gt_buf *buf, size_t n);

/* 0, or -ENOBUFS with an error that names `what` if the buffer has failed. */
int gt_buf_check(const struct gt_buf *buf, const char *what, struct gt_err **err);

/* Gives the data to the caller (free() it) and empties the buffer. If nothing was added, the result is an
 * allocated ""; NULL if the buffer has failed. */
char *gt_buf_take(struct gt_buf *buf);

void gt_buf_done(struct gt_buf *buf);
#define gt_auto_buf __attribute__((cleanup(gt_buf_done)))
