/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/resources.h"
#include "base/cleanup.h"
#include "base/err.h"

static void test_good(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        {"0", 0},
        {"8", 8},
        {"+8", 8},
        {"-0", 0},
        {"008", 8},
        {"8.0", 8},
        {"8.", 8},
        {".5k", 500},
        {"8k", 8000},
        {"8000m", 8},
        {"8000000u", 8},
        {"8000000000n", 8},
        {"1Ki", 1024},
        {"0.5Ki", 512},
        {"0.0009765625Ki", 1},
        {"8e3", 8000},
        {"8E3", 8000},
        {"8e+03", 8000},
        {"8000e-3", 8},
        {"80000000000000000000000e-22", 8},
        {"0.000000000000000000000000008e27", 8},
        {"1M", 1000000},
        {"0E", 0},
        {"0e99999999999999999999", 0},
        {"0e-99999999999999999999", 0},
        {"0.00", 0},
        {"1000000", 1000000},
        {"0000000000000000000000000000000000000000000012", 12},
        {"12.00000000000000000000000000000000000000000000", 12},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        uint64_t value = 77;
        if (gt_quantity_read(cases[i].text, strlen(cases[i].text), 1000000, "x", &value, NULL) < 0 ||
            value != cases[i].value)
            fail_msg("%s: %llu", cases[i].text, (unsigned long long)value);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "is no quantity"},
        {"-", "is no quantity"},
        {".", "is no quantity"},
        {"k", "is no quantity"},
        {"eight", "is no quantity"},
        {"8 ", "is no quantity"},
        {" 8", "is no quantity"},
        {"8x", "is no quantity"},
        {"8kk", "is no quantity"},
        {"8ki", "is no quantity"},
        {"8i", "is no quantity"},
        {"8e", "is no quantity"},
        {"8e+", "is no quantity"},
        {"8e1.5", "is no quantity"},
        {"8..0", "is no quantity"},
        {"0x8", "is no quantity"},
        {"--8", "is no quantity"},
        {"1,000", "is no quantity"},
        {"-1", "is negative"},
        {"-8k", "is negative"},
        {"-1e-1e", "is no quantity"},
        {"0.5", "is not a whole number"},
        {"-0.5", "is not a whole number"},
        {"8.000000000000000000000000000001", "is not a whole number"},
        {"100m", "is not a whole number"},
        {"1n", "is not a whole number"},
        {"1e-1", "is not a whole number"},
        {"1e-99999999999999", "is not a whole number"},
        {"0.0001Ki", "is not a whole number"},
        {"1000001", "is too large"},
        {"1000000000000000000000000000000", "is too large"},
        {"1e30", "is too large"},
        {"1e999999999999999999999", "is too large"},
        {"1E", "is too large"},
        {"1Ei", "is too large"},
        {"18446744073709551617", "is too large"}, /* 2^64 + 1 */
        {"184467440737095516170000", "is too large"},
        {"16Ei", "is too large"}, /* 2^64 */
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        uint64_t value = 77;
        gt_auto_err struct gt_err *err = NULL;
        int r = gt_quantity_read(cases[i].text, strlen(cases[i].text), 1000000, "gpu", &value, &err);
        if (r != -EINVAL || value != 77 || !strstr(gt_err_text(err), cases[i].why))
            fail_msg("%s: %d %s, expected it %s", cases[i].text, r, gt_err_text(err), cases[i].why);
    }
    gt_auto_err struct gt_err *err = NULL;
    uint64_t value;
    assert_int_equal(gt_quantity_read("-1", 2, 1000000, "metax-tech.com/gpu", &value, &err), -EINVAL);
    assert_string_equal(gt_err_text(err), "metax-tech.com/gpu: \"-1\" is negative, expected 0 to 1000000");
}

/* Against plain arithmetic: each mantissa with each suffix. */
static void test_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t multiply, divide;
    } suffixes[] = {{"n", 1, 1000000000}, {"u", 1, 1000000}, {"m", 1, 1000},   {"", 1, 1},
                    {"k", 1000, 1},       {"M", 1000000, 1}, {"Ki", 1024, 1},  {"Mi", 1 << 20, 1},
                    {"e0", 1, 1},         {"e-2", 1, 100},   {"E4", 10000, 1}, {"G", 1000000000, 1},
                    {"Gi", 1 << 30, 1},   {"e6", 1000000, 1}};
    for (unsigned thousandths = 0; thousandths < 30000; thousandths += thousandths < 3000 ? 1 : 125) {
        for (unsigned i = 0; i < GT_COUNT(suffixes); i++) {
            char text[64];
            int len = snprintf(text, sizeof(text), "%u.%03u%s", thousandths / 1000, thousandths % 1000,
                               suffixes[i].text);
            uint64_t up = thousandths * suffixes[i].multiply, down = 1000 * suffixes[i].divide, value = 0;
            bool negative = true;
            enum gt_quantity got = gt_quantity_parse(text, (size_t)len, 5000000, &negative, &value);
            enum gt_quantity expected = up % down              ? GT_QUANTITY_FRACTION
                                        : up / down <= 5000000 ? GT_QUANTITY_OK
                                                               : GT_QUANTITY_TOO_LARGE;
            /* A value with both errors may get either message. */
            bool both = up % down && up / down > 5000000 && got == GT_QUANTITY_TOO_LARGE;
            if (!both && (got != expected || (got == GT_QUANTITY_OK && (value != up / down || negative))))
                fail_msg("%s: %d, %llu", text, got, (unsigned long long)value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_suffixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
