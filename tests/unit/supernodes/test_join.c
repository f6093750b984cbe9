/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "scheduler-ext/supernodes/join.h"
#include "tests/unit/seed.h"

#define TEXTS(...) ((const char *const[]){__VA_ARGS__}), GT_COUNT(((const char *const[]){__VA_ARGS__}))

static struct gt_join *join(const struct gt_join_node *nodes, uint32_t node_count,
                            const struct gt_join_group *groups, uint32_t group_count)
{
    struct gt_join *result = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_join_supernodes(&(struct gt_join_input){nodes, node_count, groups, group_count, NULL}, &result,
                           &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return result;
}

/* The supernode's name of a node, "" for one of itself. */
static const char *where(const struct gt_join *j, uint32_t node)
{
    return j->supernode_of[node] == GT_JOIN_NONE ? "" : j->supernodes[j->supernode_of[node]].name;
}

static unsigned problems(const struct gt_join *j, enum gt_join_problem_kind kind, const char *culprit)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < j->problem_count; i++)
        count += j->problems[i].kind == kind && strstr(j->problems[i].text, culprit);
    return count;
}

/* Members are in their supernode's run, and nowhere else. */
static void check_members(const struct gt_join *j)
{
    uint32_t placed = 0, listed = 0;
    for (uint32_t i = 0; i < j->node_count; i++)
        placed += j->supernode_of[i] != GT_JOIN_NONE;
    for (uint32_t s = 0; s < j->supernode_count; s++) {
        listed += j->supernodes[s].count;
        for (uint32_t i = 0; i < j->supernodes[s].count; i++)
            assert_int_equal(j->supernode_of[j->members[j->supernodes[s].first + i]], s);
    }
    assert_int_equal(placed, listed);
}

static void test_reports(void **state)
{
    const struct gt_join_node nodes[] = {
        {"a", "u1", TEXTS("u2", "u3"), NULL, NULL}, {"b", "u2", TEXTS("u1"), NULL, NULL},
        {"c", "u3", TEXTS("u1", "u9"), NULL, NULL}, /* u9 is not of this cluster */
        {"d", "u4", TEXTS("u5"), NULL, NULL},       {"e", "u5", TEXTS("u4"), NULL, NULL},
        {"alone", "u6", NULL, 0, NULL, NULL},       {"silent", NULL, NULL, 0, NULL, NULL},
    };
    (void)state;
    gt_auto_join struct gt_join *j = join(nodes, GT_COUNT(nodes), NULL, 0);
    assert_int_equal(j->supernode_count, 2);
    assert_string_not_equal(where(j, 0), "");
    assert_string_equal(where(j, 0), where(j, 1));
    assert_string_equal(where(j, 0), where(j, 2));
    assert_string_equal(where(j, 3), where(j, 4));
    assert_string_not_equal(where(j, 0), where(j, 3));
    assert_string_equal(where(j, 5), "");
    assert_string_equal(where(j, 6), "");
    assert_int_equal(j->problem_count, 0);
    check_members(j);

    /* The name stays when the member that gave it is away, as long as another one sees it. */
    gt_auto_join struct gt_join *less = join(nodes + 1, 1, NULL, 0);
    assert_int_equal(less->supernode_count, 0);
    const struct gt_join_node rest[] = {{"d", "u4", TEXTS("u5", "u0"), NULL, NULL},
                                        {"e", "u5", TEXTS("u4"), NULL, NULL}};
    const struct gt_join_node whole[] = {{"d", "u4", TEXTS("u5", "u0"), NULL, NULL},
                                         {"e", "u5", TEXTS("u4"), NULL, NULL},
                                         {"f", "u0", TEXTS("u4"), NULL, NULL}};
    gt_auto_join struct gt_join *two = join(rest, 2, NULL, 0);
    gt_auto_join struct gt_join *three = join(whole, 3, NULL, 0);
    assert_string_equal(where(two, 0), where(three, 0));
    assert_string_equal(where(three, 2), where(three, 0));
}

static void test_conflicting_reports(void **state)
{
    const struct gt_join_node nodes[] = {
        {"a", "u1", TEXTS("u2"), NULL, NULL}, {"b", "u2", NULL, 0, NULL, NULL},     /* does not see a */
        {"c", "u3", TEXTS("u4"), NULL, NULL}, {"d", "u3", TEXTS("u4"), NULL, NULL}, /* the same server as c */
        {"e", "u4", TEXTS("u3"), NULL, NULL}, {"f", "u5", TEXTS("u6", "u0"), NULL, NULL},
        {"g", "u6", TEXTS("u5"), NULL, NULL}, {"h", "u7", TEXTS("u8", "u0"), NULL, NULL},
        {"i", "u8", TEXTS("u7"), NULL, NULL},
    };
    (void)state;
    gt_auto_join struct gt_join *j = join(nodes, GT_COUNT(nodes), NULL, 0);
    for (uint32_t i = 0; i < 5; i++)
        assert_string_equal(where(j, i), "");
    assert_int_equal(problems(j, GT_JOIN_ASYMMETRIC, "a sees b over MetaXLink, but b does not see a"), 1);
    assert_int_equal(problems(j, GT_JOIN_SAME_UUID, "nodes c and d"), 1);
    assert_string_not_equal(where(j, 5), where(j, 7));
    assert_string_equal(where(j, 5), where(j, 6));
    assert_string_equal(where(j, 7), where(j, 8));
    assert_int_equal(problems(j, GT_JOIN_SPLIT, "server u0"), 1);
    check_members(j);
}

/* A taken node that says it is another server than it is. */
static void test_a_uuid_that_is_taken(void **state)
{
    (void)state;
    const struct gt_join_node nodes[] = {
        {"x", "u1", TEXTS("u2", "u3"), NULL, "a"}, /* before its victim in every order */
        {"a", "u1", TEXTS("u2"), NULL, "a"},
        {"b", "u2", TEXTS("u1"), NULL, "b"},
        {"y", "u3", TEXTS("u1", "u2"), NULL, "c"}, /* c is silent */
        {"c", NULL, NULL, 0, NULL, NULL},
        {"z", "u1", TEXTS("u2"), "rack", "a"}, /* something else places it: it is told all the same */
        {"v", "u4", TEXTS("u1"), NULL, "gone"},
    };
    gt_auto_join struct gt_join *j = join(nodes, GT_COUNT(nodes), NULL, 0);
    assert_string_not_equal(where(j, 1), "");
    assert_string_equal(where(j, 1), where(j, 2));
    assert_string_equal(where(j, 0), "");
    assert_string_equal(where(j, 3), "");
    assert_string_equal(where(j, 5), "rack");
    assert_int_equal(
        problems(j, GT_JOIN_TAKEN_UUID, "node x reports server UUID u1, which is that of node a"), 1);
    assert_int_equal(
        problems(j, GT_JOIN_TAKEN_UUID, "node y reports server UUID u3, which is that of node c"), 1);
    assert_int_equal(problems(j, GT_JOIN_TAKEN_UUID, ""), 4);
    assert_int_equal(j->problem_count, 4);
    for (uint32_t i = 0; i < j->problem_count; i++)
        assert_string_not_equal(nodes[j->problems[i].node].name, "a");
    check_members(j);
    /* Its name is what it is without them. */
    gt_auto_join struct gt_join *alone = join(nodes + 1, 2, NULL, 0);
    assert_string_equal(where(j, 1), where(alone, 0));
}

static void test_priority(void **state)
{
    const struct gt_join_node nodes[] = {
        {"a", "u1", TEXTS("u2", "u3"), "rack-7", NULL},
        {"b", "u2", TEXTS("u1", "u3"), "rack-7", NULL},
        {"c", "u3", TEXTS("u1", "u2"), NULL, NULL},
        {"d", "u4", NULL, 0, "rack-7", NULL},
    };
    const struct gt_join_group groups[] = {
        {"pod1", 1, "hall", TEXTS("a")},
        {"hall", 2, NULL, NULL, 0},
    };
    (void)state;
    gt_auto_join struct gt_join *j = join(nodes, GT_COUNT(nodes), groups, GT_COUNT(groups));
    assert_string_equal(where(j, 0), "pod1");
    assert_string_equal(where(j, 1), "rack-7");
    assert_string_equal(where(j, 2), ""); /* those it sees are placed by something that counts more */
    assert_string_equal(where(j, 3), "rack-7");
    assert_int_equal(j->problem_count, 0);
    uint32_t pod1 = j->supernode_of[0];
    assert_int_equal(j->supernodes[pod1].source, GT_JOIN_CONFIG);
    assert_string_equal(j->supernodes[j->supernodes[pod1].parent].name, "hall");
    assert_int_equal(j->supernodes[j->supernode_of[1]].source, GT_JOIN_LABEL);
    check_members(j);
}

static void test_bad_configuration(void **state)
{
    const struct gt_join_node nodes[] = {{"a", NULL, NULL, 0, "Bad_Label", NULL},
                                         {"b", NULL, NULL, 0, "ring1", NULL}};
    const struct gt_join_group groups[] = {
        {"one", 1, "nowhere", TEXTS("a", "ghost")},
        {"two", 1, NULL, TEXTS("a", "b")},
        {"two", 1, NULL, TEXTS("b")},
        {"ring1", 2, "ring2", NULL, 0},
        {"ring2", 2, "ring1", NULL, 0}, /* a circle cannot be said: a parent is of a higher tier */
        {"high", 3, NULL, TEXTS("b")},
        {"Bad Name", 1, NULL, TEXTS("b")},
        {"nine", 9, NULL, NULL, 0},
        {"zero", 0, NULL, NULL, 0},
    };
    (void)state;
    gt_auto_join struct gt_join *j = join(nodes, GT_COUNT(nodes), groups, GT_COUNT(groups));
    assert_string_equal(where(j, 0), "one");
    assert_string_equal(where(j, 1), "two");
    assert_int_equal(problems(j, GT_JOIN_UNKNOWN_PARENT, "nowhere"), 1);
    assert_int_equal(problems(j, GT_JOIN_UNKNOWN_NODE, "ghost"), 1);
    assert_int_equal(problems(j, GT_JOIN_NODE_TWICE, "group two: node a is in group one"), 1);
    assert_int_equal(problems(j, GT_JOIN_GROUP_TWICE, "two"), 1);
    assert_int_equal(problems(j, GT_JOIN_BAD_TIER, "ring1 of tier 2: its parent ring2"), 1);
    assert_int_equal(problems(j, GT_JOIN_BAD_TIER, "ring2 of tier 2: its parent ring1"), 1);
    assert_int_equal(problems(j, GT_JOIN_BAD_TIER, "high of tier 3 has nodes"), 1);
    assert_int_equal(problems(j, GT_JOIN_BAD_TIER, "tier 9"), 1);
    assert_int_equal(problems(j, GT_JOIN_BAD_TIER, "tier 0"), 1);
    assert_int_equal(problems(j, GT_JOIN_BAD_NAME, "Bad Name"), 1);
    assert_int_equal(problems(j, GT_JOIN_BAD_NAME, "node a"), 0); /* the configuration places it */
    check_members(j);
}

static void test_a_label_of_a_higher_tier(void **state)
{
    const struct gt_join_node nodes[] = {{"a", NULL, NULL, 0, "hall", NULL},
                                         {"b", NULL, NULL, 0, "no good", NULL}};
    const struct gt_join_group groups[] = {{"hall", 2, NULL, NULL, 0}};
    (void)state;
    gt_auto_join struct gt_join *j = join(nodes, GT_COUNT(nodes), groups, 1);
    assert_string_equal(where(j, 0), "");
    assert_int_equal(problems(j, GT_JOIN_BAD_TIER, "label hall"), 1);
    assert_int_equal(problems(j, GT_JOIN_BAD_NAME, "node b"), 1);
}

/* Random reports against components found by plain repetition. */
static void test_random_reports(void **state)
{
    enum { N = 24 };
    srand((unsigned)test_seed());
    (void)state;
    for (int round = 0; round < 500; round++) {
        static char uuid[N][8], name[N][8];
        static const char *remotes[N][N];
        struct gt_join_node nodes[N];
        bool sees[N][N] = {{0}};
        int part[N];
        for (int i = 0; i < N; i++) {
            uint32_t count = 0;
            snprintf(uuid[i], sizeof(uuid[i]), "u%02d", i);
            snprintf(name[i], sizeof(name[i]), "n%02d", (i * 7) % N);
            for (int k = 0; k < N; k++)
                if (k != i && rand() % 14 == 0) {
                    sees[i][k] = true;
                    remotes[i][count++] = uuid[k];
                }
            nodes[i] = (struct gt_join_node){name[i], uuid[i], remotes[i], count, NULL, NULL};
            part[i] = i;
        }
        for (bool changed = true; changed;) {
            changed = false;
            for (int a = 0; a < N; a++)
                for (int b = 0; b < N; b++)
                    if (sees[a][b] && sees[b][a] && part[b] < part[a]) {
                        part[a] = part[b];
                        changed = true;
                    }
        }
        gt_auto_join struct gt_join *j = join(nodes, N, NULL, 0);
        for (int a = 0; a < N; a++)
            for (int b = 0; b < a; b++)
                assert_int_equal(part[a] == part[b], j->supernode_of[a] != GT_JOIN_NONE &&
                                                         j->supernode_of[a] == j->supernode_of[b]);
        check_members(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_conflicting_reports),
        cmocka_unit_test(test_a_uuid_that_is_taken),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_bad_configuration),
        cmocka_unit_test(test_a_label_of_a_higher_tier),
        cmocka_unit_test(test_random_reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
