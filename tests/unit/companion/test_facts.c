/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "scheduler-ext/companion/facts.h"

static bool hand_in(struct gt_facts *facts, bool (*in)(struct gt_facts *, const cJSON *), const char *text)
{
    cJSON *object = cJSON_Parse(text);
    assert_non_null(object);
    bool changed = in(facts, object);
    cJSON_Delete(object);
    return changed;
}

static struct gt_facts *make(void)
{
    struct gt_facts *facts = NULL;
    assert_int_equal(gt_facts_new("rack", true, &facts, NULL), 0);
    return facts;
}

static struct gt_fact only(const struct gt_facts *facts)
{
    uint32_t count = 0;
    const struct gt_fact **list = gt_facts_list(facts, &count);
    assert_int_equal(count, 1);
    struct gt_fact fact = *list[0];
    free(list);
    return fact;
}

#define NODE(name, label)                                                                                    \
    "{\"metadata\":{\"name\":\"" name "\",\"uid\":\"u\",\"labels\":{\"rack\":" label "}}}"

static void test_nodes_and_reports(void **state)
{
    gt_auto_facts struct gt_facts *facts = make();
    const char *report = "{\"metadata\":{\"name\":\"b\"},\"status\":{\"gpuCount\":8,\"freeCount\":3,"
                         "\"supernode\":{\"uuid\":\"me\",\"remote\":[\"x\",\"y\"]},\"conditions\":[{\"type\":"
                         "\"LinksHealthy\",\"status\":\"False\"}],\"gpus\":[{\"index\":0,\"product\":\"P\"}],"
                         "\"observedAt\":\"%d\"}}";
    (void)state;
    assert_true(hand_in(facts, gt_facts_topology, report));
    uint32_t count = 1;
    free(gt_facts_list(facts, &count));
    assert_int_equal(count, 0); /* no Node, so no node */
    assert_true(hand_in(facts, gt_facts_node, NODE("b", "\"r1\"")));
    assert_false(hand_in(facts, gt_facts_node, NODE("b", "\"r1\"")));
    assert_true(hand_in(facts, gt_facts_node, NODE("b", "\"r2\"")));
    assert_false(hand_in(facts, gt_facts_topology, report)); /* a heartbeat */
    struct gt_fact fact = only(facts);
    assert_string_equal(fact.label, "r2");
    assert_string_equal(fact.server_uuid, "me");
    assert_int_equal(fact.remote_count, 2);
    assert_string_equal(fact.remotes[1], "y");
    assert_int_equal(fact.gpus, 8);
    assert_int_equal(fact.free, 3);
    assert_int_equal(fact.links, GT_FACT_LINKS_DOWN);
    assert_string_equal(fact.gpu_text, "[{\"attributes\":{\"index\":\"0\",\"product\":\"P\"}}]");
    assert_true(gt_facts_topology_gone(facts, "b"));
    assert_false(gt_facts_topology_gone(facts, "b"));
    assert_int_equal(only(facts).gpus, -1);
    assert_true(gt_facts_node_gone(facts, "b"));
    assert_false(gt_facts_node_gone(facts, "b"));
}

static void test_nonsense(void **state)
{
    gt_auto_facts struct gt_facts *facts = make();
    static const char *const statuses[] = {
        "7",
        "[]",
        "null",
        "\"x\"",
        "{\"gpuCount\":-1}",
        "{\"gpuCount\":65}",
        "{\"gpuCount\":1.5}",
        "{\"gpuCount\":1e300}",
        "{\"gpuCount\":\"8\"}",
        "{\"gpuCount\":2,\"freeCount\":3}",
        "{\"supernode\":{\"uuid\":7,\"remote\":{\"a\":\"b\"}}}",
        "{\"supernode\":[1],\"gpus\":7}",
        "{\"conditions\":{\"type\":\"LinksHealthy\"},\"gpus\":[7,null,{\"index\":-1,\"product\":[]}]}",
        "{\"conditions\":[7,{\"type\":\"LinksHealthy\",\"status\":7}]}",
    };
    (void)state;
    hand_in(facts, gt_facts_node, NODE("a", "7"));
    assert_null(only(facts).label);
    for (unsigned i = 0; i < GT_COUNT(statuses); i++) {
        char text[512];
        snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"a\"},\"status\":%s}", statuses[i]);
        hand_in(facts, gt_facts_topology, text);
        struct gt_fact fact = only(facts);
        assert_null(fact.server_uuid);
        assert_int_equal(fact.free, -1);
        assert_int_equal(fact.links, GT_FACT_LINKS_UNKNOWN);
        assert_true(fact.gpus == -1 || fact.gpus == 2);
    }
    assert_false(hand_in(facts, gt_facts_node, "{}"));
    assert_false(hand_in(facts, gt_facts_node, "{\"metadata\":7}"));
    assert_false(hand_in(facts, gt_facts_topology, "[]"));
    cJSON *object = cJSON_Parse("{\"metadata\":{\"name\":\"a\"},\"status\":{\"supernode\":{\"remote\":[]}}}");
    cJSON *remote = cJSON_GetObjectItem(
        cJSON_GetObjectItem(cJSON_GetObjectItem(object, "status"), "supernode"), "remote");
    for (unsigned i = 0; i < 1000; i++)
        cJSON_AddItemToArray(remote, cJSON_CreateString("r"));
    assert_true(gt_facts_topology(facts, object));
    assert_int_equal(only(facts).remote_count, GT_FACT_REMOTES_MAX);
    cJSON_Delete(object);
}

/* Names come and go in any order; the list is those with a Node, by name. */
static void test_random(void **state)
{
    enum { N = 40 };
    bool node[N] = {0}, report[N] = {0};
    unsigned seed = (unsigned)time(NULL);
    gt_auto_facts struct gt_facts *facts = make();
    (void)state;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 4000; round++) {
        int i = rand() % N;
        char name[16], text[256];
        snprintf(name, sizeof(name), "n%02d", i);
        snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"%s\"},\"status\":{\"gpuCount\":%d}}", name,
                 rand() % 3);
        switch (rand() % 4) {
        case 0:
            assert_int_equal(hand_in(facts, gt_facts_node, text), !node[i]);
            node[i] = true;
            break;
        case 1:
            assert_int_equal(gt_facts_node_gone(facts, name), node[i]);
            node[i] = false;
            break;
        case 2:
            hand_in(facts, gt_facts_topology, text);
            report[i] = true;
            break;
        default:
            assert_int_equal(gt_facts_topology_gone(facts, name), report[i]);
            report[i] = false;
        }
        uint32_t count = 0, want = 0;
        const struct gt_fact **list = gt_facts_list(facts, &count);
        for (int k = 0; k < N; k++) {
            if (!node[k])
                continue;
            snprintf(name, sizeof(name), "n%02d", k);
            assert_true(want < count);
            assert_string_equal(list[want]->name, name);
            assert_int_equal(list[want++]->has_topology, report[k]);
        }
        assert_int_equal(want, count);
        free(list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_and_reports),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
