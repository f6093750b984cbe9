/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { LINE_WIDTH = 160, INDENT = 2 };

static void print_number(double value, struct gt_buf *to)
{
    char text[64];
    if (!isfinite(value)) {
        gt_buf_puts(to, "null");
        return;
    }
    if (value == 0) /* also -0 */
        snprintf(text, sizeof(text), "0");
    else if (fabs(value) < 1e17 && value == floor(value))
        snprintf(text, sizeof(text), "%.0f", value);
    else {
        snprintf(text, sizeof(text), "%.15g", value);
        if (strtod(text, NULL) != value)
            snprintf(text, sizeof(text), "%.17g", value);
    }
    gt_buf_puts(to, text);
}

static bool is_container(const cJSON *json)
{
    return cJSON_IsArray(json) || cJSON_IsObject(json);
}

static void print_scalar(const cJSON *json, struct gt_buf *to)
{
    if (cJSON_IsString(json))
        gt_text_quote(to, json->valuestring ? json->valuestring : "");
    else if (cJSON_IsNumber(json))
        print_number(json->valuedouble, to);
    else if (cJSON_IsBool(json))
        gt_buf_puts(to, cJSON_IsTrue(json) ? "true" : "false");
    else
        gt_buf_puts(to, "null");
}

/* On one line. If an array has objects or arrays in it, or `to` is full, it ends and marks `to` as failed. */
static void print_inline(const cJSON *json, struct gt_buf *to)
{
    if (!is_container(json)) {
        print_scalar(json, to);
        return;
    }
    bool object = cJSON_IsObject(json);
    gt_buf_puts(to, !object ? "[" : json->child ? "{ " : "{");
    for (const cJSON *child = json->child; child && !to->failed; child = child->next) {
        if (object) {
            gt_text_quote(to, child->string);
            gt_buf_puts(to, ": ");
        } else if (is_container(child)) {
            to->failed = true;
            return;
        }
        print_inline(child, to);
        if (child->next)
            gt_buf_puts(to, ", ");
    }
    gt_buf_puts(to, !object ? "]" : json->child ? " }" : "}");
}

static void new_line(struct gt_buf *to, unsigned depth)
{
    gt_buf_printf(to, "\n%*s", (int)(depth * INDENT), "");
}

static bool holds_only_scalars(const cJSON *array)
{
    for (const cJSON *child = array->child; child; child = child->next)
        if (is_container(child))
            return false;
    return true;
}

/* An array of scalars that is too long for one line: as many on each line as fit. */
static void print_filled(const cJSON *array, struct gt_buf *to, unsigned depth)
{
    gt_buf_puts(to, "[");
    size_t line = 0;
    for (const cJSON *child = array->child; child && !to->failed; child = child->next) {
        gt_auto_buf struct gt_buf item = GT_BUF(to->max);
        print_scalar(child, &item);
        if (item.failed) {
            to->failed = true;
            return;
        }
        if (child == array->child || to->len - line + item.len + 2 > LINE_WIDTH) {
            new_line(to, depth + 1);
            line = to->len - (depth + 1) * INDENT;
        } else
            gt_buf_puts(to, " ");
        gt_buf_add(to, item.data, item.len);
        if (child->next)
            gt_buf_puts(to, ",");
    }
    new_line(to, depth);
    gt_buf_puts(to, "]");
}

/* `column` is the column at which the value begins. The maker of a document has limited its depth. */
static void json_print_value(const cJSON *json, struct gt_buf *to, unsigned depth, size_t column)
{
    if (!is_container(json)) {
        print_scalar(json, to);
        return;
    }
    if (column < LINE_WIDTH && (depth || !json->child)) {
        gt_auto_buf struct gt_buf line = GT_BUF(LINE_WIDTH - column);
        print_inline(json, &line);
        if (!line.failed) {
            gt_buf_add(to, line.data, line.len);
            return;
        }
    }
    bool object = cJSON_IsObject(json);
    if (!object && holds_only_scalars(json)) {
        print_filled(json, to, depth);
        return;
    }
    gt_buf_puts(to, object ? "{" : "[");
    for (const cJSON *child = json->child; child && !to->failed; child = child->next) {
        new_line(to, depth + 1);
        size_t begin = (depth + 1) * INDENT;
        if (object) {
            size_t before = to->len;
            gt_text_quote(to, child->string);
            gt_buf_puts(to, ": ");
            begin += to->len - before;
        }
        json_print_value(child, to, depth + 1, begin);
        if (child->next)
            gt_buf_puts(to, ",");
    }
    new_line(to, depth);
    gt_buf_puts(to, object ? "}" : "]");
}

void gt_json_print(const cJSON *json, struct gt_buf *to)
{
    json_print_value(json, to, 0, 0);
    gt_buf_puts(to, "\n");
}

void gt_json_indent(const struct gt_buf *text, struct gt_buf *to)
{
    gt_auto_json cJSON *json = NULL;
    if (text->failed || gt_json_parse(text->data, text->len, "JSON", &json, NULL) < 0)
        to->failed = true;
    else
        gt_json_print(json, to);
}
