/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"

enum { HOLE_REAL_DIGITS = 9 };

/* A value ends with a quote, a bracket, a digit or a letter: after one of these no comma belongs. */
static bool follows_value(const struct gt_buf *to)
{
    switch (to->len ? to->data[to->len - 1] : '[') {
    case '{':
    case '[':
    case ':':
    case ',':
    case ' ':
    case '\n':
        return false;
    default:
        return true;
    }
}

void gt_json_key(struct gt_buf *to, const char *key)
{
    if (follows_value(to))
        gt_buf_puts(to, ",");
    if (key) {
        gt_text_quote(to, key);
        gt_buf_puts(to, ":");
    }
}

void gt_json_new_line(struct gt_buf *to, int indent)
{
    gt_json_key(to, NULL);
    gt_buf_printf(to, "\n%*s", indent, "");
}

void gt_json_begin(struct gt_buf *to, const char *key, char bracket)
{
    gt_json_key(to, key);
    gt_buf_add(to, &bracket, 1);
}

void gt_json_end(struct gt_buf *to, char bracket)
{
    gt_buf_add(to, &bracket, 1);
}

void gt_json_ends(struct gt_buf *to, const char *brackets)
{
    gt_buf_puts(to, brackets);
}

void gt_json_add_text(struct gt_buf *to, const char *key, const char *text)
{
    gt_json_key(to, key);
    gt_text_quote(to, text);
}

void gt_json_add_text_if(struct gt_buf *to, const char *key, const char *text)
{
    if (text && *text)
        gt_json_add_text(to, key, text);
}

void gt_json_add_text_or_null(struct gt_buf *to, const char *key, const char *text)
{
    if (text)
        gt_json_add_text(to, key, text);
    else
        gt_json_add_null(to, key);
}

void gt_json_add_int(struct gt_buf *to, const char *key, int64_t number)
{
    gt_json_key(to, key);
    gt_buf_printf(to, "%" PRId64, number);
}

void gt_json_add_unsigned(struct gt_buf *to, const char *key, uint64_t number)
{
    gt_json_key(to, key);
    gt_text_add_unsigned(to, number);
}

void gt_json_add_real(struct gt_buf *to, const char *key, double number, int digits)
{
    gt_json_key(to, key);
    if (isfinite(number))
        gt_buf_printf(to, "%.*g", digits, number);
    else
        gt_buf_puts(to, "null");
}

void gt_json_add_bool(struct gt_buf *to, const char *key, bool value)
{
    gt_json_add_raw(to, key, value ? "true" : "false");
}

void gt_json_add_null(struct gt_buf *to, const char *key)
{
    gt_json_add_raw(to, key, "null");
}

void gt_json_add_mask(struct gt_buf *to, const char *key, uint64_t mask)
{
    gt_json_begin(to, key, '[');
    for (; mask; mask &= mask - 1)
        gt_json_add_unsigned(to, NULL, gt_bit_first(mask));
    gt_json_end(to, ']');
}

void gt_json_add_raw(struct gt_buf *to, const char *key, const char *json)
{
    gt_json_key(to, key);
    gt_buf_puts(to, json);
}

/* ---- as it is shown ---- */

/* False: it is 0. */
static bool json_add_hole_number(struct gt_buf *to, char type, char size, va_list *args)
{
    if (type == 'd') {
        int64_t number = size == 'q' ? va_arg(*args, long long)
                         : size      ? va_arg(*args, long)
                                     : va_arg(*args, int);
        gt_buf_printf(to, "%" PRId64, number);
        return number;
    }
    uint64_t number = size == 'q' ? va_arg(*args, unsigned long long)
                      : size      ? va_arg(*args, unsigned long)
                                  : va_arg(*args, unsigned);
    gt_text_add_unsigned(to, number);
    return number;
}

/* Moves *format behind the hole. False: it is empty. */
static bool json_add_hole(struct gt_buf *to, const char **format, va_list *args)
{
    const char *at = *format;
    char mark = *at == '%' ? '\0' : *at++, size = '\0';
    for (at++; *at == 'l' || *at == 'z'; at++)
        size = size ? 'q' : 'l';
    *format = at + 1;
    if (*at == 's') {
        const char *text = va_arg(*args, const char *);
        text = mark == '~' && text && !*text ? NULL : text;
        if (mark == '=' || !text)
            gt_json_add_raw(to, NULL, text ? text : "null");
        else
            gt_json_add_text(to, NULL, text);
        return text && *text;
    }
    if (*at == 'g') {
        double number = va_arg(*args, double);
        gt_json_add_real(to, NULL, number, HOLE_REAL_DIGITS);
        return number > 0 || number < 0;
    }
    if (mark == '!') {
        bool value = va_arg(*args, int);
        gt_json_add_bool(to, NULL, value);
        return value;
    }
    gt_json_key(to, NULL);
    gt_buf_puts(to, mark == '$' ? "\"" : "");
    bool filled = json_add_hole_number(to, *at, size, args);
    gt_buf_puts(to, mark == '$' ? "\"" : "");
    return filled;
}

void gt_json_printf(struct gt_buf *to, const char *format, ...)
{
    size_t begin = SIZE_MAX, len = 1; /* begin: of the member that may be left out */
    va_list args;
    va_start(args, format);
    for (; *format; format += len) {
        len = 1;
        if (*format == '?') {
            begin = to->len;
        } else if (strchr("}]:", *format)) {
            gt_buf_add(to, format, 1);
        } else if (strchr("%=!$~", *format)) {
            bool filled = json_add_hole(to, &format, &args);
            len = 0;
            if (*format == ':')
                continue;
            if (!filled && begin != SIZE_MAX)
                gt_buf_truncate(to, begin);
            begin = SIZE_MAX;
        } else if (*format == '\'') {
            len = strcspn(format + 1, "'") + 2;
            gt_json_key(to, NULL);
            gt_buf_puts(to, "\"");
            gt_buf_add(to, format + 1, len - 2);
            gt_buf_puts(to, "\"");
        } else if (!strchr(" ,", *format)) {
            len = strchr("{[", *format) ? 1 : strcspn(format, " ,}]");
            gt_json_key(to, NULL);
            gt_buf_add(to, format, len);
        }
    }
    va_end(args);
}
