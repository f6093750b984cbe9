/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"

#include <inttypes.h>
#include <math.h>

#include "base/bits.h"
#include "base/text.h"

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
