/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/shared_gpus.h"

static void each_sign_alone(void **state)
{
    static const struct {
        struct gt_shares shares;
        const char *why;
    } cases[] = {
        {{.offered = 3}, "the kubelet offers 3 metax-tech.com/sgpu"},
        {{.in_use = 1}, "containers hold 1 metax-tech.com/sgpu"},
        {{.annotated = true}, "the Node has the annotation metax-tech.com/node-gpu-devices"},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gt_shares shares = cases[i].shares;
        char why[128];
        assert_true(gt_shares_evaluate(&shares, 5));
        assert_true(shares.withdrawn);
        assert_false(gt_shares_evaluate(&shares, 6)); /* no change */
        gt_shares_why(&shares, why, sizeof(why));
        assert_string_equal(why, cases[i].why);
    }
}

static void over_after_a_while(void **state)
{
    struct gt_shares shares = {0};
    char why[128];
    (void)state;
    assert_false(gt_shares_evaluate(&shares, 1));
    gt_shares_why(&shares, why, sizeof(why));
    assert_string_equal(why, "");
    shares.offered = 8;
    assert_true(gt_shares_evaluate(&shares, 1000));
    assert_false(gt_shares_evaluate(&shares, 900000));
    shares.offered = 0; /* the vendor's plugin is starting again */
    assert_false(gt_shares_evaluate(&shares, 900000 + GT_SHARES_GONE_MS - 1));
    gt_shares_why(&shares, why, sizeof(why));
    assert_non_null(strstr(why, "last sign"));
    shares.in_use = 1;
    assert_false(gt_shares_evaluate(&shares, 2000000));
    shares.in_use = 0;
    assert_false(gt_shares_evaluate(&shares, 2000000 + GT_SHARES_GONE_MS - 1));
    assert_true(gt_shares_evaluate(&shares, 2000000 + GT_SHARES_GONE_MS));
    assert_false(shares.withdrawn);
}

static void annotations(void **state)
{
    (void)state;
    assert_true(gt_shares_annotation_counts("[{\"uuid\":\"GPU-1\"}]"));
    assert_true(gt_shares_annotation_counts(" [1]"));
    assert_true(gt_shares_annotation_counts("what is this?"));
    assert_false(gt_shares_annotation_counts("[]"));
    assert_false(gt_shares_annotation_counts(" [\n] "));
    assert_false(gt_shares_annotation_counts(" "));
    assert_false(gt_shares_annotation_counts(""));
    assert_false(gt_shares_annotation_counts(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sign_alone),
        cmocka_unit_test(over_after_a_while),
        cmocka_unit_test(annotations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
