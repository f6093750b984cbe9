/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_OPTIONS_H
#define GPUTOPO_BASE_OPTIONS_H

#include "base/buf.h"
#include "base/log.h"

/* The command line of a daemon: long options by one table, which --help prints too. Errors are -EINVAL with
 * one line that names the culprit. */
struct gt_option {
    const char *name;
    const char *value; /* what it is called in --help; NULL: it takes none; "=..." may be left out */
    const char *help;
    int key; /* the caller's, from 256 up */
};

/* Appends a line for each, the help from column `width` on. */
void gt_options_help(const struct gt_option *table, size_t count, int width, struct gt_buf *to);

/* `value` is "" where none was given. */
typedef int gt_option_take(void *arg, int key, const char *name, const char *value, struct gt_err **err);

/* Hands all options of the command line to `take`, until it fails. */
int gt_options_read(const struct gt_option *table, size_t count, int argc, char **argv, gt_option_take *take,
                    void *arg, struct gt_err **err);

/* ---- the exits of main(): each returns the exit code ---- */

enum { GT_EXIT_FAILED = 1, GT_EXIT_USAGE = 2 };

/* Says on standard error what went wrong. */
int gt_exit_with(const char *program, const struct gt_err *err, int code);
/* --help: `write` makes the text. */
int gt_exit_with_help(void (*write)(struct gt_buf *to));
int gt_exit_with_version(const char *program);

/* ---- values ---- */

/* One of some words: its place among them. `expected` names them to people. */
int gt_option_word(const char *name, const char *value, const char *const *words, unsigned count,
                   const char *expected, unsigned *ret, struct gt_err **err);
/* Anything but nothing, and no longer than a path may be; the pointer is kept. */
int gt_option_text(const char *name, const char *value, const char **ret, struct gt_err **err);
int gt_option_bool(const char *name, const char *value, bool *ret, struct gt_err **err);
int gt_option_number(const char *name, const char *value, unsigned min, unsigned max, unsigned *ret,
                     struct gt_err **err);
int gt_option_log_level(const char *name, const char *value, enum gt_log_level *ret, struct gt_err **err);
int gt_option_log_format(const char *name, const char *value, enum gt_log_format *ret, struct gt_err **err);

/* Whether a text of one character or more has ASCII letters, digits and those of `more` only. */
bool gt_option_is_name(const char *text, size_t len, const char *more);
/* "name" or "prefix/name", as Kubernetes has keys of labels and names of resources. */
bool gt_option_is_qualified_name(const char *text);

#endif
