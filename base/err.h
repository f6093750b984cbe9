/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>

#include "base/cleanup.h"

/*
 * One error object. It is made at the call that failed and passed upward; each caller may put its own context
 * in front. The caller that handles the error prints it, once. Library code never prints.
 *
 *     int thing_read(const char *path, struct gt_err **err);    // 0 or more: done; negative: *err is set
 *
 * A function that takes `struct gt_err **err` returns the negative errno-like code that the object holds. On
 * success *err is untouched. `err` may be NULL if the caller does not want the text. Out-parameters are
 * written on success only.
 */
struct gt_err;

/* Makes an error with code `errnum` (positive errno value; 0 counts as EIO) and the given text; returns
 * -errnum. Must not be called on an *err that is already set. */
int gt_fail(struct gt_err **err, int errnum, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same, followed by ": " and the text of `errnum`: for a system call that just failed. */
int gt_fail_sys(struct gt_err **err, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " in front of the text of *err and returns its code; -EIO where err or *err is NULL. */
int gt_wrap(struct gt_err **err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text, one line without control characters; "" for NULL. Valid until the error is freed or wrapped. */
const char *gt_err_text(const struct gt_err *err);

/* The positive errno-like code; 0 for NULL. */
int gt_err_code(const struct gt_err *err);

void gt_err_free(struct gt_err *err);

/* Gives the error `from`, which is set, to the caller as its own; returns the code. */
int gt_err_pass(struct gt_err **err, struct gt_err **from);

GT_DEFINE_CLEANUP(struct gt_err *, gt_err_free)
#define gt_auto_err GT_CLEANUP(gt_err_free)

/* Returns what the call returned from this function if that is negative. */
#define GT_TRY(call)                                                                                         \
    do {                                                                                                     \
        int tried_ = (call);                                                                                 \
        if (tried_ < 0)                                                                                      \
            return tried_;                                                                                   \
    } while (0)

/* The same, and the text of the error begins with the rest (gt_wrap()). */
#define GT_TRY_WRAP(call, err, ...)                                                                          \
    do {                                                                                                     \
        int tried_ = (call);                                                                                 \
        if (tried_ < 0) {                                                                                    \
            gt_wrap((err), __VA_ARGS__);                                                                     \
            return tried_;                                                                                   \
        }                                                                                                    \
    } while (0)

/* Returns -ENOMEM from this function where something was not to be had for want of memory; the rest names
 * what. */
#define GT_NEED(made, err, ...)                                                                              \
    do {                                                                                                     \
        if (!(made))                                                                                         \
            return gt_fail_sys(err, ENOMEM, __VA_ARGS__);                                                    \
    } while (0)
