/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/pod_plan.h"
#include "base/err.h"
#include "tests/unit/seed.h"

/* The reader gets what the writer has written: the same containers with the same IDs in the same order. */

enum { PLANS = 3000 };

static uint64_t state_of_random;

static unsigned below(unsigned n)
{
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (unsigned)(state_of_random >> 33) % n;
}

struct made {
    char names[GT_POD_PLAN_CONTAINERS_MAX + 1][64];
    char ids[GT_GPUS_MAX + 1][GT_ID_SIZE];
    const char *of[GT_POD_PLAN_CONTAINERS_MAX + 1][GT_GPUS_MAX + 1];
    struct gt_planned_container containers[GT_POD_PLAN_CONTAINERS_MAX + 1];
};

/* `count` containers of up to `most` IDs, with every length of a name and of an ID. The '-' keeps the IDs
 * apart: 4 with "5D" would else be 45 with "D". */
static void make(struct made *made, unsigned count, unsigned most)
{
    for (unsigned i = 0; i <= GT_GPUS_MAX; i++) {
        int len = snprintf(made->ids[i], GT_ID_SIZE, "%u-%c", i, '!' + (char)below('~' - '!' + 1));
        unsigned until = (unsigned)len + below(below(8) ? 40 : GT_ID_SIZE - (unsigned)len);
        while ((unsigned)len < until)
            made->ids[i][len++] = (char)('!' + below('~' - '!' + 1));
        made->ids[i][len] = '\0';
    }
    for (unsigned c = 0; c < count; c++) {
        snprintf(made->names[c], sizeof(made->names[c]), "c%u%.*s", c, (int)below(60),
                 "-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
        unsigned ids = 1 + below(most), first = below(GT_GPUS_MAX);
        for (unsigned i = 0; i < ids; i++)
            made->of[c][i] = made->ids[(first + i) % GT_GPUS_MAX];
        made->containers[c] = (struct gt_planned_container){made->names[c], made->of[c], ids};
    }
}

static void what_is_written_is_read(void **state)
{
    struct made made;
    unsigned too_long = 0;
    (void)state;
    for (unsigned n = 0; n < PLANS; n++) {
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
        gt_auto_free struct gt_pod_plan *plan = NULL;
        gt_auto_err struct gt_err *err = NULL;
        unsigned count = below(n % 4 ? 6 : GT_POD_PLAN_CONTAINERS_MAX + 1);
        make(&made, count, n % 3 ? 8 : GT_GPUS_MAX);
        int r = gt_pod_plan_write(made.containers, count, &text, &err);
        if (r == -E2BIG) {
            assert_int_equal(text.len, 0);
            too_long++;
            continue;
        }
        if (r < 0)
            fail_msg("%s", gt_err_text(err));
        if (gt_pod_plan_read(text.data, &plan, &err) < 0)
            fail_msg("%s, of %s", gt_err_text(err), text.data);
        assert_int_equal(plan->count, count);
        for (unsigned c = 0; c < count; c++) {
            const struct gt_planned_container *want = &made.containers[c], *got = &plan->containers[c];
            assert_string_equal(got->name, want->name);
            assert_int_equal(got->count, want->count);
            for (unsigned i = 0; i < want->count; i++)
                assert_string_equal(got->ids[i], want->ids[i]);
        }
    }
    assert_true(too_long > 0 && too_long < PLANS / 2);
}

/* Each of these, written or read, is refused with the same words. */
static void nothing_is_written_that_is_not_read(void **state)
{
    static const char *const twice[] = {"GPU-a", "GPU-a"}, *const odd[] = {"GPU a"},
                             *const fine[] = {"GPU-a"};
    static char long_name[65];
    const struct {
        struct gt_planned_container containers[2];
        unsigned count;
        const char *text;
    } cases[] = {
        {{{"c", fine, 0}}, 1, "{\"c\":[]}"},
        {{{"c", twice, 2}}, 1, "{\"c\":[\"GPU-a\",\"GPU-a\"]}"},
        {{{"c", odd, 1}}, 1, "{\"c\":[\"GPU a\"]}"},
        {{{"", fine, 1}}, 1, "{\"\":[\"GPU-a\"]}"},
        {{{"c", fine, 1}, {"c", fine, 1}}, 2, "{\"c\":[\"GPU-a\"],\"c\":[\"GPU-a\"]}"},
        {{{long_name, fine, 1}}, 1, NULL},
    };
    (void)state;
    memset(long_name, 'x', sizeof(long_name) - 1);
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 10);
        gt_auto_err struct gt_err *wrote = NULL, *read = NULL;
        gt_auto_free struct gt_pod_plan *plan = NULL;
        assert_int_equal(gt_pod_plan_write(cases[i].containers, cases[i].count, &text, &wrote), -EINVAL);
        assert_int_equal(text.len, 0);
        if (!cases[i].text)
            continue;
        assert_int_equal(gt_pod_plan_read(cases[i].text, &plan, &read), -EINVAL);
        assert_null(plan);
        assert_string_equal(gt_err_text(read), gt_err_text(wrote));
    }
}

static void limits(void **state)
{
    struct made made;
    (void)state;
    make(&made, GT_POD_PLAN_CONTAINERS_MAX + 1, 1);
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_auto_free struct gt_pod_plan *plan = NULL;
    assert_int_equal(gt_pod_plan_write(made.containers, GT_POD_PLAN_CONTAINERS_MAX + 1, &text, NULL),
                     -EINVAL);
    gt_buf_puts(&text, "{\"c\":[\"GPU-a\"]}");
    while (text.len <= GT_POD_PLAN_TEXT_MAX)
        gt_buf_puts(&text, " ");
    assert_int_equal(gt_pod_plan_read(text.data, &plan, NULL), -EINVAL);
    text.data[GT_POD_PLAN_TEXT_MAX] = '\0';
    assert_int_equal(gt_pod_plan_read(text.data, &plan, NULL), 0);
    assert_int_equal(plan->count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(nothing_is_written_that_is_not_read),
        cmocka_unit_test(limits),
    };
    state_of_random = test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
