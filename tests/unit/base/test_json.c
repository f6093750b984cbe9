/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"

static void writes_every_kind_of_value(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_json_begin(&text, NULL, '{');
    gt_json_add_text(&text, "a\"key", "a\n\"b\"\xff");
    gt_json_add_text_if(&text, "none", "");
    gt_json_add_text_if(&text, "none", NULL);
    gt_json_add_text_or_null(&text, "null", NULL);
    gt_json_add_text_or_null(&text, "said", "");
    gt_json_add_int(&text, "least", INT64_MIN);
    gt_json_add_unsigned(&text, "most", UINT64_MAX);
    gt_json_add_real(&text, "real", 0.1, 3);
    gt_json_add_real(&text, "nan", (double)NAN, 3);
    gt_json_add_bool(&text, "yes", true);
    gt_json_begin(&text, "empty", '[');
    gt_json_end(&text, ']');
    gt_json_add_mask(&text, "mask", UINT64_C(1) << 63 | 5);
    gt_json_begin(&text, "list", '[');
    gt_json_new_line(&text, 2);
    gt_json_add_raw(&text, NULL, "{}");
    gt_json_new_line(&text, 2);
    gt_json_add_null(&text, NULL);
    gt_json_end(&text, ']');
    gt_json_end(&text, '}');
    assert_int_equal(gt_buf_check(&text, "text", NULL), 0);
    assert_string_equal(text.data, "{\"a\\\"key\":\"a\\n\\\"b\\\"\xef\xbf\xbd\",\"null\":null,\"said\":\"\","
                                   "\"least\":-9223372036854775808,\"most\":18446744073709551615,"
                                   "\"real\":0.1,\"nan\":null,\"yes\":true,\"empty\":[],\"mask\":[0,2,63],"
                                   "\"list\":[\n  {},\n  null]}");
    gt_auto_json cJSON *json = NULL;
    assert_int_equal(gt_json_parse(text.data, text.len, "it", &json, NULL), 0);
}

/* What a text ends with must not be taken for the end of a list. */
static void puts_commas_behind_texts_that_end_like_brackets(void **state)
{
    (void)state;
    static const char *const ends[] = {"[", "{", ":", ",", " ", "\n", "\""};
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_json_begin(&text, NULL, '[');
    for (unsigned i = 0; i < GT_COUNT(ends); i++)
        gt_json_add_text(&text, NULL, ends[i]);
    gt_json_end(&text, ']');
    gt_auto_json cJSON *json = NULL;
    assert_int_equal(gt_json_parse(text.data, text.len, "it", &json, NULL), 0);
    assert_int_equal(cJSON_GetArraySize(json), GT_COUNT(ends));
    for (unsigned i = 0; i < GT_COUNT(ends); i++)
        assert_string_equal(cJSON_GetArrayItem(json, (int)i)->valuestring, ends[i]);
}

static void writes_json_as_it_is_shown(void **state)
{
    (void)state;
    const char *volatile none = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_json_printf(&text,
                   "{'a': {'no': null, 'list': [1, true, 'x y, z']}, 'text': %s, 'null': %s, 'empty': ~%s,",
                   "q\"", none, "");
    gt_json_printf(&text, "%s: %d, 'u': %u, 'l': %lu, 'll': %lld, 'as text': $%u, 'real': %g", "key", -1, 2U,
                   3UL, -4LL, 5U, 0.25);
    gt_json_printf(&text,
                   "?'out': %s, ?'empty': %s, ?'zero': %u, ?%s: %d, ?'in': %s, ?'false': !%d, 'yes': !%d",
                   none, "", 0U, "no", 0, "z", 0, 1);
    gt_json_printf(&text, "'raw': =%s, 'open': [{?'first': %s", "[7]", none);
    gt_json_printf(&text, "'then': %zu}]}", (size_t)9);
    assert_int_equal(gt_buf_check(&text, "text", NULL), 0);
    assert_string_equal(
        text.data,
        "{\"a\":{\"no\":null,\"list\":[1,true,\"x y, z\"]},\"text\":\"q\\\"\",\"null\":null,\"empty\":null,"
        "\"key\":-1,\"u\":2,\"l\":3,\"ll\":-4,\"as text\":\"5\",\"real\":0.25,"
        "\"in\":\"z\",\"yes\":true,\"raw\":[7],\"open\":[{\"then\":9}]}");
}

static void a_full_buffer_fails(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(8);
    gt_json_begin(&text, NULL, '{');
    gt_json_add_text(&text, "key", "value");
    gt_json_end(&text, '}');
    gt_json_printf(&text, "?'left': %s, 'out': [%u]", "", 1U);
    assert_int_equal(gt_buf_check(&text, "text", NULL), -ENOBUFS);
}

static void members_are_found_or_missing(void **state)
{
    (void)state;
    static const char doc[] = "{\"a\":{\"b\":{\"c\":\"x\"}},\"null\":null,\"n\":3,\"list\":[1]}";
    gt_auto_json cJSON *json = NULL;
    assert_int_equal(gt_json_parse(doc, strlen(doc), "it", &json, NULL), 0);
    assert_string_equal(gt_get_string(gt_get_at(json, "a", "b"), "c"), "x");
    assert_null(gt_get_at(json, "a", "x", "c"));
    assert_null(gt_get_at(json, "n", "x"));
    assert_null(gt_get_at(json, "list", "x"));
    assert_null(gt_get(json, "null"));
    assert_null(gt_get(NULL, "a"));
    assert_string_equal(gt_get_string(json, "n"), "");
    assert_string_equal(gt_get_string(NULL, "n"), "");
}

static void numbers_are_whole_and_in_range(void **state)
{
    (void)state;
    static const struct {
        double number;
        bool is_int, is_unsigned;
    } cases[] = {{0, true, true},
                 {-1, true, false},
                 {7, true, true},
                 {8, true, false},
                 {0.5, false, false},
                 {9007199254740992.0, true, false},
                 {9007199254740994.0, false, false},
                 {(double)NAN, false, false},
                 {(double)INFINITY, false, false}};
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_json cJSON *json = cJSON_CreateNumber(cases[i].number);
        int64_t a;
        uint64_t b;
        assert_int_equal(gt_json_is_int(json, &a), cases[i].is_int);
        assert_int_equal(gt_json_is_unsigned(json, 7, &b), cases[i].is_unsigned);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_every_kind_of_value),
        cmocka_unit_test(writes_json_as_it_is_shown),
        cmocka_unit_test(puts_commas_behind_texts_that_end_like_brackets),
        cmocka_unit_test(a_full_buffer_fails),
        cmocka_unit_test(members_are_found_or_missing),
        cmocka_unit_test(numbers_are_whole_and_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
