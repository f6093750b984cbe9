/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/*
 * The command line of every program. One table has the options: --help prints it, and each option names the
 * reader of its value and the field of the program's struct that gets the value. Errors are -EINVAL with one
 * line that names the invalid option.
 */
struct gt_option;

/* Reads the value of an option, "" if none was given, into `field`. If the result is above 0, the options
 * that follow are not read. */
typedef int gt_option_reader(const struct gt_option *option, const char *value, void *field,
                             struct gt_err **err);

struct gt_option {
    const char *name;
    const char *value; /* its name in --help; NULL: it takes no value; "=...": it may be left out */
    const char *help;  /* NULL: --help does not have it */
    gt_option_reader *read;
    size_t at, size; /* of the field, see GT_OPTION_FIELD; if both are 0, the reader gets the whole struct */
    double min, max; /* of a number */
    const char *const *words; /* one of them; ends with NULL */
    char letter;              /* "-o" is the same as "--output" */
};

#define GT_OPTION_FIELD(type, member) .at = offsetof(type, member), .size = sizeof(((type *)NULL)->member)

struct gt_command {
    const char *name;      /* "gputopo-agent" */
    const char *arguments; /* their name in --help; NULL: the command takes none */
    const char *about;     /* --help prints it before the options */
    const char *more;      /* printed after the options; NULL: nothing */
    const struct gt_option *options;
    size_t count;
    bool has_verbs; /* options end at the first argument */
};

/* Reads all options into `to`. *ret_first is the position of the first argument in argv, which is reordered;
 * ret_first may be NULL if the command takes no arguments. */
int gt_options_read(const struct gt_command *command, int argc, char **argv, void *to, int *ret_first,
                    struct gt_err **err);
/* Reads the value of one option. */
int gt_option_read_value(const struct gt_option *option, const char *value, void *to, struct gt_err **err);

/* What --help prints. */
void gt_options_help(const struct gt_command *command, struct gt_buf *to);

/* ---- the exits of main(): each returns the exit code ---- */

enum { GT_EXIT_FAILED = 1, GT_EXIT_USAGE = 2 };

/* Prints the error on standard error. */
int gt_exit_with(const char *program, const struct gt_err *err, int code);
/* Writes a text on standard output. */
int gt_exit_with_text(const char *program, const struct gt_buf *text);
int gt_exit_with_help(const struct gt_command *command);
int gt_exit_with_version(const char *program);

/* ---- readers ---- */

gt_option_reader gt_option_set;      /* bool: true if the option is given */
gt_option_reader gt_option_clear;    /* bool or enum: 0 if the option is given */
gt_option_reader gt_option_last;     /* bool: for --help and --version; nothing after it is read */
gt_option_reader gt_option_bool;     /* "true" or "false" */
gt_option_reader gt_option_text;     /* const char *: not empty, no longer than a path; borrowed */
gt_option_reader gt_option_any_text; /* const char *: may be empty */
gt_option_reader gt_option_number;   /* unsigned or uint64_t from min to max */
gt_option_reader gt_option_real;     /* double from min to max */
gt_option_reader gt_option_word;     /* unsigned or enum: the position among `words` */
gt_option_reader gt_option_vendor;   /* unsigned: a PCI vendor id, hexadecimal */

extern const char *const gt_option_log_levels[], *const gt_option_log_formats[];

/* "--NAME: expected WHAT, is 'VALUE'" */
int gt_option_refuse(const struct gt_option *option, const char *what, const char *value,
                     struct gt_err **err);
int gt_option_find_word(const struct gt_option *option, const char *const *words, const char *value,
                        unsigned *ret, struct gt_err **err);

/* Whether a text is not empty and consists of ASCII letters, digits and the characters of `more` only. */
bool gt_option_is_name(const char *text, size_t len, const char *more);
/* Whether it is "name" or "prefix/name", like keys of labels and names of resources in Kubernetes. */
bool gt_option_is_qualified_name(const char *text);
