/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/names.h"
#include "base/json_get.h"
#include "scheduler-ext/companion/view.h"
#include "tests/unit/cache/cache_world.h"

/* A cluster of n00, n01...: 8 GPUs each, i of them free in node i; n03 is silent, n04's links are down; of
 * n02 two GPUs are unhealthy. */
static struct gt_cache *make_cache(unsigned count)
{
    struct gt_cache *cache = new_cache(&(struct gt_cache_spec){.reports = true, .gpu_attributes = true});
    for (unsigned i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%02u", i);
        give_node(cache, NODE(.name = name));
        if (i != 3)
            give_topology(cache,
                          TOPOLOGY(.name = name, .gpus = 8, .unnamed = 0xff >> i % 9,
                                   .unhealthy = i == 2 ? 0x03 : 0, .link_down = i == 4),
                          1);
    }
    return cache;
}

static struct gt_groups *groups_of(const char *text)
{
    struct gt_groups *groups = NULL;
    assert_int_equal(gt_groups_read(text, strlen(text), &groups, NULL), 0);
    return groups;
}

static cJSON *status_of(const struct gt_view *view, const char *name, const struct gt_projected *projected)
{
    for (uint32_t s = 0; s < view->join->supernode_count; s++) {
        if (strcmp(view->join->supernodes[s].name, name) != 0)
            continue;
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
        gt_view_write_supernode(view, s, projected, &text);
        cJSON *desired = cJSON_ParseWithOpts(text.data, NULL, true);
        assert_non_null(desired);
        cJSON *status = cJSON_DetachItemFromObject(desired, "status");
        cJSON_Delete(desired);
        return status;
    }
    fail_msg("there is no %s", name);
    return NULL;
}

static double number(const cJSON *status, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(status, key);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

static void expect_condition(const cJSON *status, const char *type, const char *value, const char *reason,
                             const char *word)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(status, "conditions"))
    {
        if (strcmp(gt_get_string(entry, "type"), type) != 0)
            continue;
        assert_string_equal(gt_get_string(entry, "status"), value);
        assert_string_equal(gt_get_string(entry, "reason"), reason);
        if (!strstr(gt_get_string(entry, "message"), word))
            fail_msg("\"%s\" does not say %s", gt_get_string(entry, "message"), word);
        return;
    }
    fail_msg("no condition %s", type);
}

static void test_sums(void **state)
{
    gt_auto_cache struct gt_cache *cache = make_cache(6);
    gt_auto_groups struct gt_groups *groups = groups_of(
        "groups: [{name: a, parent: ab, nodes: [n00, n01, n02]}, {name: b, parent: ab, nodes: [n03, n04]},"
        " {name: ab, tier: 2, parent: top}, {name: top, tier: 5}, {name: none}, {name: high, tier: 3}]");
    gt_auto_view struct gt_view *view = NULL;
    (void)state;
    assert_int_equal(gt_view_make(cache, &(struct gt_view_spec){.groups = groups}, &view, NULL), 0);
    cJSON *a = status_of(view, "a", NULL), *b = status_of(view, "b", NULL),
          *top = status_of(view, "top", NULL), *none = status_of(view, "none", NULL),
          *high = status_of(view, "high", NULL);
    assert_int_equal(number(a, "capacity"), 22);
    assert_int_equal(number(a, "free"), 3);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(a, "linksHealthy")));
    expect_condition(a, "Ready", "True", "Complete", "every node");
    assert_int_equal(number(b, "nodes"), 2);
    assert_int_equal(number(b, "capacity"), 8);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(b, "linksHealthy")));
    expect_condition(b, "Ready", "False", "NodesSilent", "n03");
    assert_int_equal(number(top, "nodes"), 5);
    assert_int_equal(number(top, "capacity"), 30);
    assert_int_equal(number(top, "free"), 7);
    assert_null(cJSON_GetObjectItem(top, "members"));
    expect_condition(top, "Ready", "False", "NodesSilent", "1 of 5");
    expect_condition(none, "Ready", "False", "Empty", "none of its nodes");
    assert_null(cJSON_GetObjectItem(none, "linksHealthy"));
    expect_condition(high, "Ready", "False", "Empty", "parent");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(b, "members")), 2);
    cJSON *silent = cJSON_GetArrayItem(cJSON_GetObjectItem(b, "members"), 0);
    assert_null(cJSON_GetObjectItem(silent, "gpus"));
    cJSON_Delete(a);
    cJSON_Delete(b);
    cJSON_Delete(top);
    cJSON_Delete(none);
    cJSON_Delete(high);
}

static void test_conflicts(void **state)
{
    gt_auto_cache struct gt_cache *cache = make_cache(3);
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    gt_auto_view struct gt_view *view = NULL;
    const struct gt_projected projected = {.reason = "MemberHeld", .message = "by \"x\""};
    (void)state;
    gt_buf_puts(&text, "groups: [{name: a, nodes: [n00]}, {name: b, nodes: [n00, n01");
    for (unsigned i = 0; i < 40; i++)
        gt_buf_printf(&text, ", ghost%02u", i);
    gt_buf_puts(&text, "]}, {name: c, nodes: [n02]}]");
    gt_auto_groups struct gt_groups *groups = groups_of(text.data);
    assert_int_equal(gt_view_make(cache, &(struct gt_view_spec){.groups = groups}, &view, NULL), 0);
    cJSON *a = status_of(view, "a", &projected), *b = status_of(view, "b", NULL),
          *c = status_of(view, "c", NULL);
    expect_condition(a, "Conflict", "True", "NodeTwice", "group b: node n00 is in group a already");
    expect_condition(a, "HyperNode", "False", "MemberHeld", "by \"x\"");
    expect_condition(b, "Conflict", "True", "NodeTwice", "ghost06; and 33 more");
    expect_condition(c, "Conflict", "False", "NoConflict", "");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(c, "conditions")), 2);
    cJSON_Delete(a);
    cJSON_Delete(b);
    cJSON_Delete(c);
}

static void test_nodefeature(void **state)
{
    gt_auto_cache struct gt_cache *cache = make_cache(5);
    gt_auto_groups struct gt_groups *groups = groups_of("groups: [{name: a, nodes: [n00]}]");
    gt_auto_view struct gt_view *view = NULL;
    (void)state;
    assert_int_equal(gt_view_make(cache, &(struct gt_view_spec){.groups = groups}, &view, NULL), 0);
    for (uint32_t i = 0; i < 5; i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
        gt_view_write_nodefeature(view, i, &text);
        cJSON *desired = cJSON_ParseWithOpts(text.data, NULL, true);
        assert_non_null(desired);
        const cJSON *spec = cJSON_GetObjectItem(desired, "spec"),
                    *labels = cJSON_GetObjectItem(spec, "labels"),
                    *features = cJSON_GetObjectItem(spec, "features");
        assert_string_equal(gt_get_string(labels, GT_LABEL_MEMBER_OF), i ? "" : "a");
        assert_int_equal(cJSON_GetArraySize(features), 3);
        const cJSON *gpus = cJSON_GetObjectItem(
            cJSON_GetObjectItem(cJSON_GetObjectItem(features, "instances"), "metax.gpu"), "elements");
        assert_int_equal(cJSON_GetArraySize(gpus), i == 3 ? 0 : 8);
        cJSON_Delete(desired);
    }
}

/* A node that reports one port, at that switch. */
static void give_port(struct gt_cache *cache, const char *name, const char *at)
{
    cJSON *object = world_topology(TOPOLOGY(.name = name, .gpus = 1)),
          *status = cJSON_GetObjectItem(object, "status"), *nics = cJSON_AddArrayToObject(status, "nics");
    gt_auto_buf struct gt_buf text = GT_BUF(1024);
    gt_buf_printf(&text, "[{\"port\":\"mlx5_0\",\"switch\":\"%s\",\"switchPort\":\"1\"}]", at);
    cJSON_AddItemToArray(
        nics,
        cJSON_Parse("{\"name\":\"mlx5_0\",\"bdf\":\"0000:80:00.0\",\"numa\":-1,\"affinity\":[\"SYS\"]}"));
    cJSON_AddItemToObject(status, "network", cJSON_Parse(text.data));
    gt_cache_topology(cache, object, 1);
    cJSON_Delete(object);
}

static const char *leaf_of(const struct gt_view *view, uint32_t node)
{
    const struct gt_join *join = view->join;
    uint32_t own = join->supernode_of[node];
    uint32_t leaf = own == GT_JOIN_NONE ? own : join->supernodes[own].parent;
    return leaf == GT_JOIN_NONE ? "" : join->supernodes[leaf].name;
}

/* n0 has a label, n1 a label and a port, n2 a port; n1's is not asked. */
static struct gt_cache *make_network_cache(void)
{
    struct gt_cache *cache = new_cache(
        &(struct gt_cache_spec){.reports = true, .reports_only = true, .network_labels = "x/leaf,x/spine"});
    give_node(cache, NODE(.name = "n0", .labels = "{\"x/leaf\":\"l0\",\"x/spine\":\"s0\"}"));
    give_node(cache, NODE(.name = "n1", .labels = "{\"x/leaf\":\"l0\"}"));
    give_node(cache, NODE(.name = "n2"));
    give_port(cache, "n1", "l9");
    give_port(cache, "n2", "l0");
    return cache;
}

static void test_network_of_nodes(void **state)
{
    gt_auto_cache struct gt_cache *cache = make_network_cache();
    struct gt_view_network kept = {0};
    const struct gt_view_spec spec = {.network_labels = "x/leaf,x/spine", .kept = &kept};
    const struct gt_network *before = NULL;
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        gt_auto_view struct gt_view *view = NULL;
        assert_int_equal(gt_view_make(cache, &spec, &view, NULL), 0);
        assert_string_equal(leaf_of(view, 0), "l0");
        assert_string_equal(leaf_of(view, 1), "l0");
        assert_string_equal(leaf_of(view, 2), round < 2 ? "l0" : "l1");
        assert_true((kept.network == before) == (round == 1));
        before = kept.network;
        give_topology(cache, TOPOLOGY(.name = "n0", .gpus = 8, .unnamed = 1), 1); /* not of the network */
        if (round == 1)
            give_port(cache, "n2", "l1");
    }
    gt_view_network_forget(&kept);
}

/* Nodes that say too much, in all, take nothing from the others. */
static void test_too_large_a_network(void **state)
{
    gt_auto_cache struct gt_cache *cache = make_network_cache();
    gt_auto_network struct gt_network *network = NULL;
    gt_auto_view struct gt_view *view = NULL;
    struct gt_view_network kept = {0};
    uint32_t node, leaf;
    (void)state;
    assert_int_equal(gt_network_new(&network, NULL), 0);
    assert_int_equal(gt_network_node(network, "n2", &node, NULL), 0);
    assert_int_equal(gt_network_switch(network, 2, "given", "given", &leaf, NULL), 0);
    for (unsigned i = 0; i < GT_NETWORK_CABLES_MAX; i++)
        assert_int_equal(gt_network_connect(network, node, "", leaf, "", NULL), 0);
    const struct gt_view_spec spec = {.network = network, .network_labels = "x/leaf,x/spine", .kept = &kept};
    assert_int_equal(gt_view_make(cache, &spec, &view, NULL), 0);
    assert_string_equal(leaf_of(view, 0), "");
    assert_string_equal(leaf_of(view, 2), "given");
    assert_non_null(kept.network);
    assert_in_range(kept.network->note_count, 1, GT_NETWORK_NOTES_MAX);
    assert_non_null(strstr(kept.network->notes[kept.network->note_count - 1],
                           "not all labels and reports of nodes count: a network of"));
    gt_view_network_forget(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_nodefeature),
        cmocka_unit_test(test_network_of_nodes),
        cmocka_unit_test(test_too_large_a_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
