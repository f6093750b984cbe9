/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"

enum { LINE_MAX_BYTES = 16384 };

static enum gt_log_level threshold = GT_LOG_INFO;
static enum gt_log_format line_format = GT_LOG_TEXT;
static const char *const level_names[] = {"error", "warning", "info", "debug"};

void gt_log_setup(enum gt_log_level level, enum gt_log_format format)
{
    threshold = level;
    line_format = format;
}

enum gt_log_level gt_log_level_of(char *last, size_t size, const char *why)
{
    bool again = strncmp(last, why, size - 1) == 0;
    snprintf(last, size, "%s", why);
    return again ? GT_LOG_DEBUG : GT_LOG_WARNING;
}

enum gt_log_level gt_log_level_of_code(int *last, int code)
{
    bool again = *last == code;
    *last = code;
    return again ? GT_LOG_DEBUG : GT_LOG_WARNING;
}

/* Whether a value can be told from what is around it without quotes. */
static bool is_plain(const char *text)
{
    return *text && !text[strcspn(text, " \"=\\")] && gt_text_is_printable(text);
}

static void log_add_value(struct gt_buf *line, const struct gt_log_field *field)
{
    const char *text = field->text ? field->text : "";
    if (field->type == GT_LOG_IS_NUMBER)
        gt_buf_printf(line, "%lld", field->number);
    else if (field->type == GT_LOG_IS_BOOL)
        gt_buf_puts(line, field->number ? "true" : "false");
    else if (line_format == GT_LOG_TEXT && is_plain(text))
        gt_buf_puts(line, text);
    else
        gt_text_quote(line, text);
}

/* Time, level and event; the fields follow. */
static void begin_line(struct gt_buf *line, enum gt_log_level level, const char *event)
{
    struct timespec now;
    char stamp[GT_TIME_TEXT_SIZE];
    clock_gettime(CLOCK_REALTIME, &now);
    gt_time_text_fine(&now, 3, stamp);
    if (line_format == GT_LOG_JSON) {
        gt_json_printf(line, "{'time': %s, 'level': %s, 'event': %s", stamp, level_names[level], event);
        return;
    }
    gt_buf_printf(line, "%s %s ", stamp, level_names[level]);
    if (gt_text_is_printable(event)) /* some have texts of others in them */
        gt_buf_puts(line, event);
    else
        gt_text_quote(line, event);
}

static void log_end_line(struct gt_buf *line)
{
    gt_buf_puts(line, line_format == GT_LOG_JSON ? "}\n" : "\n");
}

void gt_log_fields(enum gt_log_level level, const char *event, const struct gt_log_field *fields)
{
    if (level > threshold)
        return;
    gt_auto_buf struct gt_buf line = GT_BUF(LINE_MAX_BYTES);
    begin_line(&line, level, event);
    for (; fields->key; fields++) {
        if (line_format == GT_LOG_JSON)
            gt_json_key(&line, fields->key);
        else
            gt_buf_printf(&line, " %s=", fields->key);
        log_add_value(&line, fields);
    }
    log_end_line(&line);
    if (line.failed) { /* too long: only the event, which is better than nothing */
        gt_buf_done(&line);
        begin_line(&line, level, event);
        gt_buf_puts(&line, line_format == GT_LOG_JSON ? ",\"cut\":true" : " cut=true");
        log_end_line(&line);
        if (line.failed)
            return;
    }
    ssize_t n;
    do
        n = write(STDERR_FILENO, line.data, line.len);
    while (n < 0 && errno == EINTR);
}
