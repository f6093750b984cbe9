/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/text.h"
#include "base/version.h"

/* err */

static void errors(void **state)
{
    (void)state;
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_fail(&err, EINVAL, "line %d: %s", 3, "bad\n\x1b[31mthing\x7f"), -EINVAL);
    assert_string_equal(gt_err_text(err), "line 3: bad  [31mthing ");
    assert_int_equal(gt_err_code(err), EINVAL);
    assert_int_equal(gt_wrap(&err, "file %s", "x\ty"), -EINVAL);
    assert_string_equal(gt_err_text(err), "file x y: line 3: bad  [31mthing ");

    gt_auto_err struct gt_err *sys = NULL;
    assert_int_equal(gt_fail_sys(&sys, ENOENT, "open %s", "/x"), -ENOENT);
    assert_string_equal(gt_err_text(sys), "open /x: No such file or directory");

    assert_int_equal(gt_fail(NULL, EIO, "nobody wants this"), -EIO);
    /* A library that failed without setting errno has still failed. */
    gt_auto_err struct gt_err *silent = NULL;
    assert_int_equal(gt_fail_sys(&silent, 0, "%s", "library"), -EIO);
    assert_int_equal(gt_err_code(silent), EIO);
    assert_string_equal(gt_err_text(silent), "library");
    assert_int_equal(gt_fail_sys(NULL, 0, "nobody wants this"), -EIO);
    assert_int_equal(gt_wrap(NULL, "x"), -EIO);
    struct gt_err *none = NULL;
    assert_int_equal(gt_wrap(&none, "x"), -EIO);
    assert_string_equal(gt_err_text(NULL), "");
    assert_int_equal(gt_err_code(NULL), 0);
    gt_err_free(NULL);
}

static void long_errors(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_fail_sys(&err, EPERM, "%s", text), -EPERM);
    assert_int_equal(strlen(gt_err_text(err)), 1023);
    assert_int_equal(gt_wrap(&err, "in front"), -EPERM);
    assert_memory_equal(gt_err_text(err), "in front: xxx", 13);
    assert_int_equal(strlen(gt_err_text(err)), 1023);
    assert_int_equal(gt_wrap(&err, "%s", text), -EPERM);
    assert_int_equal(strlen(gt_err_text(err)), 1023);
}

/* buf */

static void buffer(void **state)
{
    (void)state;
    struct gt_buf buf = GT_BUF(10);
    assert_null(buf.data);
    gt_buf_puts(&buf, "abc");
    gt_buf_printf(&buf, "-%03d", 7);
    gt_buf_add(&buf, "\0z", 2);
    assert_int_equal(buf.len, 9);
    assert_memory_equal(buf.data, "abc-007\0z", 10);
    gt_buf_consume(&buf, 4);
    assert_memory_equal(buf.data, "007\0z", 6);
    gt_buf_consume(&buf, 0);
    gt_buf_puts(&buf, "12345"); /* exactly the limit */
    assert_int_equal(gt_buf_check(&buf, "text", NULL), 0);
    gt_buf_add(&buf, "", 0);
    assert_false(buf.failed);
    gt_buf_puts(&buf, "6");
    assert_true(buf.failed);
    assert_memory_equal(buf.data, "007\0z12345", 11);
    gt_buf_consume(&buf, 100);
    gt_buf_puts(&buf, "x"); /* failed once, nothing more is added */
    assert_int_equal(buf.len, 0);
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_buf_check(&buf, "text", &err), -ENOBUFS);
    assert_non_null(strstr(gt_err_text(err), "text: larger than the limit of 10 bytes"));
    assert_null(gt_buf_take(&buf));
    gt_buf_done(&buf);
    assert_false(buf.failed);
    assert_int_equal(buf.max, 10);

    gt_auto_free char *empty = gt_buf_take(&buf);
    assert_string_equal(empty, "");
    assert_null(buf.data);
    gt_buf_consume(&buf, 5); /* of an empty one */

    struct gt_buf nothing = GT_BUF(0);
    gt_buf_printf(&nothing, "%s", "");
    assert_false(nothing.failed);
    gt_buf_puts(&nothing, "x");
    assert_true(nothing.failed);
    gt_buf_done(&nothing);
}

static void buffer_grows(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf buf = GT_BUF(1 << 20);
    for (unsigned i = 0; i < 100000; i++)
        gt_buf_printf(&buf, "%u,", i % 10);
    assert_int_equal(buf.len, 200000);
    assert_int_equal(strlen(buf.data), 200000);
    assert_memory_equal(buf.data + 199980, "0,1,2,3,4,5,6,7,8,9,", 20);
}

/* text */

static void utf8(void **state)
{
    (void)state;
    const char *const good[] = {"",
                                "a",
                                "\xc2\x80",
                                "\xdf\xbf",
                                "\xe0\xa0\x80",
                                "\xed\x9f\xbf",
                                "\xee\x80\x80",
                                "\xf0\x90\x80\x80",
                                "\xf4\x8f\xbf\xbf",
                                "a\xc3\xa9z"};
    const char *const bad[] = {"\x80",
                               "\xc0\xaf",
                               "\xc1\xbf",
                               "\xc3",
                               "\xc3(",
                               "\xe0\x9f\xbf",
                               "\xed\xa0\x80",
                               "\xe2\x82",
                               "\xf0\x8f\xbf\xbf",
                               "\xf4\x90\x80\x80",
                               "\xf5\x80\x80\x80",
                               "\xff",
                               "\xfe"};
    for (unsigned i = 0; i < GT_COUNT(good); i++)
        assert_true(gt_text_is_utf8(good[i]));
    for (unsigned i = 0; i < GT_COUNT(bad); i++)
        assert_false(gt_text_is_utf8(bad[i]));
    assert_int_equal(gt_text_utf8_length("\xf0\x9f\x98\x80"), 4);
    assert_int_equal(gt_text_utf8_length("\xf0\x9f\x98"), 0);
    assert_int_equal(gt_text_utf8_length(""), 1);
}

static void quoting(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf buf = GT_BUF(1000);
    gt_text_quote(&buf, "a\"b\\c\n\t\r\x01\x7f\xc3\xa9\xff\xe2\x82");
    assert_string_equal(
        buf.data, "\"a\\\"b\\\\c\\n\\t\\u000d\\u0001\\u007f\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void numbers(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t max, value;
        bool good;
    } cases[] = {
        {"0", 0, 0, true},
        {"7", 7, 7, true},
        {"8", 7, 0, false},
        {"7", 5, 0, false}, /* a first digit above the limit */
        {"9", 0, 0, false},
        {"10", 9, 0, false},
        {"007", 7, 7, true},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX, true},
        {"18446744073709551616", UINT64_MAX, 0, false},
        {"99999999999999999999", UINT64_MAX, 0, false},
        {"", 9, 0, false},
        {"-1", 9, 0, false},
        {"+1", 9, 0, false},
        {" 1", 9, 0, false},
        {"1 ", 9, 0, false},
        {"0x1", 9, 0, false},
        {"1.0", 9, 0, false},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        uint64_t value = 4711;
        if (gt_text_to_unsigned(cases[i].text, cases[i].max, &value) != cases[i].good)
            fail_msg("\"%s\" up to %llu", cases[i].text, (unsigned long long)cases[i].max);
        assert_true(value == (cases[i].good ? cases[i].value : 4711));
    }
}

static void copying(void **state)
{
    (void)state;
    char to[4] = "zzz";
    assert_true(gt_text_copy(to, sizeof(to), "abc"));
    assert_string_equal(to, "abc");
    assert_false(gt_text_copy(to, sizeof(to), "abcd"));
    assert_string_equal(to, "");
}

static void lists(void **state)
{
    (void)state;
    assert_true(gt_text_is_listed("a", "a"));
    assert_true(gt_text_is_listed("b", "a,b,cd"));
    assert_true(gt_text_is_listed("cd", "a,b,cd"));
    static const char *const others[] = {"c", "d", "bc", "a,b", "", "cde", "A"};
    for (size_t i = 0; i < GT_COUNT(others); i++)
        assert_false(gt_text_is_listed(others[i], "a,b,cd"));
    assert_false(gt_text_is_listed("a", ""));
}

static void masks(void **state)
{
    (void)state;
    const struct {
        const char *in;
        uint64_t mask;
        const char *out;
    } good[] = {
        {"", 0, ""},
        {"0", 1, "0"},
        {"0-3,7", 0x8f, "0-3,7"},
        {"7,0-3,2", 0x8f, "0-3,7"},
        {"1,2", 6, "1,2"},
        {"0-63", UINT64_MAX, "0-63"},
        {"62-63", UINT64_C(3) << 62, "62,63"},
        {"5-5", 0x20, "5"},
    };
    for (unsigned i = 0; i < GT_COUNT(good); i++) {
        uint64_t mask = 4711;
        assert_int_equal(gt_text_to_mask(good[i].in, 64, "free", &mask, NULL), 0);
        assert_true(mask == good[i].mask);
        gt_auto_buf struct gt_buf buf = GT_BUF(1000);
        gt_text_add_mask(&buf, mask);
        assert_string_equal(buf.data ? buf.data : "", good[i].out);
    }
    const struct {
        const char *in, *error;
    } bad[] = {
        {"8", "free: there is no 8, the highest is 7"},
        {"0-99", "free: there is no 0-99, the highest is 7"},
        {"99999999999999999999", "free: \"99999999999999999999\" is not a number or a range"},
        {"x", "free: \"x\" is not a number or a range"},
        {"1,,2", "free: \"\" is not a number or a range"},
        {"1,", "free: \"1\" is not a number or a range"},
        {"3-1", "free: \"3-1\" is not a number or a range"},
        {"1-", "free: \"1-\" is not a number or a range"},
        {"-1", "free: \"-1\" is not a number or a range"},
        {"1 2", "free: \"1 2\" is not a number or a range"},
        {",", "free: \"\" is not a number or a range"},
    };
    for (unsigned i = 0; i < GT_COUNT(bad); i++) {
        uint64_t mask = 4711;
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(gt_text_to_mask(bad[i].in, 8, "free", &mask, &err), -EINVAL);
        assert_string_equal(gt_err_text(err), bad[i].error);
        assert_true(mask == 4711);
    }
}

static void version(void **state)
{
    (void)state;
    assert_true(gt_version[0] >= '0' && gt_version[0] <= '9');
    assert_true(gt_commit[0] != '\0');
}

/* The vectors of the Internet-Draft. */
static void digests(void **state)
{
    (void)state;
    assert_true(gt_digest_bytes(GT_DIGEST_EMPTY, "", 0) == 0xcbf29ce484222325);
    assert_true(gt_digest_bytes(GT_DIGEST_EMPTY, "a", 1) == 0xaf63dc4c8601ec8c);
    assert_true(gt_digest_bytes(GT_DIGEST_EMPTY, "foobar", 6) == 0x85944171f73967e8);
    assert_true(gt_digest_bytes(GT_DIGEST_EMPTY, "\xff", 1) == gt_digest_number(GT_DIGEST_EMPTY, 0xff));
}

static void jitter(void **state)
{
    (void)state;
    struct gt_jitter jitter;
    gt_jitter_seed(&jitter);
    print_message("seed %llu\n", (unsigned long long)jitter.state);
    assert_int_equal(gt_jitter_below(&jitter, 0), 0);
    assert_int_equal(gt_jitter_below(&jitter, 1), 0);
    /* A thousand waits spread out: no tenth of the range has more than three times its share. */
    unsigned tenths[10] = {0};
    for (unsigned i = 0; i < 1000; i++)
        tenths[gt_jitter_below(&jitter, 10)]++;
    for (unsigned i = 0; i < 10; i++)
        assert_in_range(tenths[i], 33, 300);
}

static void backoff(void **state)
{
    (void)state;
    static const uint64_t steps[] = {100, 200, 400, 800, 1000, 1000};
    struct gt_jitter jitter = {1};
    for (unsigned i = 0; i < GT_COUNT(steps); i++) {
        uint64_t least = UINT64_MAX, most = 0;
        assert_int_equal(gt_backoff_step(i, 100, 1000), steps[i]);
        for (unsigned round = 0; round < 1000; round++) {
            uint64_t pause = gt_backoff_pause(i, 100, 1000, &jitter);
            least = pause < least ? pause : least;
            most = pause > most ? pause : most;
        }
        assert_in_range(least, steps[i] * 3 / 4 + 1, steps[i] * 4 / 5);
        assert_in_range(most, steps[i] * 19 / 20, steps[i]);
    }
    assert_int_equal(gt_backoff_step(UINT64_MAX, 100, 1000), 1000);
    assert_int_equal(gt_backoff_step(0, 100, 10), 10);
}

static void cond_waits(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never;
    gt_cond_init(&never);
    uint64_t begin = gt_clock_ms(), until = gt_clock_ns() + 20000000;
    pthread_mutex_lock(&lock);
    while (gt_cond_wait_until(&never, &lock, until) == 0)
        ;
    pthread_mutex_unlock(&lock);
    assert_true(gt_clock_ns() >= until);
    assert_in_range(gt_clock_ms() - begin, 20, 5000);
    pthread_cond_destroy(&never);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),       cmocka_unit_test(long_errors), cmocka_unit_test(buffer),
        cmocka_unit_test(buffer_grows), cmocka_unit_test(utf8),        cmocka_unit_test(quoting),
        cmocka_unit_test(numbers),      cmocka_unit_test(copying),     cmocka_unit_test(lists),
        cmocka_unit_test(masks),        cmocka_unit_test(version),     cmocka_unit_test(digests),
        cmocka_unit_test(jitter),       cmocka_unit_test(backoff),     cmocka_unit_test(cond_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
