/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/unit/sim/sim_test.h"

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

/* Pictures of odd series stay pictures: no NaN, balanced, one line a policy. */
static void test_pictures(void **state)
{
    (void)state;
    static struct gt_result flat = {.samples = 1}, wild = {.samples = GT_SERIES_MAX};
    for (uint32_t i = 0; i < wild.samples; i++)
        wild.series[i] = (struct gt_sample){i * 3600.0, i % 7 / 7.0, 1.0 / (i + 1), i, i % 2};
    struct gt_report reports[] = {{.policy = "flat", .runs = 1, .run = &flat},
                                  {.policy = "wild", .runs = 1, .run = &wild}};
    for (unsigned chart = 0; gt_chart_names[chart]; chart++) {
        gt_auto_buf struct gt_buf to = GT_BUF(1 << 20);
        gt_report_chart(reports, 2, "a <b> & c", (enum gt_chart)chart, GT_AXIS_HOURS, &to);
        assert_false(to.failed);
        assert_null(strstr(to.data, "nan"));
        assert_null(strstr(to.data, "inf"));
        assert_non_null(strstr(to.data, "a &lt;b&gt; &amp; c"));
        unsigned lines = 0;
        for (const char *p = to.data; (p = strstr(p, "<polyline")); p++)
            lines++;
        assert_int_equal(lines, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mean), cmocka_unit_test(test_pictures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
