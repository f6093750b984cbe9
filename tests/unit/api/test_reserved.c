/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/movable.h"

#define UNTIL   "2026-01-31T12:00:00Z"
#define UNTIL_S 1769860800

static bool keeps_off(const char *text, const char *job, int64_t now_s)
{
    struct gt_reserved reserved;
    assert_true(gt_reserved_read(text, &reserved));
    return gt_reserved_keeps_off(&reserved, job, now_s);
}

static void for_whom_and_when(void **state)
{
    (void)state;
    assert_true(keeps_off(UNTIL, "a/Job/x", UNTIL_S - 1));
    assert_true(keeps_off(UNTIL, NULL, UNTIL_S - 1));
    assert_false(keeps_off(UNTIL, "a/Job/x", UNTIL_S));
    assert_false(keeps_off(UNTIL " from=2026-01-31T11:00:00Z", "a/Job/x", UNTIL_S - 3601));
    assert_true(keeps_off(UNTIL " from=2026-01-31T11:00:00Z", "a/Job/x", UNTIL_S - 3600));
    assert_false(keeps_off(UNTIL " for=a", "a/Job/x", UNTIL_S - 1));
    assert_true(keeps_off(UNTIL " for=a", "ab/Job/x", UNTIL_S - 1));
    assert_true(keeps_off(UNTIL " for=a", NULL, UNTIL_S - 1));
    assert_false(keeps_off(UNTIL "  for=a/Job/x from=2026-01-31T11:00:00Z ", "a/Job/x", UNTIL_S - 1));
    assert_true(keeps_off(UNTIL " for=a/Job/x", "a/Job/xy", UNTIL_S - 1));
}

static void what_is_none(void **state)
{
    static const char *const wrong[] = {"",
                                        "tomorrow",
                                        " " UNTIL,
                                        UNTIL " for=",
                                        UNTIL " from=",
                                        UNTIL " from=x",
                                        UNTIL " from=" UNTIL,
                                        UNTIL " for=a for=b",
                                        UNTIL " a",
                                        "until=" UNTIL,
                                        "2026-01-31T12:00:00Z2026-01-31T12:00:00Z2026-01-31T12:00:00Z"};
    struct gt_reserved reserved = {.until_s = 7};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_false(gt_reserved_read(wrong[i], &reserved));
    assert_int_equal(reserved.until_s, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(for_whom_and_when),
        cmocka_unit_test(what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
