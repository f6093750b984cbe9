/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/text.h"
/*
 * cJSON accepts invalid texts (raw control characters, "01", 1e999, bytes that are not UTF-8), and its errors
 * name no line. So the text is first checked by RFC 8259, with limits; cJSON then only builds the tree.
 */
enum {
    DEPTH_MAX = 64,
    NUMBER_MAX = 40, /* characters; cJSON cuts at 63 */
};

struct scanner {
    const char *start, *p, *end;
    const char *source;
    unsigned depth;
    unsigned values, values_max;
    /* For gt_json_line(): what is left of the path at the value that comes next, NULL where it does not lead
     * there; and the last value on it. */
    const char *want, *found;
    struct gt_err **err;
};

__attribute__((format(printf, 3, 4))) static int fail_at(struct scanner *scanner, const char *where,
                                                         const char *format, ...)
{
    unsigned line = 1, column = 1;
    for (const char *q = scanner->start; q < where; q++) {
        if (*q == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*q & 0xc0) != 0x80) /* a character, not a byte */
            column++;
    }
    char text[160];
    GT_TEXT_OF_ARGS(text, format);
    return gt_fail(scanner->err, EINVAL, "%s: line %u, column %u: %s", scanner->source, line, column, text);
}

/* "expected what, found ..." */
static int fail_expected(struct scanner *scanner, const char *what)
{
    if (scanner->p >= scanner->end)
        return fail_at(scanner, scanner->p, "expected %s, found the end of the text", what);
    unsigned char c = (unsigned char)*scanner->p;
    if (c < 0x20 || c >= 0x7f)
        return fail_at(scanner, scanner->p, "expected %s, found byte 0x%02x", what, c);
    return fail_at(scanner, scanner->p, "expected %s, found '%c'", what, c);
}

static void json_parse_skip_space(struct scanner *scanner)
{
    while (scanner->p < scanner->end &&
           (*scanner->p == ' ' || *scanner->p == '\t' || *scanner->p == '\n' || *scanner->p == '\r'))
        scanner->p++;
}

static bool json_parse_take(struct scanner *scanner, char c)
{
    if (scanner->p >= scanner->end || *scanner->p != c)
        return false;
    scanner->p++;
    return true;
}

/* Four hex digits behind "\u". */
static bool take_unit(struct scanner *scanner, unsigned *ret)
{
    unsigned value = 0;
    if (scanner->end - scanner->p < 4)
        return false;
    for (unsigned i = 0; i < 4; i++, scanner->p++) {
        char c = *scanner->p;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit > 15)
            return false;
        value = value << 4 | digit;
    }
    *ret = value;
    return true;
}

static int scan_escape(struct scanner *scanner)
{
    const char *where = scanner->p - 1;
    char c = scanner->p < scanner->end ? *scanner->p++ : '\0';
    if (c && strchr("\"\\/bfnrt", c))
        return 0;
    unsigned unit, low;
    if (c != 'u' || !take_unit(scanner, &unit))
        return fail_at(scanner, where, "bad escape in a string");
    if (unit == 0)
        return fail_at(scanner, where, "a string holds the character U+0000");
    if (unit >= 0xd800 && unit <= 0xdbff &&
        !(json_parse_take(scanner, '\\') && json_parse_take(scanner, 'u') && take_unit(scanner, &low) &&
          low >= 0xdc00 && low <= 0xdfff))
        return fail_at(scanner, where, "half a surrogate pair in a string");
    if (unit >= 0xdc00 && unit <= 0xdfff)
        return fail_at(scanner, where, "half a surrogate pair in a string");
    return 0;
}

static int scan_string(struct scanner *scanner)
{
    const char *where = scanner->p;
    scanner->p++;
    for (;;) {
        if (scanner->p >= scanner->end)
            return fail_at(scanner, where, "a string that begins here does not end");
        unsigned char c = (unsigned char)*scanner->p;
        if (c == '"') {
            scanner->p++;
            return 0;
        }
        if (c < 0x20)
            return fail_at(scanner, scanner->p, "control character 0x%02x in a string", c);
        if (c == '\\') {
            scanner->p++;
            GT_TRY(scan_escape(scanner));
            continue;
        }
        /* The text is NUL-terminated, so that an incomplete sequence at its end is found. */
        unsigned n = c < 0x80 ? 1 : gt_text_utf8_length(scanner->p);
        if (!n)
            return fail_at(scanner, scanner->p, "byte 0x%02x in a string is no UTF-8", c);
        scanner->p += n;
    }
}

static bool take_digits(struct scanner *scanner)
{
    const char *before = scanner->p;
    while (scanner->p < scanner->end && *scanner->p >= '0' && *scanner->p <= '9')
        scanner->p++;
    return scanner->p > before;
}

static int scan_number(struct scanner *scanner)
{
    const char *where = scanner->p;
    json_parse_take(scanner, '-');
    if (!json_parse_take(scanner, '0') && !take_digits(scanner))
        return fail_expected(scanner, "a digit");
    if (json_parse_take(scanner, '.') && !take_digits(scanner))
        return fail_expected(scanner, "a digit");
    if (json_parse_take(scanner, 'e') || json_parse_take(scanner, 'E')) {
        if (!json_parse_take(scanner, '+'))
            json_parse_take(scanner, '-');
        if (!take_digits(scanner))
            return fail_expected(scanner, "a digit");
    }
    char number[NUMBER_MAX + 1];
    size_t len = (size_t)(scanner->p - where);
    if (len > NUMBER_MAX)
        return fail_at(scanner, where, "a number of %zu characters, the limit is %d", len, NUMBER_MAX);
    memcpy(number, where, len);
    number[len] = '\0';
    if (!isfinite(strtod(number, NULL)))
        return fail_at(scanner, where, "number %s is too large", number);
    return 0;
}

static int scan_word(struct scanner *scanner)
{
    static const char *const words[] = {"true", "false", "null"};
    for (unsigned i = 0; i < GT_COUNT(words); i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(scanner->end - scanner->p) >= len && !memcmp(scanner->p, words[i], len)) {
            scanner->p += len;
            return 0;
        }
    }
    return fail_expected(scanner, "a value");
}

/* What is left of the path behind a member, the key between `key` and `key_end` or the i-th of a list (`key`
 * NULL); NULL: the path does not lead there. */
static const char *json_path_behind(const char *path, const char *key, const char *key_end, size_t i)
{
    if (!key) {
        char *end;
        return *path == '[' && strtoul(path + 1, &end, 10) == i ? end + (*end == ']') : NULL;
    }
    path += *path == '.';
    size_t len = strcspn(path, ".[");
    return len && len == (size_t)(key_end - key) && memcmp(path, key, len) == 0 ? path + len : NULL;
}

static int scan_value(struct scanner *scanner);

static int scan_members(struct scanner *scanner, char close, bool has_keys)
{
    const char *path = scanner->want, *key = NULL, *key_end = NULL;
    json_parse_skip_space(scanner);
    if (json_parse_take(scanner, close))
        return 0;
    for (size_t i = 0;; i++) {
        json_parse_skip_space(scanner);
        if (has_keys) {
            if (scanner->p >= scanner->end || *scanner->p != '"')
                return fail_expected(scanner, "a key in quotes");
            key = scanner->p + 1;
            GT_TRY(scan_string(scanner));
            key_end = scanner->p - 1;
            json_parse_skip_space(scanner);
            if (!json_parse_take(scanner, ':'))
                return fail_expected(scanner, "':'");
        }
        scanner->want = path ? json_path_behind(path, key, key_end, i) : NULL;
        if (scanner->want) /* of a duplicate key the first counts */
            path = NULL;
        GT_TRY(scan_value(scanner));
        json_parse_skip_space(scanner);
        if (json_parse_take(scanner, close))
            return 0;
        if (!json_parse_take(scanner, ','))
            return fail_expected(scanner, has_keys ? "',' or '}'" : "',' or ']'");
    }
}

/* Recursion ends at DEPTH_MAX. */
static int scan_value(struct scanner *scanner)
{
    json_parse_skip_space(scanner);
    if (scanner->p >= scanner->end)
        return fail_expected(scanner, "a value");
    if (++scanner->values > scanner->values_max)
        return fail_at(scanner, scanner->p, "more than %u values", scanner->values_max);
    if (scanner->want)
        scanner->found = scanner->p;
    char c = *scanner->p;
    if (c == '{' || c == '[') {
        if (++scanner->depth > DEPTH_MAX)
            return fail_at(scanner, scanner->p, "nested deeper than %d levels", DEPTH_MAX);
        scanner->p++;
        int r = scan_members(scanner, c == '{' ? '}' : ']', c == '{');
        scanner->depth--;
        return r;
    }
    if (c == '"')
        return scan_string(scanner);
    if (c == '-' || (c >= '0' && c <= '9'))
        return scan_number(scanner);
    return scan_word(scanner);
}

static int scan_document(struct scanner *scanner)
{
    if (scanner->end - scanner->p >= 3 &&
        !memcmp(scanner->p, "\xef\xbb\xbf", 3)) /* a byte order mark, which cJSON skips too */
        scanner->p += 3;
    return scan_value(scanner);
}

unsigned gt_json_line(const char *text, size_t len, const char *path)
{
    struct scanner s = {.start = text, .p = text, .end = text + len, .source = "", .values_max = UINT_MAX};
    unsigned line = 1;
    s.want = path;
    s.found = text;
    scan_document(&s);
    for (const char *q = text; q < s.found; q++)
        line += *q == '\n';
    return line;
}

int gt_json_parse(const char *text, size_t len, const char *source, cJSON **ret, struct gt_err **err)
{
    static const struct gt_json_limits limits = {GT_JSON_MAX, GT_JSON_VALUES_MAX};
    return gt_json_parse_within(text, len, source, &limits, ret, err);
}

int gt_json_parse_within(const char *text, size_t len, const char *source,
                         const struct gt_json_limits *limits, cJSON **ret, struct gt_err **err)
{
    if (len > limits->bytes)
        return gt_fail(err, EFBIG, "%s: %zu bytes of JSON, the limit is %zu", source, len, limits->bytes);
    /* A copy, since the caller's text need not end with a NUL. */
    gt_auto_free char *copy = malloc(len + 1);
    GT_NEED(copy, err, "%s", source);
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';

    struct scanner s = {.start = copy,
                        .p = copy,
                        .end = copy + len,
                        .source = source,
                        .values_max = limits->values,
                        .err = err};
    GT_TRY(scan_document(&s));
    json_parse_skip_space(&s);
    if (s.p < s.end)
        return fail_expected(&s, "the end of the text");
    cJSON *json = cJSON_ParseWithLength(copy, len + 1);
    GT_NEED(json, err, "%s", source);
    *ret = json;
    return 0;
}

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

static bool has_only_scalars(const cJSON *array)
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
    if (!object && has_only_scalars(json)) {
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

void gt_json_add_tree(struct gt_buf *to, const char *key, const cJSON *json)
{
    char *text = json ? cJSON_PrintUnformatted(json) : NULL;
    to->failed = to->failed || (json && !text);
    gt_json_add_raw(to, key, text ? text : "null");
    cJSON_free(text);
}

bool gt_json_attach(cJSON *to, const char *key, cJSON *item)
{
    if (item && (key ? cJSON_AddItemToObject(to, key, item) : cJSON_AddItemToArray(to, item)))
        return true;
    cJSON_Delete(item);
    return false;
}
