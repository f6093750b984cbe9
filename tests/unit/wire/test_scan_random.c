/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "base/text.h"
#include "tests/unit/seed.h"
#include "tests/unit/wire/reference.h"
#include "tests/unit/wire/trace.h"

/*
 * Random texts, with two comparisons: the scanner's events for a shape with cJSON's tree, and what it accepts
 * as JSON with the reference.
 */

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

/* A random shape, in one piece of memory. */
enum { SHAPES = 200, MEMBERS = 4, TEXT_MAX = 64 };
static struct gt_scan_shape shapes[SHAPES];
static struct gt_scan_member members[SHAPES][MEMBERS + 1];
static unsigned shapes_used;
static const char *const keys[] = {"a", "name", "metax-tech.com/gpu", "q\"uote", "b\\s", "\xe4\xb8\xad",
                                   "",  "-no"};

static const struct gt_scan_shape *make_shape(unsigned depth)
{
    unsigned me = shapes_used++;
    struct gt_scan_shape *shape = &shapes[me];
    *shape = (struct gt_scan_shape){.id = me + 1, .max = TEXT_MAX};
    bool inner = depth < 5 && shapes_used + MEMBERS < SHAPES / 2;
    shape->kind =
        depth == 0 ? GT_SCAN_OBJECT : below(inner ? 7 : 4) + (inner ? GT_SCAN_OBJECT : GT_SCAN_TEXT);
    if (shape->kind == GT_SCAN_OBJECT) {
        unsigned count = 1 + below(MEMBERS), first = below(GT_COUNT(keys));
        for (unsigned i = 0; i < count; i++)
            members[me][i] =
                (struct gt_scan_member){keys[(first + i) % GT_COUNT(keys)], make_shape(depth + 1)};
        members[me][count] = (struct gt_scan_member){0};
        shape->members = members[me];
    } else if (shape->kind == GT_SCAN_ARRAY || shape->kind == GT_SCAN_MAP) {
        shape->of = make_shape(depth + 1);
    }
    return shape;
}

static void put_space(struct gt_buf *to)
{
    while (below(6) == 0)
        gt_buf_add(to, &" \n\t\r"[below(4)], 1);
}

static void put_string(struct gt_buf *to, const char *text)
{
    gt_buf_puts(to, "\"");
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            gt_buf_printf(to, "\\%c", *p);
        else if ((unsigned char)*p < 0x80 && below(12) == 0)
            gt_buf_printf(to, below(2) ? "\\u%04x" : "\\u%04X", (unsigned)*p);
        else
            gt_buf_add(to, p, 1);
    }
    gt_buf_puts(to, "\"");
}

static void put_text(struct gt_buf *to)
{
    static const char *const parts[] = {
        "x",  "node-17",          "\\n", "\\\\", "\\\"", "\\u00e9", "\\ud83d\\ude00", "\xc3\xa9", "{",
        "}]", "\xf0\x9f\x98\x80", ",",   ":",    "\\/",  " "};
    gt_buf_puts(to, "\"");
    for (unsigned n = below(9); n; n--)
        gt_buf_puts(to, parts[below(GT_COUNT(parts))]);
    gt_buf_puts(to, "\"");
}

static void put_value(struct gt_buf *to, const struct gt_scan_shape *shape, unsigned depth);

static void put_list(struct gt_buf *to, const struct gt_scan_shape *shape, bool object, unsigned depth)
{
    unsigned count = below(depth < 4 ? 6 : 3), first = below(GT_COUNT(keys));
    gt_buf_puts(to, object ? "{" : "[");
    for (unsigned i = 0; i < count; i++) {
        const struct gt_scan_shape *of = shape ? shape->of : NULL;
        if (i)
            gt_buf_puts(to, ",");
        put_space(to);
        if (object) {
            const char *key = keys[(first + i) % GT_COUNT(keys)];
            for (unsigned k = 0; shape && shape->members && shape->members[k].name; k++)
                if (strcmp(shape->members[k].name, key) == 0)
                    of = shape->members[k].shape;
            put_string(to, key);
            put_space(to);
            gt_buf_puts(to, ":");
            put_space(to);
        }
        put_value(to, of, depth + 1);
        put_space(to);
    }
    gt_buf_puts(to, object ? "}" : "]");
}

/* A value of the shape, as a rule; else any. */
static void put_value(struct gt_buf *to, const struct gt_scan_shape *shape, unsigned depth)
{
    unsigned kind =
        shape && (depth == 0 || below(40)) ? shape->kind : below(depth < 7 ? 7 : 4) + (depth < 7 ? 0 : 3);
    switch ((enum gt_scan_kind)kind) {
    case GT_SCAN_OBJECT:
    case GT_SCAN_MAP:
        put_list(to, shape, true, depth);
        break;
    case GT_SCAN_ARRAY:
        put_list(to, shape, false, depth);
        break;
    case GT_SCAN_TEXT:
        put_text(to);
        break;
    case GT_SCAN_AMOUNT:
        if (below(2)) {
            put_text(to);
            break;
        }
        __attribute__((fallthrough));
    case GT_SCAN_NUMBER:
        if (below(3))
            gt_buf_printf(to, "%d", (int)below(100000) - 5000);
        else
            gt_buf_printf(to, "%s%u.%02ue%s%u", below(2) ? "-" : "", below(10), below(100),
                          below(2) ? "+" : "-", below(20));
        break;
    case GT_SCAN_BOOL:
        gt_buf_puts(to, below(8) == 0 ? "null" : below(2) ? "true" : "false");
        break;
    }
}

/* The trace that cJSON's tree makes; false where the shape does not fit. */
static bool expect(struct gt_buf *to, const cJSON *value, const struct gt_scan_shape *shape, bool in_array)
{
    if (!shape || (cJSON_IsNull(value) && !in_array))
        return true;
    bool inner = cJSON_IsObject(value) ? shape->kind == GT_SCAN_OBJECT || shape->kind == GT_SCAN_MAP
                                       : cJSON_IsArray(value) && shape->kind == GT_SCAN_ARRAY;
    if (inner) {
        gt_buf_printf(to, "open %u\n", shape->id);
        const cJSON *child;
        cJSON_ArrayForEach(child, value)
        {
            const struct gt_scan_shape *of = shape->kind == GT_SCAN_OBJECT ? NULL : shape->of;
            if (shape->kind == GT_SCAN_MAP) {
                gt_buf_printf(to, "key %u ", shape->id);
                gt_text_quote(to, child->string);
                gt_buf_puts(to, "\n");
                if (child->string[0] == '-')
                    of = NULL;
            }
            for (unsigned i = 0; shape->kind == GT_SCAN_OBJECT && shape->members[i].name; i++)
                if (strcmp(shape->members[i].name, child->string) == 0)
                    of = shape->members[i].shape;
            if (!expect(to, child, of, shape->kind == GT_SCAN_ARRAY))
                return false;
        }
        gt_buf_printf(to, "close %u\n", shape->id);
        return true;
    }
    bool amount = shape->kind == GT_SCAN_AMOUNT;
    if (cJSON_IsString(value) && (shape->kind == GT_SCAN_TEXT || amount)) {
        if (strlen(value->valuestring) > TEXT_MAX)
            return false;
        gt_buf_printf(to, "value %u ", shape->id);
        gt_text_quote(to, value->valuestring);
    } else if (cJSON_IsNumber(value) && (shape->kind == GT_SCAN_NUMBER || amount)) {
        gt_buf_printf(to, "value %u %.17g", shape->id, value->valuedouble);
    } else if (cJSON_IsBool(value) && shape->kind == GT_SCAN_BOOL) {
        gt_buf_printf(to, "value %u %s", shape->id, cJSON_IsTrue(value) ? "true" : "false");
    } else {
        return false;
    }
    gt_buf_puts(to, "\n");
    return true;
}

static void test_against_cjson(void **state)
{
    (void)state;
    enum { TEXTS = 3000 };
    unsigned fitted = 0, with_values = 0;
    for (unsigned round = 0; round < TEXTS; round++) {
        uint64_t start = seed;
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20), expected = GT_BUF(1 << 20);
        shapes_used = 0;
        const struct gt_scan_shape *root = make_shape(0);
        put_value(&text, root, 0);
        put_space(&text);
        assert_false(text.failed);
        cJSON *tree = cJSON_ParseWithLength(text.data, text.len);
        assert_non_null(tree);
        gt_buf_puts(&expected, "");
        bool fits = expect(&expected, tree, root, false);
        cJSON_Delete(tree);
        fitted += fits;
        if (fits)
            gt_buf_puts(&expected, "ok");
        with_values += expected.data && strstr(expected.data, "value") != NULL;

        gt_auto_free char *whole = trace_whole(root, text.data, text.len, NULL);
        gt_auto_free char *steps = trace_steps(root, text.data, text.len, 1 + below(70));
        gt_auto_free char *cut = trace_cut(root, text.data, text.len, below((unsigned)text.len + 1));
        bool same = fits ? strcmp(whole, expected.data) == 0
                         : expected.len < strlen(whole) && memcmp(whole, expected.data, expected.len) == 0 &&
                               whole[expected.len] == 'E';
        if (!same || strcmp(whole, steps) != 0 || strcmp(whole, cut) != 0)
            fail_msg("seed %llu, round %u:\n%s\nexpected\n%s\ngot\n%s\n\tin steps\n%s\ncut\n%s",
                     (unsigned long long)start, round, text.data, expected.data, whole, steps, cut);
    }
    print_message("%u texts, %u fit their shape, %u tell a value\n", TEXTS, fitted, with_values);
    assert_true(fitted > TEXTS / 3 && with_values > TEXTS / 3);
}

/* Spoils a text a little. */
static void spoil(struct gt_buf *text)
{
    static const char bytes[] = "\"\"\\{}[],:0123-+.eEtfnu \n\x01\x7f\x80\xc3\xe4\xf0\xff";
    for (unsigned n = 1 + below(3); n && text->len; n--) {
        size_t at = below((unsigned)text->len);
        switch (below(4)) {
        case 0:
            text->data[at] = bytes[below(sizeof(bytes))];
            break;
        case 1:
            memmove(text->data + at, text->data + at + 1, text->len - at);
            text->len--;
            break;
        case 2:
            text->data[at] = (char)below(256);
            break;
        case 3: /* exchanges two neighbours */
            if (at + 1 < text->len) {
                char c = text->data[at];
                text->data[at] = text->data[at + 1];
                text->data[at + 1] = c;
            }
        }
    }
}

static void test_against_reference(void **state)
{
    (void)state;
    enum { TEXTS = 40000 };
    static const struct gt_scan_member none[] = {{0}};
    static const struct gt_scan_shape object = {.kind = GT_SCAN_OBJECT, .members = none};
    static const struct gt_scan_shape array = {.kind = GT_SCAN_ARRAY};
    unsigned accepted = 0;
    for (unsigned round = 0; round < TEXTS; round++) {
        uint64_t start = seed;
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
        put_list(&text, NULL, below(2), 0);
        bool is_object = text.data[0] == '{';
        if (round % 8)
            spoil(&text);
        bool good = reference_accepts(text.data, text.len);
        const char *first = text.data;
        while (first < text.data + text.len && strchr(" \t\r\n", *first) && *first)
            first++;
        if (good)
            is_object = *first == '{';
        accepted += good;
        gt_auto_free char *whole = trace_whole(is_object ? &object : &array, text.data, text.len, NULL);
        gt_auto_free char *steps =
            trace_steps(is_object ? &object : &array, text.data, text.len, 1 + below(130));
        if ((strcmp(whole, "ok") == 0) != good || strcmp(whole, steps) != 0)
            fail_msg("seed %llu, round %u, %s:\n%.*s\n%s\n%s", (unsigned long long)start, round,
                     good ? "is JSON" : "is no JSON", (int)text.len, text.data, whole, steps);
    }
    print_message("%u texts, %u of them JSON\n", TEXTS, accepted);
    assert_true(accepted > TEXTS / 10 && accepted < TEXTS * 9 / 10);
}

int main(void)
{
    seed = test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_cjson),
        cmocka_unit_test(test_against_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
