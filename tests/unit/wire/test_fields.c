/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "scheduler-ext/wire/request.h"

/* Random texts against a tree of the whole text, from which the other fields are deleted. */

static const struct gt_field leaf[] = {{.name = "a", .dropped = true}, {.others = true}};
static const struct gt_field inner[] = {{.name = "b", .fields = leaf}, {.name = "a"}, {0}};
static const struct gt_field root[] = {
    {.name = "items", .fields = inner}, {.name = "a", .fields = inner}, {.name = "b"}, {0}};

static void add_space(struct gt_buf *to, unsigned *seed)
{
    static const char *const spaces[] = {"", "", "", "", " ", "\n", "\t\r "};
    gt_buf_puts(to, spaces[(unsigned)rand_r(seed) % GT_COUNT(spaces)]);
}

static void add_string(struct gt_buf *to, unsigned *seed)
{
    static const char *const parts[] = {
        "x", "{", "}", "[", "]", ",", ":", "\\\"", "\\\\", "\\u00e4", "\xe4\xb8\xad", "\\n"};
    unsigned count = (unsigned)rand_r(seed) % 9;
    gt_buf_puts(to, "\"");
    while (count--)
        gt_buf_puts(to, parts[(unsigned)rand_r(seed) % GT_COUNT(parts)]);
    gt_buf_puts(to, "\"");
}

enum { DEPTH = 5 };

static void add_value(struct gt_buf *to, unsigned depth, unsigned *seed)
{
    static const char *const keys[] = {"a",  "b",       "items",  "A", "Items",    "c",
                                       "ab", "\\u0061", "n\\\"x", "",  "Items\\\\"};
    static const char *const scalars[] = {"0", "-1.5e3", "true", "null", "12345678901234"};
    unsigned kind = (unsigned)rand_r(seed) % (depth ? 7 : 2), count = (unsigned)rand_r(seed) % 5;
    bool object = kind < 5 || depth == DEPTH;
    add_space(to, seed);
    if (kind == 0 && depth < DEPTH) {
        gt_buf_puts(to, scalars[(unsigned)rand_r(seed) % GT_COUNT(scalars)]);
    } else if (kind == 1 && depth < DEPTH) {
        add_string(to, seed);
    } else {
        unsigned key = (unsigned)rand_r(seed) % GT_COUNT(keys);
        gt_buf_puts(to, object ? "{" : "[");
        for (unsigned i = 0; i < count; i++) {
            gt_buf_puts(to, i ? "," : "");
            add_space(to, seed);
            if (object) /* no key twice: seven of eleven are different whatever their case */
                gt_buf_printf(to, "\"%s\":", keys[(key + (i ? i + 1 : 0) * 3) % GT_COUNT(keys)]);
            add_value(to, depth - 1, seed);
        }
        gt_buf_puts(to, object ? "}" : "]");
    }
    add_space(to, seed);
}

static bool comes_twice(const cJSON *json, const struct gt_field *fields)
{
    for (const cJSON *item = json ? json->child : NULL; item; item = item->next) {
        const struct gt_field *field = fields;
        if (item->string) {
            while (field->name && strcasecmp(field->name, item->string) != 0)
                field++;
            for (const cJSON *other = item->next; other && field->name && !field->dropped;
                 other = other->next)
                if (strcasecmp(other->string, item->string) == 0)
                    return true;
        }
        const struct gt_field *below = item->string ? field->fields : fields;
        if (below && (!item->string || field->name) && comes_twice(item, below))
            return true;
    }
    return false;
}

/* Gives the fields the names that they have in the table. */
static void prune(cJSON *json, const struct gt_field *fields)
{
    for (cJSON *item = json->child, *next; item; item = next) {
        const struct gt_field *field = fields;
        next = item->next;
        while (item->string && field->name && strcasecmp(field->name, item->string) != 0)
            field++;
        if (item->string && (field->dropped || (!field->name && !field->others))) {
            cJSON_Delete(cJSON_DetachItemViaPointer(json, item));
            continue;
        }
        if (!item->string || field->fields)
            prune(item, item->string ? field->fields : fields);
        if (field->name && item->string)
            memcpy(item->string, field->name, strlen(field->name));
    }
}

static int read_in_steps(struct gt_field_reader *reader, const struct gt_buf *text, size_t step,
                         struct gt_err **err)
{
    gt_field_reader_reset(reader, 1 << 20);
    int r = 0;
    for (size_t at = 0; at < text->len && r >= 0; at += step)
        r = gt_field_reader_feed(reader, root, text->data + at, text->len - at < step ? text->len - at : step,
                                 err);
    return r;
}

static void test_random(void **state)
{
    (void)state;
    unsigned seed = 5, twice = 0, read = 0;
    struct gt_field_reader reader = {.text.max = 1 << 20};
    for (unsigned round = 0; round < 50000; round++) {
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
        gt_auto_err struct gt_err *err = NULL;
        add_value(&text, DEPTH, &seed);
        if (strstr(text.data, "\"\\u0061\":"))
            continue; /* it is not one of the names, but for cJSON it is */
        gt_auto_json cJSON *whole = NULL, *left = NULL;
        assert_int_equal(gt_json_parse(text.data, text.len, "text", &whole, NULL), 0);
        cJSON *expected = cJSON_Duplicate(whole, true);
        bool bad = comes_twice(whole, root);
        prune(expected, root);
        for (size_t step = 1; step < text.len + 7; step = step * 3 + 1) {
            gt_auto_err struct gt_err *again = NULL;
            int r = read_in_steps(&reader, &text, step, &again);
            if ((r < 0) != bad)
                fail_msg("%s: %s", text.data, gt_err_text(again));
        }
        if (!bad) {
            if (gt_json_parse(reader.text.data, reader.text.len, "left", &left, &err) < 0)
                fail_msg("%s: %s", text.data, gt_err_text(err));
            if (!cJSON_Compare(left, expected, true))
                fail_msg("%s: %s", text.data, reader.text.data);
            read++;
        }
        twice += bad;
        cJSON_Delete(expected);
    }
    gt_field_reader_reset(&reader, 0);
    assert_true(read > 20000 && twice > 100);
}

/* A text that is cut short is no JSON, whatever was dropped. */
static void test_cut(void **state)
{
    (void)state;
    static const char text[] =
        "{\"c\":{\"x\":[1,\"}\"]},\"items\":[{\"b\":{\"a\":1,\"c\":2}}, {\"c\":[]}],\"B\":\"\\\\\"}";
    struct gt_field_reader reader = {.text.max = 1 << 10};
    for (size_t len = 0; len < sizeof(text); len++) {
        gt_auto_json cJSON *json = NULL;
        gt_field_reader_reset(&reader, 1 << 10);
        assert_int_equal(gt_field_reader_feed(&reader, root, text, len, NULL), 0);
        int r = gt_json_parse(reader.text.data, reader.text.len, "left", &json, NULL);
        assert_int_equal(r < 0, len < sizeof(text) - 1);
    }
    assert_string_equal(reader.text.data, "{\"items\":[{\"b\":{\"c\":2}},{}],\"b\":\"\\\\\"}");
    gt_field_reader_reset(&reader, 0);
}

/* Escapes and quotes where the pieces meet; what is no JSON where fields are chosen; limits. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{a:1}", "byte 1: expected a key"},
        {"{\"c\":1,,\"a\":2}", "byte 7: expected a key"},
        {"{\"a\" 1}", "byte 5: expected ':'"},
        {"[[[[[[[[[1]]]]]]]]]", "byte 8: nested deeper than expected"},
        {"{\"b\":1,\"c\":\"\\\\\\\"}\",\"B\":2}", "byte 22: b comes twice in one object"},
        {"{\"b\":\"0123456789012345678901234567890123456789\"}", "more than 32 bytes that are needed"},
    };
    struct gt_field_reader reader = {.text.max = 32};
    for (unsigned i = 0; i < GT_COUNT(cases); i++)
        for (size_t step = 1; step < 40; step++) {
            gt_auto_buf struct gt_buf text = GT_BUF(1 << 10);
            gt_auto_err struct gt_err *err = NULL;
            gt_buf_puts(&text, cases[i].text);
            assert_true(read_in_steps(&reader, &text, step, &err) < 0);
            assert_string_equal(gt_err_text(err), cases[i].error);
        }
    gt_field_reader_reset(&reader, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
