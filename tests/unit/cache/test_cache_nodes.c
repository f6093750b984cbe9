/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cache/cache_world.h"

/* NodeGPUTopology, Node and Supernode: what the cluster becomes. */

static struct gt_cache_node node_of(struct gt_cache *cache, const char *name)
{
    struct gt_cache_node node;
    assert_true(gt_cache_get_node(cache, gt_cluster_find_node(gt_cache_cluster(cache), name), &node));
    return node;
}

static struct gt_cache_counters counters_of(struct gt_cache *cache)
{
    struct gt_cache_counters counters;
    gt_cache_counters(cache, &counters);
    return counters;
}

static void test_unknown_is_not_empty(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_node(cache, NODE(.name = "n1"));
    assert_int_equal(gt_cluster_find_node(gt_cache_cluster(cache), "n1"), GT_NONE);
    assert_int_equal(counters_of(cache).nodes_without_topology, 1);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unhealthy = 0x80, .owners = {{"x", 0x03}}), 5);
    struct gt_cluster_node node = cluster_node(cache, "n1");
    assert_int_equal(node.all, 0xff);
    assert_int_equal(node.healthy, 0x7f);
    assert_int_equal(node.free, 0xfc);
    assert_int_equal(node.available, 0x7c);
    assert_string_equal(node_of(cache, "n1").product, "MXC550");
    assert_int_equal(node_of(cache, "n1").observed_ms, 5);
    assert_int_equal(counters_of(cache).nodes, 1);
    assert_int_equal(counters_of(cache).nodes_without_topology, 0);
    uint32_t id = gt_cluster_find_node(gt_cache_cluster(cache), "n1");
    assert_string_equal(gt_cache_device_id(cache, id, 3), "GPU-n1-3");
    assert_null(gt_cache_device_id(cache, id, 8));
    assert_null(gt_cache_device_id(cache, 99, 0));
    gt_cache_topology_deleted(cache, "n1");
    assert_int_equal(gt_cluster_find_node(gt_cache_cluster(cache), "n1"), GT_NONE);
    gt_cache_topology_deleted(cache, "n1");
    gt_cache_topology_deleted(cache, "never");
}

static void test_eligible(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8), 1);
    assert_false(cluster_node(cache, "n1").eligible); /* no Node yet */
    give_node(cache, NODE(.name = "n1", .not_ready = true));
    assert_false(cluster_node(cache, "n1").eligible);
    give_node(cache, NODE(.name = "n1"));
    assert_true(cluster_node(cache, "n1").eligible);
    give_node(cache, NODE(.name = "n1", .cordoned = true));
    assert_false(cluster_node(cache, "n1").eligible);
    assert_true(node_of(cache, "n1").cordoned);
    give_node(cache, NODE(.name = "n1"));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .shared = true), 2);
    assert_false(cluster_node(cache, "n1").eligible); /* the vendor's plugin serves them */
    assert_true(node_of(cache, "n1").left_alone);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8), 3);
    assert_true(cluster_node(cache, "n1").eligible);
    gt_cache_node_deleted(cache, "n1");
    assert_false(cluster_node(cache, "n1").eligible);
    check_cache(cache);
}

static void test_silence(void **state)
{
    (void)state;
    const struct gt_cache_spec spec = {.stale_ms = 1000};
    gt_auto_cache struct gt_cache *cache = new_cache(&spec);
    give_node(cache, NODE(.name = "n1"));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .version = "7"), 1000);
    gt_cache_tick(cache, 2000);
    assert_true(cluster_node(cache, "n1").eligible);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .version = "7"), 2000); /* listed again */
    assert_int_equal(node_of(cache, "n1").observed_ms, 1000);
    gt_cache_tick(cache, 2001);
    assert_false(cluster_node(cache, "n1").eligible);
    assert_true(node_of(cache, "n1").stale);
    assert_int_equal(counters_of(cache).nodes_stale, 1);
    gt_cache_tick(cache, 1); /* time does not go back */
    assert_true(node_of(cache, "n1").stale);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .version = "8"), 9000);
    assert_true(cluster_node(cache, "n1").eligible);
    assert_int_equal(counters_of(cache).nodes_stale, 0);
}

static void test_earlier_node(void **state)
{
    (void)state;
    static const char old[] = "2030-01-01T00:00:00Z", new[] = "2030-01-02T00:00:00Z";
    const struct {
        const char *node_uid, *created, *written;
        bool believed;
    } cases[] = {
        {"one", old, NULL, false}, /* owned by the Node that was removed */
        {"one", new, new, false},  /* likewise, whatever its age */
        {NULL, old, NULL, false},  /* older than the Node */
        {NULL, old, old, false},
        {"two", old, old, false}, /* the agent has taken it over, and has not written its GPUs yet */
        {"two", old, new, true},
        {"two", new, NULL, true}, /* in the same second */
        {NULL, NULL, NULL, true},
    };
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_node(cache, NODE(.name = "n1", .uid = "one", .created = old));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .node_uid = "one", .created = old), 1);
    assert_true(cluster_node(cache, "n1").eligible);
    give_pod(cache, POD(.name = "p", .gpus = 1, .gated = true, .plan_node = "n1", .plan_mask = 1));
    assert_int_equal(pod_of(cache, "p")->plan, GT_CACHE_PLAN_ASSUMED);
    gt_cache_node_deleted(cache, "n1");
    give_node(cache, NODE(.name = "n1", .uid = "two", .created = new));
    assert_false(cluster_node(cache, "n1").eligible);
    assert_int_equal(pod_of(cache, "p")->plan, GT_CACHE_PLAN_LOST);
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        give_topology(cache,
                      TOPOLOGY(.name = "n1", .gpus = 8, .node_uid = cases[i].node_uid,
                               .created = cases[i].created, .written = cases[i].written),
                      i + 2);
        if (cluster_node(cache, "n1").eligible != cases[i].believed)
            fail_msg("case %zu", i);
        assert_int_equal(node_of(cache, "n1").outlived, !cases[i].believed);
        assert_int_equal(counters_of(cache).nodes_outlived, !cases[i].believed);
    }
    assert_int_equal(pod_of(cache, "p")->plan, GT_CACHE_PLAN_ASSUMED);
}

static void test_usage_not_told(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_node(cache, NODE(.name = "n1"));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .silent_on_usage = true), 1);
    assert_int_equal(cluster_node(cache, "n1").available, 0xff);
    give_pod(cache, POD(.name = "a", .gpus = 3, .node = "n1"));
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").available), 5);
}

/* Numbers in the object are its own; bits are by PCI address. */
static void test_order_of_gpus(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_node(cache, NODE(.name = "n1"));
    give_topology(cache,
                  TOPOLOGY(.name = "n1", .gpus = 4, .reversed = true, .unhealthy = 0x08,
                           .owners = {{"x", 0x01}}, .link_down = true),
                  1);
    assert_int_equal(cluster_node(cache, "n1").free, 0x0e);
    assert_int_equal(cluster_node(cache, "n1").healthy, 0x07);
    assert_true(node_of(cache, "n1").links_down);
    uint32_t id = gt_cluster_find_node(gt_cache_cluster(cache), "n1");
    assert_string_equal(gt_cache_device_id(cache, id, 0), "GPU-n1-0");
    const struct gt_class *class = cluster_node(cache, "n1").class;
    assert_true(gt_class_sum(class, 0x03) < gt_class_sum(class, 0x06)); /* the link that is down */
}

static void test_shared_classes(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    assert_ptr_equal(cluster_node(cache, "n1").class, cluster_node(cache, "n2").class);
    uint32_t before = gt_cluster_find_node(gt_cache_cluster(cache), "n2");
    give_topology(cache, TOPOLOGY(.name = "n2", .gpus = 8, .link_down = true), 2);
    assert_ptr_not_equal(cluster_node(cache, "n1").class, cluster_node(cache, "n2").class);
    assert_int_equal(gt_cluster_find_node(gt_cache_cluster(cache), "n2"), before);
}

/* A state that is invalid is refused, and the one before stays. */
static void note_rewires(void *arg, const char *node)
{
    assert_string_equal(node, "n1");
    ++*(unsigned *)arg;
}

/* A node's wiring may change now and then; one that changes it more often within an hour is said, once. */
static void test_rewired(void **state)
{
    (void)state;
    enum { MINUTE_MS = 60 * 1000 };
    unsigned said = 0;
    uint64_t now_ms = 1;
    const struct gt_cache_spec spec = {.stale_ms = UINT64_MAX, .on_rewires = note_rewires, .arg = &said};
    gt_auto_cache struct gt_cache *cache = new_cache(&spec);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8), now_ms);
    for (unsigned i = 0; i < 20; i++) /* the same wiring, and others but seldom enough */
        give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unnamed = i), ++now_ms);
    for (unsigned i = 0; i < 20; i++)
        give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .link_down = i % 2), now_ms += 16 * MINUTE_MS);
    assert_int_equal(counters_of(cache).nodes_rewired, 0);
    now_ms += 100 * MINUTE_MS;
    for (unsigned i = 0; i < 4; i++)
        give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .link_down = i % 2), now_ms += MINUTE_MS);
    assert_int_equal(said, 0);
    for (unsigned i = 0; i < 50; i++) {
        give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .link_down = i % 2), now_ms += MINUTE_MS);
        assert_int_equal(said, 1);
        assert_int_equal(counters_of(cache).nodes_rewired, 1);
    }
    gt_cache_tick(cache, now_ms += 60 * MINUTE_MS);
    assert_int_equal(counters_of(cache).nodes_rewired, 1);
    gt_cache_tick(cache, ++now_ms);
    assert_int_equal(counters_of(cache).nodes_rewired, 0);
    for (unsigned i = 0; i < 5; i++)
        give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .link_down = i % 2), now_ms += MINUTE_MS);
    assert_int_equal(said, 2);
}

static void test_refused_topologies(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static const char *const texts[] = {
        "{}",
        "null",
        "[]",
        "{\"metadata\":{\"name\":7},\"status\":{\"gpus\":[]}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"gpus\":7}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"gpus\":[{\"index\":0}]}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"gpus\":[{\"bdf\":\"0000:01:00.0\"}],\"free\":[1]}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"gpus\":[{\"bdf\":\"0000:01:00.0\"}],\"free\":[-1]}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"gpus\":[{\"bdf\":\"0000:01:00.0\"}],\"free\":{}}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"gpus\":[{\"bdf\":\"0000:01:00.0\"}],\"free\":[\"0\"]}"
        "}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"gpus\":[{\"bdf\":\"0000:01:00.0\"}],\"owners\":[{}]}}",
        "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"gpus\":[{\"bdf\":\"0000:01:00.0\"}],\"owners\":[{"
        "\"gpu\":1,"
        "\"namespace\":\"a\",\"pod\":\"b\"}]}}",
    };
    give_plain_node(cache, "n1");
    for (unsigned i = 0; i < GT_COUNT(texts); i++) {
        cJSON *object = cJSON_Parse(texts[i]);
        assert_non_null(object);
        gt_cache_topology(cache, object, 2);
        cJSON_Delete(object);
        assert_int_equal(refused(cache), i + 1);
        assert_int_equal(cluster_node(cache, "n1").available, 0xff);
    }
    gt_cache_topology(cache, NULL, 3);
    assert_int_equal(refused(cache), GT_COUNT(texts) + 1);
    /* An object that is not filled yet is no mistake. */
    cJSON *bare = cJSON_Parse("{\"metadata\":{\"name\":\"n1\"}}");
    gt_cache_topology(cache, bare, 4);
    cJSON_Delete(bare);
    assert_int_equal(refused(cache), GT_COUNT(texts) + 1);
    assert_int_equal(gt_cluster_find_node(gt_cache_cluster(cache), "n1"), GT_NONE);
}

static void test_refused_nodes(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_node(cache, NODE(.name = "n1", .labels = "{\"a\":1}"));
    give_node(cache, NODE(.name = "n1", .labels = "[]"));
    give_node(cache, NODE(.name = "n1", .labels = "[1]"));
    give_node(cache, NODE(.name = "n1", .taints = "{}"));
    give_node(cache, NODE(.name = "n1", .taints = "[{\"effect\":\"NoSchedule\"}]"));
    give_node(cache, NODE(.name = "n1", .taints = "[{\"key\":7,\"effect\":\"NoSchedule\"}]"));
    assert_int_equal(refused(cache), 6);
    assert_true(cluster_node(cache, "n1").eligible);
}

/* ---- supernodes ---- */

static struct gt_cluster_supernode super_of(struct gt_cache *cache, uint32_t id)
{
    struct gt_cluster_supernode super;
    assert_true(gt_cluster_get_supernode(gt_cache_cluster(cache), id, &super));
    return super;
}

/* "n1<s1<top": the node and the supernodes that it is in. */
static void assert_path(struct gt_cache *cache, const char *expected)
{
    gt_auto_buf struct gt_buf path = GT_BUF(1024);
    char name[64] = "";
    memcpy(name, expected, strcspn(expected, "<"));
    gt_buf_puts(&path, name);
    struct gt_cluster_node node = cluster_node(cache, name);
    for (uint32_t s = node.supernode; s != GT_NONE; s = super_of(cache, s).parent) {
        struct gt_cluster_supernode super = super_of(cache, s);
        if (!super.is_node)
            gt_buf_printf(&path, "<%s", super.name);
    }
    assert_string_equal(path.data, expected);
}

static void test_supernodes(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_supernode(cache, SUPERNODE(.name = "s1", .tier = 1, .parent = "top", .members = {"n1", "n2"}));
    give_plain_node(cache, "n1");
    assert_path(cache, "n1<s1");
    give_supernode(cache, SUPERNODE(.name = "top", .tier = 3));
    assert_path(cache, "n1<s1<top");
    give_plain_node(cache, "n2");
    give_plain_node(cache, "n3");
    assert_path(cache, "n2<s1<top");
    assert_path(cache, "n3");
    assert_int_equal(counters_of(cache).supernodes, 2);
    /* One in between comes later. */
    give_supernode(cache, SUPERNODE(.name = "s1", .tier = 1, .parent = "middle", .members = {"n1", "n3"}));
    assert_path(cache, "n1<s1");
    assert_path(cache, "n2");
    give_supernode(cache, SUPERNODE(.name = "middle", .tier = 2, .parent = "top"));
    assert_path(cache, "n1<s1<middle<top");
    assert_path(cache, "n3<s1<middle<top");
    /* The one in between gets the highest tier: it is then no valid child of its parent. */
    give_supernode(cache, SUPERNODE(.name = "middle", .tier = 4, .parent = "top"));
    assert_path(cache, "n1<s1<middle");
    gt_cache_supernode_deleted(cache, "middle");
    assert_path(cache, "n1<s1");
    gt_cache_supernode_deleted(cache, "s1");
    assert_path(cache, "n1");
    gt_cache_supernode_deleted(cache, "top");
    gt_cache_supernode_deleted(cache, "never");
    assert_int_equal(counters_of(cache).supernodes, 0);
    check_cache(cache);
}

/* An object comes before its status does: it says nothing yet, and what it said stays. */
static void test_supernode_that_is_being_made(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static const char *const texts[] = {"{\"metadata\":{\"name\":\"s1\"}}",
                                        "{\"metadata\":{\"name\":\"s1\"},\"status\":{}}"};
    give_plain_node(cache, "n1");
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < GT_COUNT(texts); i++) {
            cJSON *object = cJSON_Parse(texts[i]);
            gt_cache_supernode(cache, object);
            cJSON_Delete(object);
        }
        assert_path(cache, pass ? "n1<s1" : "n1");
        give_supernode(cache, SUPERNODE(.name = "s1", .tier = 1, .members = {"n1"}));
    }
    assert_int_equal(refused(cache), 0);
}

static void test_bad_supernodes(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_supernode(cache, SUPERNODE(.name = "s1", .tier = 0, .members = {"n1"}));
    give_supernode(cache, SUPERNODE(.name = "s1", .tier = 9, .members = {"n1"}));
    give_supernode(cache, SUPERNODE(.name = "s1", .tier = 1, .parent = "s1", .members = {"n1"}));
    assert_int_equal(refused(cache), 3);
    assert_path(cache, "n1");
    /* A circle, and tiers that do not ascend: not used as parents. */
    give_supernode(cache, SUPERNODE(.name = "a", .tier = 1, .parent = "b", .members = {"n1"}));
    give_supernode(cache, SUPERNODE(.name = "b", .tier = 2, .parent = "c"));
    give_supernode(cache, SUPERNODE(.name = "c", .tier = 2, .parent = "b"));
    assert_int_equal(refused(cache), 4);
    assert_path(cache, "n1<a<b");
    give_supernode(cache, SUPERNODE(.name = "c", .tier = 3, .parent = "b"));
    assert_path(cache, "n1<a<b<c");
    cJSON *object = cJSON_Parse(
        "{\"metadata\":{\"name\":\"a\"},\"status\":{\"tier\":1,\"members\":[{\"node\":\"n1\"},{}]}}");
    gt_cache_supernode(cache, object);
    cJSON_Delete(object);
    assert_path(cache, "n1<a<b<c");
    assert_int_equal(refused(cache), 6);
}

/* Two claim one node: the same one gets it whoever came first. */
static void test_claimed_twice(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_supernode(cache, SUPERNODE(.name = "s2", .tier = 1, .members = {"n1", "n1"}));
    assert_path(cache, "n1<s2");
    give_supernode(cache, SUPERNODE(.name = "s1", .tier = 1, .members = {"n1"}));
    assert_path(cache, "n1<s1");
    give_supernode(cache, SUPERNODE(.name = "s0", .tier = 2, .members = {"n1"}));
    assert_path(cache, "n1<s1");
    gt_cache_supernode_deleted(cache, "s1");
    assert_path(cache, "n1<s2");
    gt_cache_supernode_deleted(cache, "s2");
    assert_path(cache, "n1<s0"); /* a supernode of itself, below the inner one */
    check_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_is_not_empty),
        cmocka_unit_test(test_eligible),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_earlier_node),
        cmocka_unit_test(test_usage_not_told),
        cmocka_unit_test(test_order_of_gpus),
        cmocka_unit_test(test_shared_classes),
        cmocka_unit_test(test_rewired),
        cmocka_unit_test(test_refused_topologies),
        cmocka_unit_test(test_refused_nodes),
        cmocka_unit_test(test_supernodes),
        cmocka_unit_test(test_supernode_that_is_being_made),
        cmocka_unit_test(test_bad_supernodes),
        cmocka_unit_test(test_claimed_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
