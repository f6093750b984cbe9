/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/assert.h"

enum { ERR_TEXT_MAX = 1024 };

struct gt_err {
    int code;
    char text[ERR_TEXT_MAX];
};

/* Used if there is no memory for a new error; never freed. */
static struct gt_err out_of_memory = {ENOMEM, "out of memory"};

/* A text is printed in one log line: characters from outside must not break or colour it. */
static void make_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
}

__attribute__((format(printf, 4, 0))) static int err_fail(struct gt_err **err, int errnum, int show,
                                                          const char *format, va_list args)
{
    if (errnum <= 0) /* a library that failed and left errno alone: an error is never a success */
        errnum = EIO;
    if (!err)
        return -errnum;
    GT_ASSERT(!*err);
    struct gt_err *e = malloc(sizeof(*e));
    if (!e) {
        *err = &out_of_memory;
        return -errnum;
    }
    e->code = errnum;
    e->text[0] = '\0';
    int n = vsnprintf(e->text, sizeof(e->text), format, args);
    if (show && n >= 0 && (size_t)n < sizeof(e->text)) /* strerror() has no shared buffer in glibc and musl */
        snprintf(e->text + n, sizeof(e->text) - (size_t)n, ": %s", strerror(show));
    make_one_line(e->text);
    *err = e;
    return -errnum;
}

int gt_fail(struct gt_err **err, int errnum, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int r = err_fail(err, errnum, 0, format, args);
    va_end(args);
    return r;
}

int gt_fail_sys(struct gt_err **err, int errnum, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int r = err_fail(err, errnum, errnum, format, args);
    va_end(args);
    return r;
}

int gt_wrap(struct gt_err **err, const char *format, ...)
{
    if (!err || !*err)
        return -EIO;
    struct gt_err *e = *err;
    if (e == &out_of_memory)
        return -e->code;
    char old[ERR_TEXT_MAX];
    memcpy(old, e->text, sizeof(old));
    va_list args;
    va_start(args, format);
    int n = vsnprintf(e->text, sizeof(e->text), format, args);
    va_end(args);
    if (n < 0)
        n = 0;
    if ((size_t)n < sizeof(e->text))
        snprintf(e->text + n, sizeof(e->text) - (size_t)n, ": %s", old);
    make_one_line(e->text);
    return -e->code;
}

const char *gt_err_text(const struct gt_err *err)
{
    return err ? err->text : "";
}

int gt_err_code(const struct gt_err *err)
{
    return err ? err->code : 0;
}

void gt_err_free(struct gt_err *err)
{
    if (err != &out_of_memory)
        free(err);
}

int gt_err_pass(struct gt_err **err, struct gt_err **from)
{
    int r = -gt_err_code(*from);
    if (err)
        *err = *from;
    else
        gt_err_free(*from);
    *from = NULL;
    return r;
}
