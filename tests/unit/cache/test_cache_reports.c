/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cache/cache_world.h"
#include "tests/unit/seed.h"

/* What supernodes are made from: reports of nodes, also of those that are not in the cluster. */

static unsigned changes;

static void on_report(void *arg)
{
    (void)arg;
    changes++;
}

static struct gt_cache *make(void)
{
    return new_cache(&(struct gt_cache_spec){
        .reports = true, .gpu_attributes = true, .supernode_labels = "rack,row", .on_report = on_report});
}

/* Whether that was a change. */
static bool is_news(void)
{
    unsigned seen = changes;
    changes = 0;
    return seen > 0;
}

static struct gt_cache_report only(const struct gt_cache *cache)
{
    uint32_t count = 0;
    gt_auto_free const struct gt_cache_report **list = gt_cache_reports(cache, &count);
    assert_int_equal(count, 1);
    return *list[0];
}

static uint32_t count_of(const struct gt_cache *cache)
{
    uint32_t count = UINT32_MAX;
    free(gt_cache_reports(cache, &count));
    return count;
}

static void test_nodes_and_reports(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = make();
    const struct world_topology *report = TOPOLOGY(.name = "b", .gpus = 2, .unnamed = 1, .link_down = true,
                                                   .server = "me", .remotes = "[\"x\",\"y\"]");
    is_news();
    give_topology(cache, report, 1);
    assert_true(is_news());
    assert_int_equal(count_of(cache), 0); /* no Node, so no node */
    give_node(cache, NODE(.name = "b", .labels = "{\"row\":\"r1\"}"));
    assert_true(is_news());
    give_node(cache, NODE(.name = "b", .labels = "{\"row\":\"r1\",\"other\":\"x\"}", .cordoned = true));
    assert_false(is_news());
    give_node(cache, NODE(.name = "b", .labels = "{\"row\":\"r1\",\"rack\":\"r2\"}"));
    assert_true(is_news());
    give_topology(cache, report, 2); /* a heartbeat */
    assert_false(is_news());
    struct gt_cache_report got = only(cache);
    assert_string_equal(got.name, "b");
    assert_string_equal(got.label, "r2");
    assert_true(got.is_filled);
    assert_string_equal(got.server_uuid, "me");
    assert_int_equal(got.remote_count, 2);
    assert_string_equal(got.remotes[1], "y");
    assert_int_equal(got.gpus, 2);
    assert_int_equal(got.free, 1);
    assert_int_equal(got.links, GT_CONDITION_FALSE);
    assert_string_equal(got.gpu_attributes,
                        "[{\"attributes\":{\"index\":\"0\",\"product\":\"MXC550\",\"bdf\":\"0000:01:00.0\","
                        "\"numaNode\":\"0\",\"zone\":\"0\",\"health\":\"healthy\",\"healthy\":\"true\"}},"
                        "{\"attributes\":{\"index\":\"1\",\"product\":\"MXC550\",\"bdf\":\"0000:02:00.0\","
                        "\"numaNode\":\"0\",\"zone\":\"0\",\"health\":\"healthy\",\"healthy\":\"true\"}}]");
    gt_cache_topology_deleted(cache, "b");
    assert_true(is_news());
    gt_cache_topology_deleted(cache, "b");
    assert_false(is_news());
    got = only(cache);
    assert_int_equal(got.gpus, -1);
    assert_false(got.is_filled);
    assert_null(got.server_uuid);
    gt_cache_node_deleted(cache, "b");
    assert_true(is_news());
    gt_cache_node_deleted(cache, "b");
    assert_false(is_news());
    assert_int_equal(count_of(cache), 0);
}

/* Each fact alone is a change. */
static void test_each_fact(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = make();
    const struct world_topology *const reports[] = {
        TOPOLOGY(.name = "b", .gpus = 2, .server = "me"),
        TOPOLOGY(.name = "b", .gpus = 2, .server = "you"),
        TOPOLOGY(.name = "b", .gpus = 2, .server = "you", .remotes = "[\"x\"]"),
        TOPOLOGY(.name = "b", .gpus = 2, .server = "you", .remotes = "[\"y\"]"),
        TOPOLOGY(.name = "b", .gpus = 2, .server = "you", .remotes = "[\"y\"]", .unnamed = 1),
        TOPOLOGY(.name = "b", .gpus = 2, .server = "you", .remotes = "[\"y\"]", .unnamed = 1,
                 .link_down = true),
        TOPOLOGY(.name = "b", .gpus = 2, .server = "you", .remotes = "[\"y\"]", .silent_on_usage = true,
                 .link_down = true),
        TOPOLOGY(.name = "b", .gpus = 2, .server = "you", .remotes = "[\"y\"]", .silent_on_usage = true,
                 .link_down = true, .unknown = 1),
        TOPOLOGY(.name = "b", .gpus = 3),
        TOPOLOGY(.name = "b"),
    };
    give_node(cache, NODE(.name = "b"));
    is_news();
    for (unsigned i = 0; i < GT_COUNT(reports); i++) {
        give_topology(cache, reports[i], i);
        if (!is_news())
            fail_msg("report %u is not news", i);
        give_topology(cache, reports[i], i);
        assert_false(is_news());
        assert_int_equal(only(cache).free, reports[i]->silent_on_usage ? -1
                                           : reports[i]->unnamed       ? 1
                                                                       : (int)reports[i]->gpus);
    }
}

/* A node without GPUs may be in a supernode. It is not in the cluster. */
static void test_node_without_gpus(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = make();
    give_plain_node(cache, "b");
    assert_int_equal(gt_cluster_nodes(gt_cache_cluster(cache)), 1);
    give_topology(cache, TOPOLOGY(.name = "b", .server = "me"), 2);
    assert_int_equal(gt_cluster_find_node(gt_cache_cluster(cache), "b"), GT_NONE);
    assert_int_equal(only(cache).gpus, 0);
    assert_string_equal(only(cache).server_uuid, "me");
    give_plain_node(cache, "b");
    assert_int_not_equal(gt_cluster_find_node(gt_cache_cluster(cache), "b"), GT_NONE);
    assert_int_equal(only(cache).gpus, 8);
}

/* The last sound state stays, and the object is counted. */
static void test_nonsense(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = make();
    static const char *const statuses[] = {
        "{\"gpus\":[],\"supernode\":{\"uuid\":7}}",
        "{\"gpus\":[],\"supernode\":[1]}",
        "{\"gpus\":[],\"supernode\":{\"remote\":{\"a\":\"b\"}}}",
        "{\"gpus\":[7]}",
        "{\"gpus\":7,\"supernode\":{\"uuid\":\"you\"}}",
        "{\"gpus\":[],\"free\":[0]}",
    };
    give_node(cache, NODE(.name = "a"));
    give_topology(cache, TOPOLOGY(.name = "a", .gpus = 2, .server = "me"), 1);
    is_news();
    for (unsigned i = 0; i < GT_COUNT(statuses); i++) {
        char text[256];
        snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"a\"},\"status\":%s}", statuses[i]);
        cJSON *object = cJSON_Parse(text);
        assert_non_null(object);
        gt_cache_topology(cache, object, 2);
        cJSON_Delete(object);
        assert_int_equal(refused(cache), i + 1);
        assert_false(is_news());
        assert_string_equal(only(cache).server_uuid, "me");
        assert_int_equal(only(cache).gpus, 2);
    }
    cJSON *bare = cJSON_Parse("{\"metadata\":{\"name\":\"a\"},\"status\":{\"gpuCount\":2}}");
    gt_cache_topology(cache, bare, 3);
    cJSON_Delete(bare);
    assert_true(is_news());
    assert_int_equal(only(cache).gpus, -1); /* not filled */
}

/* Without placement Nodes are known by their metadata only. */
static void test_reports_only(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(&(struct gt_cache_spec){
        .reports = true, .reports_only = true, .supernode_labels = "rack", .on_report = on_report});
    cJSON *node = cJSON_Parse("{\"metadata\":{\"name\":\"a\",\"labels\":{\"rack\":\"r\",\"x\":\"y\"}}}");
    gt_cache_node(cache, node);
    cJSON_Delete(node);
    assert_string_equal(only(cache).label, "r");
    give_topology(cache, TOPOLOGY(.name = "a", .gpus = 2), 1);
    assert_int_equal(only(cache).gpus, 2);
    assert_null(only(cache).gpu_attributes);
    give_supernode(cache, SUPERNODE(.name = "s", .tier = 1, .members = {"a"}));
    assert_int_equal(gt_cluster_nodes(gt_cache_cluster(cache)), 0);
    assert_int_equal(gt_cluster_supernodes(gt_cache_cluster(cache)), 0);
    gt_cache_topology_deleted(cache, "a");
    assert_int_equal(only(cache).gpus, -1);
}

/* Names come and go in any order; the list is those with a Node, by name. */
static void test_random(void **state)
{
    enum { N = 40, ROUNDS = 3000 };
    bool node[N] = {0}, report[N] = {0};
    (void)state;
    gt_auto_cache struct gt_cache *cache = make();
    srand((unsigned)test_seed());
    size_t empty = heap_bytes();
    for (int round = 0; round < ROUNDS + 2 * N; round++) {
        int i = round < ROUNDS ? rand() % N : (round - ROUNDS) % N;
        char name[16];
        snprintf(name, sizeof(name), "n%02d", i);
        is_news();
        switch (round < ROUNDS ? rand() % 4 : round < ROUNDS + N ? 1 : 3) {
        case 0:
            give_node(cache, NODE(.name = name));
            assert_int_equal(is_news(), !node[i]);
            node[i] = true;
            break;
        case 1:
            gt_cache_node_deleted(cache, name);
            assert_int_equal(is_news(), node[i]);
            node[i] = false;
            break;
        case 2:
            give_topology(cache, TOPOLOGY(.name = name, .gpus = (unsigned)rand() % 3, .server = name), 1);
            report[i] = true;
            break;
        default:
            gt_cache_topology_deleted(cache, name);
            assert_int_equal(is_news(), report[i]);
            report[i] = false;
        }
        uint32_t count = 0, want = 0;
        gt_auto_free const struct gt_cache_report **list = gt_cache_reports(cache, &count);
        for (int k = 0; k < N; k++) {
            if (!node[k])
                continue;
            snprintf(name, sizeof(name), "n%02d", k);
            assert_true(want < count);
            assert_string_equal(list[want]->name, name);
            assert_int_equal(list[want++]->is_filled, report[k]);
        }
        assert_int_equal(want, count);
    }
    assert_true(heap_bytes() < empty + 65536);
}

/* The labels of the network go with their Node. */
static void test_network_labels_are_forgotten(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache =
        new_cache(&(struct gt_cache_spec){.reports = true, .network_labels = "x/leaf"});
    size_t before = 0;
    for (unsigned i = 0; i < 100; i++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "{\"x/leaf\":\"leaf-%03u\"}", i);
        give_node(cache, NODE(.name = "n", .labels = labels));
        gt_cache_node_deleted(cache, "n");
        if (i == 50)
            before = heap_bytes();
    }
    assert_true(heap_bytes() < before + 4096);
    give_node(cache, NODE(.name = "n", .labels = "{\"x/leaf\":\"l1\"}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_and_reports),
        cmocka_unit_test(test_each_fact),
        cmocka_unit_test(test_node_without_gpus),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_reports_only),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_network_labels_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
