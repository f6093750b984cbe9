/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scheduler-ext/sim/result.h"

static double occupancy(const struct gt_result *run)
{
    return run->occupancy;
}

/* 1, 2, 3: mean 2, s = 1, t(2) = 4.303: half width 4.303 / sqrt(3). */
static void test_mean(void **state)
{
    (void)state;
    static struct gt_result runs[3] = {{.occupancy = 1}, {.occupancy = 2}, {.occupancy = 3}};
    struct gt_report report = {.policy = "p", .runs = 3, .run = runs};
    struct gt_mean mean = gt_report_mean(&report, occupancy);
    assert_true(fabs(mean.mean - 2) < 1e-12 && fabs(mean.ci95 - 4.303 / sqrt(3)) < 1e-9);
    report.runs = 1;
    mean = gt_report_mean(&report, occupancy);
    assert_true(mean.mean == 1 && mean.ci95 == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mean)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
