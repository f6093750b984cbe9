/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/movable.h"

static bool is_due(const char *text, uint64_t created_s, uint64_t now_s)
{
    struct gt_movable movable;
    assert_true(gt_movable_read(text, &movable));
    return gt_movable_is_due(&movable, created_s, now_s);
}

static void what_it_says(void **state)
{
    (void)state;
    assert_true(is_due("true", 100, 100));
    assert_false(is_due("false", 100, 1000000));
    assert_true(is_due("after-checkpoint", 100, 100));
    assert_false(is_due("90m", 100, 5499));
    assert_true(is_due("90m", 100, 5500));
    assert_false(is_due("2d", 0, 172799));
    assert_true(is_due("2d", 0, 172800));
}

static void hours_of_the_day(void **state)
{
    const uint64_t day = 86400 * 20000;
    (void)state;
    assert_true(is_due("22:00-06:00", 0, day + 22 * 3600));
    assert_true(is_due("22:00-06:00", 0, day + 5 * 3600 + 3599));
    assert_false(is_due("22:00-06:00", 0, day + 6 * 3600));
    assert_false(is_due("09:30-10:00", 0, day + 9 * 3600));
    assert_true(is_due("09:30-10:00", 0, day + 9 * 3600 + 1800));
    assert_false(is_due("09:30-10:00", 0, day + 10 * 3600));
}

static void what_is_wrong(void **state)
{
    static const char *const wrong[] = {"",
                                        "yes",
                                        "True",
                                        "0s",
                                        "h",
                                        "6",
                                        "-6h",
                                        "6 h",
                                        "366d",
                                        "99999999999999999999h",
                                        "22:00",
                                        "22:00-06:0",
                                        "22:00-06:000",
                                        "24:00-06:00",
                                        "22:60-06:00",
                                        "22:00-22:00",
                                        "22-00-06:00",
                                        "after-checkpoints"};
    struct gt_movable movable = {.after_s = 7};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_false(gt_movable_read(wrong[i], &movable));
    assert_int_equal(movable.after_s, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says),
        cmocka_unit_test(hours_of_the_day),
        cmocka_unit_test(what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
