/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/companion/view.h"
#include "tests/unit/cache/cache_world.h"

/* Nodes as "name uuid", in any order; without a UUID: silent. */
static struct gt_cache *make_cache(const char *const *nodes)
{
    struct gt_cache *cache = new_cache(&(struct gt_cache_spec){.reports = true});
    for (; *nodes; nodes++) {
        char name[32] = "", uuid[32] = "";
        sscanf(*nodes, "%31s %31s", name, uuid);
        give_node(cache, NODE(.name = name));
        give_topology(cache, TOPOLOGY(.name = name, .server = uuid), 1);
    }
    return cache;
}

static void settle(struct gt_servers *servers, const char *const *nodes)
{
    gt_auto_cache struct gt_cache *cache = make_cache(nodes);
    uint32_t count;
    gt_auto_free const struct gt_cache_report **list = gt_cache_reports(cache, &count);
    assert_non_null(list);
    assert_int_equal(gt_servers_settle(servers, list, count, NULL), 0);
}

#define SETTLE(servers, ...) settle(servers, (const char *const[]){__VA_ARGS__, NULL})

static void expect(const struct gt_servers *servers, const char *uuid, const char *node)
{
    const char *holder = gt_servers_node(servers, uuid);
    if (node ? !holder || strcmp(holder, node) != 0 : holder != NULL)
        fail_msg("%s: held by %s, expected %s", uuid, holder ? holder : "nobody", node ? node : "nobody");
}

static void test_who_has_it_keeps_it(void **state)
{
    (void)state;
    gt_auto_servers struct gt_servers *servers = NULL;
    assert_int_equal(gt_servers_new(&servers, NULL), 0);
    expect(servers, "u1", NULL);
    assert_null(gt_servers_node(servers, NULL));
    SETTLE(servers, "b u1", "c u2");
    expect(servers, "u1", "b");
    SETTLE(servers, "a u1", "b u1", "c u2", "d u1");
    expect(servers, "u1", "b");
    SETTLE(servers, "a u1", "b", "c u2"); /* it is silent for a while */
    expect(servers, "u1", "b");
    SETTLE(servers, "a u1", "b u1", "c u2");
    expect(servers, "u1", "b");
    SETTLE(servers, "a u1", "b u3", "c u2"); /* it says itself that it is another one */
    expect(servers, "u1", "a");
    expect(servers, "u3", "b");
    SETTLE(servers, "c u2", "reinstalled u1"); /* Node a was deleted */
    expect(servers, "u1", "reinstalled");
    expect(servers, "u2", "c");
    expect(servers, "u3", NULL);
}

static void test_several_at_once(void **state)
{
    (void)state;
    gt_auto_servers struct gt_servers *servers = NULL;
    assert_int_equal(gt_servers_new(&servers, NULL), 0);
    SETTLE(servers, "a u1", "b u1", "c u2");
    expect(servers, "u1", NULL);
    expect(servers, "u2", "c");
    SETTLE(servers, "a u1", "b u9", "c u2");
    expect(servers, "u1", "a");
}

static void test_what_is_published(void **state)
{
    (void)state;
    static const char have[] =
        "{\"status\":{\"tier\":1,\"source\":\"report\",\"members\":[{\"node\":\"b\",\"server\":\"u1\"},"
        "{\"node\":\"gone\",\"server\":\"u2\"},{\"node\":\"d\"}]}}";
    gt_auto_servers struct gt_servers *servers = NULL;
    assert_int_equal(gt_servers_new(&servers, NULL), 0);
    gt_servers_learn(servers, "theirs", GT_APPLY_SET_FOREIGN, have);
    gt_servers_learn(servers, "odd", GT_APPLY_SET_OURS, "{\"status\":{\"tier\":1,\"members\":{\"a\":[]}}}");
    gt_servers_learn(servers, "odd", GT_APPLY_SET_OURS,
                     "{\"status\":{\"tier\":1,\"members\":[{\"node\":\"a\",\"server\":\"u1\"},7]}}");
    gt_servers_learn(servers, "odd", GT_APPLY_SET_OURS, "no JSON");
    SETTLE(servers, "a u1", "b u1", "c u2");
    expect(servers, "u1", NULL);
    gt_servers_learn(servers, "mx-1", GT_APPLY_SET_OURS, have);
    SETTLE(servers, "a u1", "b u1", "c u2");
    expect(servers, "u1", "b"); /* a new process knows it */
    expect(servers, "u2", "c");
    gt_auto_servers struct gt_servers *other = NULL;
    assert_int_equal(gt_servers_new(&other, NULL), 0);
    SETTLE(other, "a u1", "b u7");
    expect(other, "u1", "a");
    gt_servers_learn(other, "mx-1", GT_APPLY_SET_OURS, have);
    SETTLE(other, "a u1", "b u1");
    expect(other, "u1", "b"); /* it counts more than what a follower has seen itself */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_has_it_keeps_it),
        cmocka_unit_test(test_several_at_once),
        cmocka_unit_test(test_what_is_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
