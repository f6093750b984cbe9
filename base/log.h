/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Structured log lines of the daemons, on stderr, one line for each event. Only programs log (agent, probe,
 * scheduler); a library returns an error instead.
 *
 *     gt_info("registered", GT_STR("resource", name), GT_INT("gpus", 8));
 *     -> 2026-01-31T12:00:00.123Z info registered resource=metax-tech.com/gpu gpus=8
 *
 * Values and events may have any bytes: control characters are escaped as in JSON, bytes that are not UTF-8
 * become U+FFFD, so that a line is one line of text in both formats.
 *
 * Safe to call from several threads; each line is written by one write(). If the fields of an event exceed 16
 * KiB, only its name is written, with cut=true.
 */
enum gt_log_level { GT_LOG_ERROR, GT_LOG_WARNING, GT_LOG_INFO, GT_LOG_DEBUG };
enum gt_log_format { GT_LOG_TEXT, GT_LOG_JSON };

struct gt_log_field {
    const char *key; /* NULL ends a list */
    const char *text;
    long long number;
    enum { GT_LOG_IS_TEXT, GT_LOG_IS_NUMBER, GT_LOG_IS_BOOL } type;
};

#define GT_STR(key, value)  ((struct gt_log_field){(key), (value), 0, GT_LOG_IS_TEXT})
#define GT_INT(key, value)  ((struct gt_log_field){(key), NULL, (long long)(value), GT_LOG_IS_NUMBER})
#define GT_BOOL(key, value) ((struct gt_log_field){(key), NULL, !!(value), GT_LOG_IS_BOOL})

/* Called once at start, before threads; the default is info and text. */
void gt_log_setup(enum gt_log_level level, enum gt_log_format format);

/* A warning, or for debugging where `why` is the text in `last`, of the last time; keeps it there. */
enum gt_log_level gt_log_level_of(char *last, size_t size, const char *why);
/* The same for the code of an error. */
enum gt_log_level gt_log_level_of_code(int *last, int code);

void gt_log_fields(enum gt_log_level level, const char *event, const struct gt_log_field *fields);

/* The empty first field takes the comma: __VA_OPT__ is not known to every tool yet. */
#define gt_log(level, event, ...)                                                                            \
    gt_log_fields((level), (event), (const struct gt_log_field[]){{0}, ##__VA_ARGS__, {0}} + 1)
#define gt_error(event, ...)   gt_log(GT_LOG_ERROR, event, ##__VA_ARGS__)
#define gt_warning(event, ...) gt_log(GT_LOG_WARNING, event, ##__VA_ARGS__)
#define gt_info(event, ...)    gt_log(GT_LOG_INFO, event, ##__VA_ARGS__)
#define gt_debug(event, ...)   gt_log(GT_LOG_DEBUG, event, ##__VA_ARGS__)
