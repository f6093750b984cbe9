/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/companion/servers.h"

/* Nodes as "name uuid", in any order; without a UUID: silent. */
static struct gt_facts *make_facts(const char *const *nodes)
{
    struct gt_facts *facts = NULL;
    assert_int_equal(gt_facts_new(NULL, false, &facts, NULL), 0);
    for (; *nodes; nodes++) {
        char name[32] = "", uuid[32] = "", text[160];
        sscanf(*nodes, "%31s %31s", name, uuid);
        snprintf(text, sizeof(text),
                 "{\"metadata\":{\"name\":\"%s\"},\"status\":{\"supernode\":{\"uuid\":\"%s\"}}}", name, uuid);
        cJSON *object = cJSON_Parse(text);
        gt_facts_node(facts, object);
        gt_facts_topology(facts, object);
        cJSON_Delete(object);
    }
    return facts;
}

static void settle(struct gt_servers *servers, const char *const *nodes)
{
    gt_auto_facts struct gt_facts *facts = make_facts(nodes);
    uint32_t count;
    gt_auto_free const struct gt_fact **list = gt_facts_list(facts, &count);
    assert_non_null(list);
    assert_int_equal(gt_servers_settle(servers, list, count, NULL), 0);
}

#define SETTLE(servers, ...) settle(servers, (const char *const[]){__VA_ARGS__, NULL})

static void expect(const struct gt_servers *servers, const char *uuid, const char *node)
{
    const char *holder = gt_servers_holder(servers, uuid);
    if (node ? !holder || strcmp(holder, node) != 0 : holder != NULL)
        fail_msg("%s: held by %s, expected %s", uuid, holder ? holder : "nobody", node ? node : "nobody");
}

static void test_who_has_it_keeps_it(void **state)
{
    (void)state;
    gt_auto_servers struct gt_servers *servers = NULL;
    assert_int_equal(gt_servers_new(&servers, NULL), 0);
    expect(servers, "u1", NULL);
    assert_null(gt_servers_holder(servers, NULL));
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
        "{\"status\":{\"source\":\"report\",\"members\":[{\"node\":\"b\",\"server\":\"u1\"},"
        "{\"node\":\"gone\",\"server\":\"u2\"},{\"node\":\"d\"},{\"server\":\"u3\"},7,null]}}";
    gt_auto_servers struct gt_servers *servers = NULL;
    assert_int_equal(gt_servers_new(&servers, NULL), 0);
    gt_servers_learn(servers, "theirs", GT_APPLY_SET_FOREIGN, have);
    gt_servers_learn(servers, "odd", GT_APPLY_SET_OURS, "{\"status\":{\"members\":{\"a\":[]}}}");
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
