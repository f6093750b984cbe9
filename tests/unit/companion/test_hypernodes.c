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

static void expect(const struct gt_member_parents *parents, bool is_node, const char *member,
                   const char *self, const char *holder, bool foreign)
{
    bool is_foreign = !foreign;
    const char *found = gt_member_parents_find(parents, is_node, member, self, &is_foreign);
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
    gt_auto_member_parents struct gt_member_parents *parents = NULL;
    (void)state;
    assert_int_equal(gt_member_parents_new(&parents, NULL), 0);
    gt_member_parents_add(parents, "ours", GT_APPLY_SET_OURS,
                          MEMBERS(EXACT("Node", "a") "," EXACT("Node", "b")));
    gt_member_parents_add(parents, "theirs", GT_APPLY_SET_FOREIGN,
                          MEMBERS(EXACT("Node", "b") "," EXACT("HyperNode", "x")));
    gt_member_parents_add(parents, "regex", GT_APPLY_SET_FOREIGN,
                          MEMBERS(REGEX("Node", "^rack-(1|2)-n[0-9]+$") "," REGEX("HyperNode", "s[12]")));
    gt_member_parents_add(parents, "odd", GT_APPLY_SET_FOREIGN,
                          MEMBERS("7,null,{},{\"type\":7,\"selector\":[]}"));
    gt_member_parents_add(parents, "odder", GT_APPLY_SET_FOREIGN, "{\"spec\":{\"members\":{\"a\":1}}}");
    assert_true(gt_member_parents_end(parents));
    expect(parents, true, "a", "ours", NULL, false);
    expect(parents, true, "a", "other", "ours", false);
    expect(parents, false, "a", "other", NULL, false); /* a node, not a HyperNode */
    expect(parents, true, "b", "ours", "theirs", true);
    expect(parents, true, "b", "other", "theirs", true); /* what is somebody else's counts first */
    expect(parents, false, "x", "ours", "theirs", true);
    expect(parents, true, "rack-2-n17", "ours", "regex", true);
    expect(parents, true, "rack-3-n17", "ours", NULL, false);
    expect(parents, false, "as2z", "ours", "regex", true); /* not anchored, as in Go */
    expect(parents, true, "z", "ours", NULL, false);
}

static void test_what_may_hold_anything(void **state)
{
    static const char *const selectors[] = {
        "{\"type\":\"Node\",\"selector\":{\"labelMatch\":{\"matchLabels\":{\"a\":\"b\"}}}}",
        REGEX("Node", "n\\\\d+"), REGEX("Node", "(?i)N"), REGEX("Node", "n{1,1000}"), REGEX("Node", "(((")};
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(selectors); i++) {
        gt_auto_member_parents struct gt_member_parents *parents = NULL;
        char text[512];
        assert_int_equal(gt_member_parents_new(&parents, NULL), 0);
        snprintf(text, sizeof(text), MEMBERS("%s"), selectors[i]);
        gt_member_parents_add(parents, "any", GT_APPLY_SET_FOREIGN, text);
        assert_true(gt_member_parents_end(parents));
        expect(parents, true, "whatever", "ours", "any", true);
        expect(parents, false, "whatever", "ours", NULL, false);
    }
    gt_auto_member_parents struct gt_member_parents *many = NULL;
    assert_int_equal(gt_member_parents_new(&many, NULL), 0);
    for (unsigned i = 0; i < 1000; i++)
        gt_member_parents_add(many, "many", GT_APPLY_SET_FOREIGN, MEMBERS(REGEX("Node", "^no$")));
    gt_member_parents_add(many, "last", GT_APPLY_SET_FOREIGN, MEMBERS(REGEX("Node", "^yes$")));
    assert_true(gt_member_parents_end(many));
    expect(many, true, "any", "ours", "last", true); /* too many to keep: none is passed over */
    gt_auto_member_parents struct gt_member_parents *none = NULL;
    assert_int_equal(gt_member_parents_new(&none, NULL), 0);
    gt_member_parents_add(none, "broken", GT_APPLY_SET_FOREIGN, "{");
    assert_false(gt_member_parents_end(none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holders),
        cmocka_unit_test(test_what_may_hold_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
