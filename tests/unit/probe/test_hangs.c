/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "topology/probe/prober.h"

static const uint32_t device[] = {3}, other[] = {4}, pair[] = {3, 4};

/* Looks every five seconds, from `from_s` on; how many of them ask. */
static unsigned asked(struct gt_hangs *hangs, unsigned from_s, unsigned to_s)
{
    unsigned count = 0;
    for (unsigned s = from_s; s < to_s; s += 5) {
        if (gt_hangs_wait(hangs, "f", 1, device, s * 1000ULL))
            continue;
        gt_hangs_failed(hangs, "f", 1, device, "timeout", s * 1000ULL);
        count++;
    }
    return count;
}

static void waits_longer_and_longer(void **state)
{
    (void)state;
    static struct gt_hangs hangs;
    assert_int_equal(asked(&hangs, 0, 15), 3);    /* at 0, 5, 10 */
    assert_int_equal(asked(&hangs, 15, 85), 3);   /* at 20, 40, 80 */
    assert_int_equal(asked(&hangs, 85, 685), 10); /* every minute */
    assert_string_equal(gt_hangs_wait(&hangs, "f", 1, device, 681000), "timeout");
    assert_null(gt_hangs_wait(&hangs, "g", 1, device, 681000));
    assert_null(gt_hangs_wait(&hangs, "f", 1, other, 681000));
    assert_null(gt_hangs_wait(&hangs, "f", 2, pair, 681000));
    gt_hangs_answered(&hangs, "f", 1, device);
    assert_int_equal(hangs.count, 0);
    assert_int_equal(asked(&hangs, 700, 715), 3);
}

static void what_names_no_device(void **state)
{
    (void)state;
    static struct gt_hangs hangs;
    for (unsigned i = 0; i < 10; i++)
        gt_hangs_failed(&hangs, "f", 0, NULL, "timeout", i);
    assert_null(gt_hangs_wait(&hangs, "f", 0, NULL, 10));
    gt_hangs_answered(&hangs, "f", 0, NULL);
    assert_int_equal(hangs.count, 0);
}

static void has_a_limit(void **state)
{
    (void)state;
    static struct gt_hangs hangs;
    for (uint32_t i = 0; i < 3 * GT_HANGS_LIST; i++)
        for (unsigned k = 0; k < GT_HANGS_FREE; k++)
            gt_hangs_failed(&hangs, "f", 1, &i, "ended", 1000 + i);
    assert_int_equal(hangs.count, GT_HANGS_LIST);
    uint32_t first = 0, last = 3 * GT_HANGS_LIST - 1;
    assert_null(gt_hangs_wait(&hangs, "f", 1, &first, 1200));
    assert_non_null(gt_hangs_wait(&hangs, "f", 1, &last, 1200));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_longer_and_longer),
        cmocka_unit_test(what_names_no_device),
        cmocka_unit_test(has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
