/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/companion/view.h"

#define EXACT(type, name) "{\"type\":\"" type "\",\"selector\":{\"exactMatch\":{\"name\":\"" name "\"}}}"
#define REGEX(type, text) "{\"type\":\"" type "\",\"selector\":{\"regexMatch\":{\"pattern\":\"" text "\"}}}"
#define MEMBERS(...)      "{\"spec\":{\"members\":[" __VA_ARGS__ "]}}"

static void expect(const struct gt_holders *holders, bool is_node, const char *member, const char *self,
                   const char *holder, bool foreign)
{
    bool is_foreign = !foreign;
    const char *found = gt_holders_find(holders, is_node, member, self, &is_foreign);
    if (!holder) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_string_equal(found, holder);
    assert_int_equal(is_foreign, foreign);
}

static void test_holders(void **state)
{
    gt_auto_holders struct gt_holders *holders = NULL;
    (void)state;
    assert_int_equal(gt_holders_new(&holders, NULL), 0);
    gt_holders_add(holders, "ours", GT_APPLY_SET_OURS, MEMBERS(EXACT("Node", "a") "," EXACT("Node", "b")));
    gt_holders_add(holders, "theirs", GT_APPLY_SET_FOREIGN,
                   MEMBERS(EXACT("Node", "b") "," EXACT("HyperNode", "x")));
    gt_holders_add(holders, "regex", GT_APPLY_SET_FOREIGN,
                   MEMBERS(REGEX("Node", "^rack-(1|2)-n[0-9]+$") "," REGEX("HyperNode", "s[12]")));
    gt_holders_add(holders, "odd", GT_APPLY_SET_FOREIGN, MEMBERS("7,null,{},{\"type\":7,\"selector\":[]}"));
    gt_holders_add(holders, "odder", GT_APPLY_SET_FOREIGN, "{\"spec\":{\"members\":{\"a\":1}}}");
    assert_true(gt_holders_end(holders));
    expect(holders, true, "a", "ours", NULL, false);
    expect(holders, true, "a", "other", "ours", false);
    expect(holders, false, "a", "other", NULL, false); /* a node, not a HyperNode */
    expect(holders, true, "b", "ours", "theirs", true);
    expect(holders, true, "b", "other", "theirs", true); /* what is somebody else's counts first */
    expect(holders, false, "x", "ours", "theirs", true);
    expect(holders, true, "rack-2-n17", "ours", "regex", true);
    expect(holders, true, "rack-3-n17", "ours", NULL, false);
    expect(holders, false, "as2z", "ours", "regex", true); /* not anchored, as in Go */
    expect(holders, true, "z", "ours", NULL, false);
}

static void test_what_may_hold_anything(void **state)
{
    static const char *const selectors[] = {
        "{\"type\":\"Node\",\"selector\":{\"labelMatch\":{\"matchLabels\":{\"a\":\"b\"}}}}",
        REGEX("Node", "n\\\\d+"), REGEX("Node", "(?i)N"), REGEX("Node", "n{1,1000}"), REGEX("Node", "(((")};
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(selectors); i++) {
        gt_auto_holders struct gt_holders *holders = NULL;
        char text[512];
        assert_int_equal(gt_holders_new(&holders, NULL), 0);
        snprintf(text, sizeof(text), MEMBERS("%s"), selectors[i]);
        gt_holders_add(holders, "any", GT_APPLY_SET_FOREIGN, text);
        assert_true(gt_holders_end(holders));
        expect(holders, true, "whatever", "ours", "any", true);
        expect(holders, false, "whatever", "ours", NULL, false);
    }
    gt_auto_holders struct gt_holders *many = NULL;
    assert_int_equal(gt_holders_new(&many, NULL), 0);
    for (unsigned i = 0; i < 1000; i++)
        gt_holders_add(many, "many", GT_APPLY_SET_FOREIGN, MEMBERS(REGEX("Node", "^no$")));
    gt_holders_add(many, "last", GT_APPLY_SET_FOREIGN, MEMBERS(REGEX("Node", "^yes$")));
    assert_true(gt_holders_end(many));
    expect(many, true, "any", "ours", "last", true); /* too many to keep: none is passed over */
    gt_auto_holders struct gt_holders *none = NULL;
    assert_int_equal(gt_holders_new(&none, NULL), 0);
    gt_holders_add(none, "broken", GT_APPLY_SET_FOREIGN, "{");
    assert_false(gt_holders_end(none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holders),
        cmocka_unit_test(test_what_may_hold_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
