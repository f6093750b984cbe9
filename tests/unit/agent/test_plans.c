/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/plans.h"
#include "base/buf.h"

static struct gt_plan_counts counts_of(const struct gt_plan_table *table)
{
    struct gt_plan_counts counts;
    gt_plan_table_counts(table, &counts);
    return counts;
}

static struct gt_plan_table *new_table(void)
{
    struct gt_plan_table *table = NULL;
    assert_return_code(gt_plan_table_new(&table, NULL), 0);
    return table;
}

static int set(struct gt_plan_table *table, const char *pod, const char *uid, const char *text)
{
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_plan_table_set(table, "default", pod, uid, text, &err);
    assert_int_equal(r < 0, err != NULL);
    if (err)
        assert_non_null(strstr(gt_err_text(err), pod));
    return r;
}

static void follows_pods(void **state)
{
    (void)state;
    gt_auto_plan_table struct gt_plan_table *table = new_table();
    assert_int_equal(set(table, "none", "1", NULL), 1);
    assert_int_equal(set(table, "none", "1", NULL), 0);
    assert_int_equal(set(table, "p", "2", "{\"main\": [\"GPU-a\", \"GPU-b\"], \"side\": [\"GPU-c\"]}"), 1);
    assert_int_equal(set(table, "p", "2", "{\"main\": [\"GPU-a\", \"GPU-b\"], \"side\": [\"GPU-c\"]}"), 0);
    assert_int_equal(set(table, "q", "3", "{\"main\": [\"GPU-d\"]}"), 1);
    assert_int_equal(counts_of(table).pods, 2);
    assert_int_equal(counts_of(table).containers, 3);
    gt_auto_plans struct gt_plans *plans = NULL;
    assert_return_code(gt_plan_table_snapshot(table, true, &plans, NULL), 0);
    assert_int_equal(plans->count, 3);
    assert_true(plans->is_complete);
    assert_int_equal(plans->known_count, 3);
    assert_string_equal(plans->known[0].pod, "none");
    unsigned seen = 0;
    for (unsigned i = 0; i < plans->count; i++)
        if (strcmp(plans->plans[i].pod, "p") == 0 && strcmp(plans->plans[i].container, "main") == 0) {
            seen++;
            assert_int_equal(plans->plans[i].count, 2);
            assert_string_equal(plans->plans[i].ids[1], "GPU-b");
            assert_string_equal(plans->plans[i].namespace, "default");
        }
    assert_int_equal(seen, 1);
    assert_int_equal(set(table, "p", "2", NULL), 1); /* the annotation is gone */
    assert_true(gt_plan_table_drop(table, "default", "q"));
    assert_false(gt_plan_table_drop(table, "default", "q"));
    assert_false(gt_plan_table_drop(table, "other", "p"));
    assert_int_equal(counts_of(table).containers, 0);
    assert_string_equal(plans->plans[0].namespace, "default"); /* the snapshot has its own copy */
    gt_auto_plans struct gt_plans *empty = NULL;
    assert_return_code(gt_plan_table_snapshot(table, false, &empty, NULL), 0);
    assert_int_equal(empty->count, 0);
    assert_false(empty->is_complete);
}

static void refuses_what_is_no_plan(void **state)
{
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "3",
        "{",
        "{\"c\": []}",
        "{\"c\": {}}",
        "{\"c\": \"GPU-a\"}",
        "{\"c\": [1]}",
        "{\"c\": [\"\"]}",
        "{\"c\": [\"a b\"]}",
        "{\"c\": [\"GPU-\\u00e9\"]}",
        "{\"c\": [\"GPU-a\", \"GPU-a\"]}",
        "{\"c\": [\"GPU-a\"], \"c\": [\"GPU-b\"]}",
        "{\"c\": [\"GPU-a\"]} x",
        "{\"c\": [[[\"GPU-a\"]]]}",
    };
    (void)state;
    gt_auto_plan_table struct gt_plan_table *table = new_table();
    for (unsigned i = 0; i < GT_COUNT(bad); i++) {
        assert_int_equal(set(table, "p", "1", "{\"c\": [\"GPU-a\"]}"), 1);
        assert_int_equal(set(table, "p", "1", bad[i]), -EINVAL);
        assert_int_equal(set(table, "p", "1", bad[i]), 0); /* reported once */
        assert_int_equal(counts_of(table).pods, 0);        /* the earlier valid plan is dropped, too */
        assert_int_equal(counts_of(table).refused, i + 1);
    }
    assert_int_equal(set(table, "p", "1", "{}"), 1); /* a valid plan without containers */
}

static void keeps_its_limits(void **state)
{
    (void)state;
    gt_auto_plan_table struct gt_plan_table *table = new_table();
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_buf_puts(&text, "{\"c\": [\"GPU-0\"");
    for (unsigned i = 1; i <= GT_GPUS_MAX; i++)
        gt_buf_printf(&text, ", \"GPU-%u\"", i);
    gt_buf_puts(&text, "]}");
    assert_int_equal(set(table, "p", "1", text.data), -EINVAL);
    gt_buf_consume(&text, text.len);
    for (unsigned i = 0; i < 17; i++) /* as many as a pod may have, not 16 */
        gt_buf_printf(&text, "%s\"c%u\": [\"GPU-%u\"]", i ? ", " : "{", i, i);
    gt_buf_puts(&text, "}");
    assert_int_equal(set(table, "p", "1", text.data), 1);
    gt_buf_consume(&text, text.len);
    for (unsigned i = 0; i < 20000; i++)
        gt_buf_puts(&text, "[");
    assert_int_equal(set(table, "p", "1", text.data), -EINVAL);
    for (unsigned i = 0; i < GT_PLANS_KNOWN_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "p%u", i);
        assert_int_equal(set(table, name, "1", "{\"c\": [\"GPU-a\"], \"d\": [\"GPU-b\"]}"), 1);
    }
    assert_int_equal(set(table, "more", "1", "{\"c\": [\"GPU-a\"]}"), -E2BIG);
    assert_int_equal(set(table, "p0", "1", NULL), 1);
    assert_int_equal(set(table, "more", "1", "{\"c\": [\"GPU-a\"], \"d\": [\"GPU-b\"], \"e\": [\"GPU-c\"]}"),
                     -E2BIG); /* one container too many */
    assert_int_equal(set(table, "more", "1", "{\"c\": [\"GPU-a\"]}"), 1);
}

struct mismatch_seen {
    unsigned count;
    char container[32], planned[128], actual[128];
};

static void on_mismatch(void *arg, const struct gt_plan_mismatch *mismatch)
{
    struct mismatch_seen *seen = arg;
    seen->count++;
    snprintf(seen->container, sizeof(seen->container), "%s", mismatch->container);
    snprintf(seen->planned, sizeof(seen->planned), "%s", mismatch->planned);
    snprintf(seen->actual, sizeof(seen->actual), "%s", mismatch->actual);
}

static void compare(struct gt_plan_table *table, const struct gt_device_user *users, unsigned count,
                    bool settling, struct mismatch_seen *seen)
{
    const struct gt_device_uses uses = {.users = users, .count = count, .settling = settling};
    gt_plan_table_compare(table, &uses, on_mismatch, seen);
}

static void compares(void **state)
{
    const struct gt_device_user right[] = {{"default", "p", "c", "GPU-b", NULL, NULL},
                                           {"default", "p", "c", "GPU-a", NULL, NULL},
                                           {"other", "p", "c", "GPU-x", NULL, NULL}};
    const struct gt_device_user wrong[] = {{"default", "p", "c", "GPU-a", NULL, NULL},
                                           {"default", "p", "c", "GPU-x", NULL, NULL}};
    const struct gt_device_user fewer[] = {{"default", "p", "c", "GPU-a", NULL, NULL}};
    struct mismatch_seen seen = {0};
    (void)state;
    gt_auto_plan_table struct gt_plan_table *table = new_table();
    assert_int_equal(set(table, "p", "1", "{\"c\": [\"GPU-a\", \"GPU-b\"], \"init\": [\"GPU-a\"]}"), 1);
    compare(table, right, 0, false, &seen);
    compare(table, right, 3, false, &seen);
    compare(table, right, 3, false, &seen);
    compare(table, wrong, 2, false, &seen); /* it was reported already */
    assert_int_equal(counts_of(table).as_planned, 1);
    assert_int_equal(counts_of(table).otherwise, 0);
    /* the same name, another pod: what is listed first may still be of the one before */
    assert_int_equal(set(table, "p", "2", "{\"c\": [\"GPU-a\", \"GPU-b\"]}"), 1);
    compare(table, wrong, 2, false, &seen);
    compare(table, wrong, 0, false, &seen);
    compare(table, right, 3, false, &seen);
    assert_int_equal(counts_of(table).as_planned, 2);
    assert_int_equal(seen.count, 0);
    /* now it is reported */
    assert_int_equal(set(table, "p", "3", "{\"c\": [\"GPU-a\", \"GPU-b\"]}"), 1);
    compare(table, wrong, 2, true, &seen);
    compare(table, wrong, 2, true, &seen);
    compare(table, wrong, 2, false, &seen);
    assert_int_equal(seen.count, 0);
    compare(table, wrong, 2, false, &seen);
    compare(table, wrong, 2, false, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(counts_of(table).otherwise, 1);
    assert_string_equal(seen.container, "c");
    assert_string_equal(seen.planned, "GPU-a,GPU-b");
    assert_string_equal(seen.actual, "GPU-a,GPU-x");
    assert_int_equal(set(table, "p", "4", "{\"c\": [\"GPU-a\", \"GPU-b\"]}"), 1);
    compare(table, fewer, 1, false, &seen);
    compare(table, fewer, 1, false, &seen);
    assert_int_equal(seen.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_pods),
        cmocka_unit_test(refuses_what_is_no_plan),
        cmocka_unit_test(keeps_its_limits),
        cmocka_unit_test(compares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
