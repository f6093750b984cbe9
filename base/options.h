/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_OPTIONS_H
#define GPUTOPO_BASE_OPTIONS_H

#include <stddef.h>

#include "base/buf.h"

/*
 * The command line of every program. One table has the options: --help prints it, and each option names the
 * reader of its value and the field of the program's struct that gets it. Errors are -EINVAL with one line
 * that names the culprit.
 */
struct gt_option;

/* Reads the value of an option, "" where none was given, into `field`. Above 0: what follows is not read. */
typedef int gt_option_reader(const struct gt_option *option, const char *value, void *field,
                             struct gt_err **err);

struct gt_option {
    const char *name;
    const char *value; /* what it is called in --help; NULL: it takes none; "=..." may be left out */
    const char *help;
    gt_option_reader *read;
    size_t at, size;          /* of the field, GT_OPTION_FIELD; without one a reader gets the struct */
    double min, max;          /* of a number */
    const char *const *words; /* one of them; ends with NULL */
    char letter;              /* "-o" is the same as "--output" */
};

#define GT_OPTION_FIELD(type, member) .at = offsetof(type, member), .size = sizeof(((type *)NULL)->member)

struct gt_command {
    const char *name;      /* "gputopo-agent" */
    const char *arguments; /* what they are called in --help; NULL: it takes none */
    const char *about;     /* --help prints it before the options */
    const char *more;      /* and this behind them; NULL: nothing */
    const struct gt_option *options;
    size_t count;
    bool has_verbs; /* the first argument ends the options */
};

/* Reads all options into `to`. *ret_first: where the first argument is in argv, which is reordered; may be
 * NULL where the command takes none. */
int gt_options_read(const struct gt_command *command, int argc, char **argv, void *to, int *ret_first,
                    struct gt_err **err);
/* Reads one. */
int gt_option_take(const struct gt_option *option, const char *value, void *to, struct gt_err **err);

/* What --help prints. */
void gt_options_help(const struct gt_command *command, struct gt_buf *to);

/* ---- the exits of main(): each returns the exit code ---- */

enum { GT_EXIT_FAILED = 1, GT_EXIT_USAGE = 2 };

/* Says on standard error what went wrong. */
int gt_exit_with(const char *program, const struct gt_err *err, int code);
/* Writes a text on standard output. */
int gt_exit_with_text(const char *program, const struct gt_buf *text);
int gt_exit_with_help(const struct gt_command *command);
int gt_exit_with_version(const char *program);

/* ---- readers ---- */

gt_option_reader gt_option_set;      /* bool: is given */
gt_option_reader gt_option_clear;    /* bool or enum: 0 where it is given */
gt_option_reader gt_option_last;     /* bool: --help and its like, nothing behind it is read */
gt_option_reader gt_option_bool;     /* "true" or "false" */
gt_option_reader gt_option_text;     /* const char *: anything but nothing, no longer than a path; kept */
gt_option_reader gt_option_any_text; /* const char *: nothing, too */
gt_option_reader gt_option_number;   /* unsigned or uint64_t from min to max */
gt_option_reader gt_option_real;     /* double from min to max */
gt_option_reader gt_option_word;     /* unsigned or enum: the place among `words` */
gt_option_reader gt_option_vendor;   /* unsigned: a PCI vendor id, hexadecimal */

extern const char *const gt_option_log_levels[], *const gt_option_log_formats[];

/* "--NAME: expected WHAT, is 'VALUE'" */
int gt_option_refuse(const struct gt_option *option, const char *what, const char *value,
                     struct gt_err **err);
int gt_option_find_word(const struct gt_option *option, const char *const *words, const char *value,
                        unsigned *ret, struct gt_err **err);

/* Whether a text of one character or more has ASCII letters, digits and those of `more` only. */
bool gt_option_is_name(const char *text, size_t len, const char *more);
/* "name" or "prefix/name", as Kubernetes has keys of labels and names of resources. */
bool gt_option_is_qualified_name(const char *text);

#endif
