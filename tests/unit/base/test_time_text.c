/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/time_text.h"

static void known_times(void **state)
{
    static const struct {
        int64_t unix_s;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00Z"},
        {60, "1970-01-01T00:01:00Z"},
        {951782400, "2000-02-29T00:00:00Z"},
        {1769860800, "2026-01-31T12:00:00Z"},
        {4107542399, "2100-02-28T23:59:59Z"},
        {4107542400, "2100-03-01T00:00:00Z"},
        {253402300799, "9999-12-31T23:59:59Z"},
        {253402300800, ""},
        {INT64_MAX, ""},
        {INT64_MIN, ""},
    };
    char text[GT_TIME_TEXT_SIZE];
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_time_text(cases[i].unix_s, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(gt_time_of_text(text), *text ? cases[i].unix_s : 0);
    }
}

static void fractions(void **state)
{
    const struct timespec when = {1769860800, 123456789};
    char text[GT_TIME_TEXT_SIZE];
    (void)state;
    gt_time_text_fine(&when, 0, text);
    assert_string_equal(text, "2026-01-31T12:00:00Z");
    gt_time_text_fine(&when, 3, text);
    assert_string_equal(text, "2026-01-31T12:00:00.123Z");
    gt_time_text_fine(&when, 6, text);
    assert_string_equal(text, "2026-01-31T12:00:00.123456Z");
    gt_time_text_fine(&when, 9, text);
    assert_string_equal(text, "2026-01-31T12:00:00.123456789Z");
    assert_int_equal(gt_time_of_text(text), when.tv_sec);
    assert_int_equal(gt_time_of_text("2016-12-31T23:59:60Z"), 1483228800); /* a leap second */
}

static void each_day_and_back(void **state)
{
    (void)state;
    for (int64_t unix_s = 1; unix_s < 253402300800; unix_s += 86400 + 3607) {
        char text[GT_TIME_TEXT_SIZE];
        gt_time_text(unix_s, text);
        assert_int_equal(gt_time_of_text(text), unix_s);
    }
}

static void no_times(void **state)
{
    static const char *const texts[] = {
        "",
        "yesterday",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.5",
        "2026-01-31T12:00:00z",
        "2026-01-31T12:00:00ZZ",
        "2026-01-31T12:00:00+01:00",
        "2026-01-31 12:00:00Z",
        "2026-1-31T12:00:00Z",
        "+026-01-31T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2100-02-29T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:61Z",
        "2026-02-31T23:59:60Z",
        "2026-13-01T23:59:60Z",
        "1969-12-31T23:59:59Z",
    };
    (void)state;
    assert_int_equal(gt_time_of_text(NULL), 0);
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        if (gt_time_of_text(texts[i]))
            fail_msg("\"%s\" was taken for a time", texts[i]);
}

static void spans(void **state)
{
    (void)state;
    const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {{-5, "0 s"}, {119, "119 s"}, {120, "2 min"}, {7201, "2 h"}, {400000, "4 d"}};
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        char text[GT_TIME_TEXT_SIZE];
        assert_string_equal(gt_time_span_text(cases[i].seconds, text), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_times), cmocka_unit_test(fractions), cmocka_unit_test(each_day_and_back),
        cmocka_unit_test(no_times),    cmocka_unit_test(spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
