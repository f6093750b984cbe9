/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "scheduler-ext/companion/view.h"

static struct gt_groups *parse(const char *text)
{
    struct gt_groups *groups = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_groups_read(text, strlen(text), &groups, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return groups;
}

static void expect_error(const char *text, const char *word)
{
    struct gt_groups *groups = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_true(gt_groups_read(text, strlen(text), &groups, &err) < 0);
    assert_null(groups);
    if (!strstr(gt_err_text(err), word))
        fail_msg("\"%s\" does not say %s", gt_err_text(err), word);
}

static void expect_note(const struct gt_groups *groups, const char *word)
{
    for (uint32_t i = 0; i < groups->note_count; i++)
        if (strstr(groups->notes[i], word))
            return;
    fail_msg("nothing is noted about %s", word);
}

static void test_good(void **state)
{
    (void)state;
    gt_auto_groups struct gt_groups *groups =
        parse("groups:\n"
              "- name: hall\n  tier: 2\n"
              "- {name: r1, parent: hall, nodes: [a, 'n[8,10-11].x', n09]}\n"
              "- {name: r2, tier: '1', nodes: null, parent: null}\n");
    assert_int_equal(groups->count, 3);
    assert_int_equal(groups->note_count, 0);
    assert_string_equal(groups->items[0].name, "hall");
    assert_int_equal(groups->items[0].tier, 2);
    assert_null(groups->items[0].parent);
    const struct gt_join_group *r1 = &groups->items[1];
    const char *nodes[] = {"a", "n8.x", "n10.x", "n11.x", "n09"};
    assert_int_equal(r1->tier, 1);
    assert_string_equal(r1->parent, "hall");
    assert_int_equal(r1->node_count, GT_COUNT(nodes));
    for (unsigned i = 0; i < GT_COUNT(nodes); i++)
        assert_string_equal(r1->nodes[i], nodes[i]);
    gt_auto_groups struct gt_groups *wide = parse("groups: [{name: w, nodes: ['r[001-003]n', 'x[0-0]']}]");
    assert_int_equal(wide->items[0].node_count, 4);
    assert_string_equal(wide->items[0].nodes[2], "r003n");
    assert_string_equal(wide->items[0].nodes[3], "x0");
    gt_auto_groups struct gt_groups *json = parse("{\"groups\": [{\"name\": \"j\", \"tier\": 3}]}");
    assert_int_equal(json->items[0].tier, 3);
    gt_auto_groups struct gt_groups *none = parse("");
    assert_int_equal(none->count, 0);
    gt_auto_groups struct gt_groups *null = parse("groups:\n");
    assert_int_equal(null->count, 0);
}

static void test_tiers(void **state)
{
    (void)state;
    gt_auto_groups struct gt_groups *groups = parse(
        "tiers: [{tier: 1, bandwidthGBps: 50}, {tier: 3, bandwidthGBps: '7.6'}, 7, {tier: 9, bandwidthGBps: "
        "1},\n"
        " {tier: 2, bandwidthGBps: 0}, {tier: 4, bandwidthGBps: 1e9}, {tier: 5, bandwidthGBps: fast}]\n");
    const double expected[GT_JOIN_TIERS_MAX + 1] = {[1] = 50, [3] = 7.6};
    for (unsigned tier = 0; tier <= GT_JOIN_TIERS_MAX; tier++)
        assert_true(groups->gbps[tier] == expected[tier]);
    assert_int_equal(groups->note_count, 5);
    expect_note(groups, "tiers[2]: tier: a number from 1 to 8 is expected");
    expect_note(groups, "tiers[3]: tier");
    expect_note(groups, "tiers[4]: bandwidthGBps: GB/s above 0, at most 100000, are expected");
    expect_note(groups, "tiers[5]: bandwidthGBps");
    expect_note(groups, "tiers[6]: bandwidthGBps");
    gt_auto_groups struct gt_groups *other = parse("tiers: 7\ngroups: []\n");
    expect_note(other, "tiers: a list is expected");
}

static void test_mistakes(void **state)
{
    (void)state;
    gt_auto_groups struct gt_groups *groups = parse(
        "groups:\n- 7\n- {}\n- {name: [x]}\n- {name: a, tier: -1}\n- {name: b, tier: [1]}\n"
        "- {name: c, nodes: x}\n- {name: d, nodes: [[x], {}, '', 'n[1-', 'n[5-2]', 'n[1-2][3-4]', ok]}\n"
        "- {name: e, parent: [x], color: red, node: x}\n- {name: f, nodes: ['n[0-9999999999]', ']x']}\n");
    assert_int_equal(groups->count, 4); /* c, d, e, f */
    assert_int_equal(groups->items[1].node_count, 1);
    assert_string_equal(groups->items[1].nodes[0], "ok");
    expect_note(groups, "groups[0] has no name");
    expect_note(groups, "groups[2] has no name");
    expect_note(groups, "group a: tier");
    expect_note(groups, "group b: tier");
    expect_note(groups, "group c: nodes");
    expect_note(groups, "n[5-2]");
    expect_note(groups, "n[1-2][3-4]");
    expect_note(groups, "group e: parent");
    expect_note(groups, "group e: \"color\" is no key of a group");
    expect_note(groups, "group e: \"node\" is no key of a group, did you mean nodes?");
    expect_note(groups, "n[0-9999999999]");
    expect_note(groups, "]x");
}

static void test_errors(void **state)
{
    (void)state;
    expect_error("groups: [", "line");
    expect_error("groups: 7", "list");
    expect_error("[]", "groups");
    expect_error("x: 1", "groups");
    expect_error("a: 1\na: 2", "twice");
    expect_error("a: &a [*a]", "levels");
    expect_error("--- {}\n--- {}", "more than one");
    expect_error("? [x]\n: y", "key");
    expect_error("groups: [{name: a, nodes: ['n[0-99999]', 'm[0-99999]']}]", "nodes");
    gt_auto_buf struct gt_buf bomb = GT_BUF(1 << 20);
    gt_buf_puts(&bomb, "a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (char c = 'b'; c < 'k'; c++)
        gt_buf_printf(&bomb, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c - 1, c - 1, c - 1,
                      c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
    expect_error(bomb.data, "entries");
    gt_auto_buf struct gt_buf wide = GT_BUF(1 << 20);
    for (unsigned i = 0; i < 5000; i++)
        gt_buf_printf(&wide, "k%u: 1\n", i);
    expect_error(wide.data, "keys");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
