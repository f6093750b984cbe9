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

/* A cluster of n00, n01...: 8 GPUs each, i of them free in node i; n03 is silent, n04's links are down. */
static struct gt_cache *make_cache(unsigned count)
{
    struct gt_cache *cache = new_cache(&(struct gt_cache_spec){.reports = true, .gpu_attributes = true});
    for (unsigned i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%02u", i);
        give_node(cache, NODE(.name = name));
        if (i != 3)
            give_topology(
                cache, TOPOLOGY(.name = name, .gpus = 8, .unnamed = 0xff >> i % 9, .link_down = i == 4), 1);
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
    assert_int_equal(number(a, "capacity"), 24);
    assert_int_equal(number(a, "free"), 3);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(a, "linksHealthy")));
    expect_condition(a, "Ready", "True", "Complete", "every node");
    assert_int_equal(number(b, "nodes"), 2);
    assert_int_equal(number(b, "capacity"), 8);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(b, "linksHealthy")));
    expect_condition(b, "Ready", "False", "NodesSilent", "n03");
    assert_int_equal(number(top, "nodes"), 5);
    assert_int_equal(number(top, "capacity"), 32);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_nodefeature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
