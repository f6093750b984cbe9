/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "scheduler-ext/serve/debug_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/serve/explain.h"
#include "tests/unit/cache/cache_world.h"

enum { LIMIT = 1 << 20, WALL_MS = 1893456000 /* 2030-01-01 */ };

static int set_up(void **state)
{
    *state = new_cache(NULL);
    return 0;
}

static int tear_down(void **state)
{
    gt_cache_free(*state);
    return 0;
}

static struct gt_debug_view view_on(struct gt_cache *cache)
{
    return (struct gt_debug_view){.cache = cache,
                                  .weights = GT_AWARE_DEFAULT,
                                  .leads = true,
                                  .synced = true,
                                  .now_ms = 10001,
                                  .wall_ms = (uint64_t)WALL_MS * 1000};
}

static cJSON *model_within(struct gt_cache *cache, size_t limit)
{
    const struct gt_debug_view view = view_on(cache);
    gt_auto_buf struct gt_buf to = GT_BUF(limit);
    gt_model_json(&view, &to);
    assert_false(to.failed);
    assert_true(to.len <= limit);
    cJSON *json = cJSON_ParseWithLength(to.data, to.len);
    if (!json)
        fail_msg("no JSON: %s", to.data);
    return json;
}

static const cJSON *named(const cJSON *list, const char *key, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(cJSON_GetObjectItem(item, key)->valuestring, name) == 0)
            return item;
    }
    fail_msg("there is no %s", name);
    return NULL;
}

static const cJSON *part(const cJSON *json, const char *list, const char *key, const char *name)
{
    return named(cJSON_GetObjectItem(json, list), key, name);
}

static const char *text_of(const cJSON *json, const char *key)
{
    const cJSON *value = cJSON_GetObjectItem(json, key);
    assert_non_null(value);
    return cJSON_IsNull(value) ? NULL : value->valuestring;
}

static bool is_true(const cJSON *json, const char *key)
{
    const cJSON *value = cJSON_GetObjectItem(json, key);
    assert_true(cJSON_IsBool(value));
    return cJSON_IsTrue(value);
}

/* An entry of gpus: which of them, as a mask, are in this state for this pod. */
static uint64_t gpus_in(const cJSON *node, const char *state, const char *pod)
{
    const cJSON *entry, *gpu;
    uint64_t mask = 0;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(node, "gpus"))
    {
        const cJSON *whose = cJSON_GetObjectItem(entry, "pod");
        if (strcmp(text_of(entry, "state"), state) != 0 || !whose != !pod ||
            (pod && strcmp(whose->valuestring, pod) != 0))
            continue;
        cJSON_ArrayForEach(gpu, cJSON_GetObjectItem(entry, "gpus")) mask |= UINT64_C(1) << gpu->valueint;
    }
    return mask;
}

#define PLAN_OF(unit, rank)                                                                                  \
    "\"" GT_PLAN_ANNOTATION_UNIT "\":\"" unit "\",\"" GT_PLAN_ANNOTATION_RANK "\":\"" rank "\","

/* A list of numbers as a mask. */
static uint64_t bits_of(const cJSON *object, const char *key)
{
    uint64_t mask = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(object, key)) mask |= UINT64_C(1) << item->valueint;
    return mask;
}

static void test_states_of_gpus(void **state)
{
    struct gt_cache *cache = *state;
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    give_pod(cache, POD(.name = "runs", .job = "j", .gpus = 2, .node = "n1"));
    give_pod(cache, POD(.name = "planned", .job = "k", .gpus = 2, .plan_node = "n1", .plan_mask = 0x30,
                        .annotations = PLAN_OF("3", "14")));
    give_topology(cache,
                  TOPOLOGY(.name = "n1", .gpus = 8, .unhealthy = 0x80, .unknown = 0x06, .unnamed = 0x08,
                           .owners = {{"runs", 0x03}}, .version = "2"),
                  9001);
    cJSON *json = model_within(cache, LIMIT);
    const cJSON *node = part(json, "nodes", "name", "n1");
    assert_int_equal(gpus_in(node, "used", "ns/runs"), 0x03);
    assert_int_equal(gpus_in(node, "used", NULL), 0x08);
    assert_int_equal(gpus_in(node, "assumed", "ns/planned"), 0x30);
    assert_int_equal(gpus_in(node, "unhealthy", NULL), 0x80);
    assert_int_equal(gpus_in(node, "free", NULL), 0x44);
    assert_string_equal(text_of(node, "observedAt"), "2029-12-31T23:59:59Z");
    assert_string_equal(text_of(node, "product"), "MXC550");
    assert_null(text_of(node, "supernode"));
    const cJSON *entry;
    bool seen = false;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(node, "gpus"))
    {
        if (strcmp(text_of(entry, "state"), "assumed") != 0)
            continue;
        seen = true;
        assert_string_equal(text_of(entry, "job"), "ns/Owned/ReplicaSet/k");
        assert_int_equal(cJSON_GetObjectItem(entry, "unit")->valueint, 3);
        assert_int_equal(cJSON_GetObjectItem(entry, "rank")->valueint, 14);
    }
    assert_true(seen);
    assert_int_equal(bits_of(node, "healthUnknown"), 0x06);
    assert_null(cJSON_GetObjectItem(part(json, "nodes", "name", "n2"), "healthUnknown"));
    cJSON_Delete(json);
}

static void test_marks_of_nodes(void **state)
{
    struct gt_cache *cache = *state;
    give_node(cache, NODE(.name = "cordoned", .cordoned = true));
    give_node(cache, NODE(.name = "away", .not_ready = true));
    give_topology(cache, TOPOLOGY(.name = "cordoned", .gpus = 8, .version = "1"), 1);
    give_topology(cache, TOPOLOGY(.name = "away", .gpus = 8, .link_down = true, .version = "1"), 2000000);
    give_topology(cache, TOPOLOGY(.name = "shared", .gpus = 8, .shared = true, .version = "1"), 2000000);
    gt_cache_tick(cache, 2000000);
    cJSON *json = model_within(cache, LIMIT);
    const cJSON *cordoned = part(json, "nodes", "name", "cordoned"),
                *away = part(json, "nodes", "name", "away"), *shared = part(json, "nodes", "name", "shared");
    assert_true(is_true(cordoned, "cordoned") && is_true(cordoned, "ready") && is_true(cordoned, "stale"));
    assert_true(!is_true(away, "cordoned") && !is_true(away, "ready") && !is_true(away, "stale"));
    assert_true(is_true(away, "linksDown") && !is_true(cordoned, "linksDown"));
    assert_true(is_true(shared, "leftAlone") && !is_true(shared, "eligible"));
    assert_string_equal(text_of(cordoned, "note"), "stale, cordoned");
    assert_string_equal(text_of(away, "note"), "not Ready, link down");
    assert_string_equal(text_of(shared, "note"), "not Ready, shared GPUs");
    assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "counters"), "nodesStale")->valueint, 1);
    cJSON_Delete(json);
}

static void test_supernodes(void **state)
{
    struct gt_cache *cache = *state;
    for (char name[] = "n1"; name[1] <= '5'; name[1]++)
        give_plain_node(cache, name);
    give_supernode(cache, SUPERNODE(.name = "hall", .tier = 2, .members = {"n4"}));
    give_supernode(cache, SUPERNODE(.name = "rack", .tier = 1, .parent = "hall", .members = {"n1", "n3"}));
    cJSON *json = model_within(cache, LIMIT);
    const cJSON *hall = part(json, "supernodes", "name", "hall"),
                *rack = part(json, "supernodes", "name", "rack"), *nodes = cJSON_GetObjectItem(rack, "nodes");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "supernodes")), 2);
    assert_null(text_of(hall, "parent"));
    assert_string_equal(text_of(rack, "parent"), "hall");
    assert_int_equal(cJSON_GetObjectItem(hall, "tier")->valueint, 2);
    assert_int_equal(cJSON_GetArraySize(nodes), 2);
    assert_string_equal(cJSON_GetArrayItem(nodes, 0)->valuestring, "n1");
    assert_string_equal(cJSON_GetArrayItem(nodes, 1)->valuestring, "n3");
    assert_string_equal(text_of(part(json, "nodes", "name", "n3"), "supernode"), "rack");
    assert_null(text_of(part(json, "nodes", "name", "n2"), "supernode"));
    /* every node once, in the supernode that it names */
    const cJSON *node, *super, *member;
    unsigned reported = 0;
    cJSON_ArrayForEach(super, cJSON_GetObjectItem(json, "supernodes"))
        cJSON_ArrayForEach(member, cJSON_GetObjectItem(super, "nodes"))
    {
        node = part(json, "nodes", "name", member->valuestring);
        assert_string_equal(text_of(node, "supernode"), text_of(super, "name"));
        reported++;
    }
    cJSON_ArrayForEach(node, cJSON_GetObjectItem(json, "nodes")) reported -=
        text_of(node, "supernode") != NULL;
    assert_int_equal(reported, 0);
    cJSON_Delete(json);
}

static void test_jobs(void **state)
{
    struct gt_cache *cache = *state;
    give_plain_node(cache, "n1");
    give_pod(cache,
             POD(.name = "a-0", .job = "a", .gpus = 4, .plan_node = "n1", .plan_mask = 0x0f, .node = "n1",
                 .annotations = PLAN_OF("0", "0") "\"metax-tech.com/gpu-group-size\":\"4\","));
    give_pod(cache, POD(.name = "a-1", .job = "a", .gpus = 4, .gated = true));
    give_pod(cache, POD(.name = "b-0", .job = "b", .gpus = 4, .gated = true,
                        .annotations = "\"metax-tech.com/gpu-group-size\":\"\","));
    cJSON *json = model_within(cache, LIMIT);
    const cJSON *job = part(json, "jobs", "key", "ns/Owned/ReplicaSet/a"),
                *counts = cJSON_GetObjectItem(job, "podCounts"), *pods = cJSON_GetObjectItem(job, "pods");
    assert_string_equal(text_of(job, "kind"), "ReplicaSet");
    assert_string_equal(text_of(job, "namespace"), "ns");
    assert_string_equal(text_of(job, "name"), "a");
    assert_string_equal(text_of(job, "state"), "gated");
    assert_false(is_true(job, "settled"));
    assert_string_equal(text_of(job, "groupSize"), "4");
    assert_null(text_of(job, "atomicGroupSize"));
    assert_null(text_of(job, "reason"));
    const cJSON *odd = part(json, "jobs", "key", "ns/Owned/ReplicaSet/b");
    assert_string_equal(text_of(odd, "groupSize"), ""); /* as it is written */
    assert_string_equal(text_of(job, "created"), "2026-01-01T00:00:00Z");
    assert_int_equal(cJSON_GetObjectItem(job, "wants")->valueint, 8);
    assert_int_equal(cJSON_GetObjectItem(job, "units")->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(counts, "gated")->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(counts, "starting")->valueint, 1);
    const cJSON *first = named(pods, "name", "a-0"), *second = named(pods, "name", "a-1");
    assert_string_equal(text_of(first, "state"), "starting");
    assert_string_equal(text_of(first, "plan"), "assumed");
    assert_string_equal(text_of(first, "node"), "n1");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(first, "gpus")), 4);
    assert_int_equal(cJSON_GetObjectItem(first, "rank")->valueint, 0);
    assert_string_equal(text_of(second, "state"), "gated");
    assert_null(text_of(second, "node"));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(second, "rank")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "counters"), "placement")));
    cJSON_Delete(json);
}

/* Whatever the limit, the answer is whole JSON within it, and says what it left out. */
static void test_stays_within_the_limit(void **state)
{
    struct gt_cache *cache = *state;
    unsigned whole = 0, cut = 0;
    for (unsigned i = 0; i < 40; i++) {
        char name[16], job[16];
        snprintf(name, sizeof(name), "n%u", i);
        snprintf(job, sizeof(job), "j%u", i % 3);
        give_plain_node(cache, name);
        snprintf(name, sizeof(name), "p%u", i);
        give_pod(cache, POD(.name = name, .job = job, .gpus = 2));
    }
    for (size_t limit = 9000; limit < 60000; limit += 777) {
        cJSON *json = model_within(cache, limit);
        const cJSON *out = cJSON_GetObjectItem(json, "leftOut");
        int nodes = cJSON_GetObjectItem(out, "nodes")->valueint,
            jobs = cJSON_GetObjectItem(out, "jobs")->valueint,
            pods = cJSON_GetObjectItem(out, "podsOfJobs")->valueint;
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "nodes")) + nodes, 40);
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "jobs")) + jobs, 3);
        assert_int_equal(is_true(json, "truncated"), nodes || jobs || pods);
        *(nodes || jobs || pods ? &cut : &whole) += 1;
        cJSON_Delete(json);
    }
    assert_true(cut > 3 && whole > 3);
}

static void test_texts_are_escaped(void **state)
{
    struct gt_cache *cache = *state;
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "</script>", .job = "a\\\"b\\u0001", .gpus = 1, .node = "n1"));
    cJSON *json = model_within(cache, LIMIT);
    const cJSON *job = part(json, "jobs", "name", "a\"b\x01");
    assert_string_equal(text_of(cJSON_GetArrayItem(cJSON_GetObjectItem(job, "pods"), 0), "name"),
                        "</script>");
    cJSON_Delete(json);
}

#define UNITS(size) "\"metax-tech.com/gpu-group-size\":\"" size "\","

static double number_in(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItem(object, key)->valuedouble;
}

/* A job that is there, and one that is gone: what a cluster file takes over. */
static void test_unit_sizes(void **state)
{
    struct gt_cache *cache = *state;
    give_pod(cache, POD(.name = "a", .gpus = 8, .job = "x", .annotations = UNITS("32")));
    give_pod(cache, POD(.name = "b", .gpus = 4, .job = "y", .annotations = UNITS("16")));
    gt_cache_pod_deleted(cache, "ns", "b");
    cJSON *json = model_within(cache, LIMIT);
    const cJSON *sizes = cJSON_GetObjectItem(json, "unitSizes"), *there = cJSON_GetArrayItem(sizes, 0),
                *gone = cJSON_GetArrayItem(sizes, 1);
    assert_int_equal(cJSON_GetArraySize(sizes), 2);
    assert_true(number_in(there, "gpus") == 32 && number_in(there, "present") == 8 &&
                number_in(there, "past") == 0);
    assert_true(number_in(gone, "gpus") == 16 && number_in(gone, "present") == 0 &&
                number_in(gone, "past") == 4);
    cJSON_Delete(json);
}

static void test_empty(void **state)
{
    cJSON *json = model_within(*state, LIMIT);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "nodes")), 0);
    assert_string_equal(text_of(json, "time"), "2030-01-01T00:00:00Z");
    assert_true(is_true(json, "leader") && is_true(json, "synced") && !is_true(json, "truncated"));
    cJSON_Delete(json);
}

static void test_query(void **state)
{
    char value[8];
    (void)state;
    assert_true(gt_query_get("a=1&job=x%2Fy", "job", value, sizeof(value)));
    assert_string_equal(value, "x/y");
    assert_true(gt_query_get("jobs=1&job=+2&job=3", "job", value, sizeof(value)));
    assert_string_equal(value, " 2");
    assert_false(gt_query_get("job", "job", value, sizeof(value)));
    assert_false(gt_query_get(NULL, "job", value, sizeof(value)));
    assert_false(gt_query_get("job=12345678", "job", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_true(gt_query_get("job=1234567", "job", value, sizeof(value)));
    assert_false(gt_query_get("job=%00", "job", value, sizeof(value)));
    assert_false(gt_query_get("job=%4", "job", value, sizeof(value)));
    assert_false(gt_query_get("job=%g0", "job", value, sizeof(value)));
    assert_true(gt_query_get("job=%C3%A4", "job", value, sizeof(value)));
    assert_string_equal(value, "\xc3\xa4");
}

static void test_page(void **state)
{
    static const struct {
        const char *path, *type, *holds;
    } files[] = {{"/ui", "text/html; charset=utf-8", "Content-Security-Policy"},
                 {"/ui/", "text/html; charset=utf-8", "../ui"},
                 {"/ui/ui.css", "text/css; charset=utf-8", "data-theme"},
                 {"/ui/page.js", "text/javascript; charset=utf-8", "\"use strict\""},
                 {"/ui/map.js", "text/javascript; charset=utf-8", "\"use strict\""},
                 {"/ui/panels.js", "text/javascript; charset=utf-8", "\"use strict\""},
                 {"/ui/views.js", "text/javascript; charset=utf-8", "\"use strict\""},
                 {"/ui/icon.svg", "image/svg+xml", "<svg"}};
    (void)state;
    for (size_t i = 0; i < GT_COUNT(files); i++) {
        struct gt_http_response response = {.status = 200, .body = GT_BUF(LIMIT)};
        assert_true(gt_ui_serve(files[i].path, &response));
        assert_string_equal(response.content_type, files[i].type);
        assert_non_null(strstr(response.body.data, files[i].holds));
        assert_null(strstr(response.body.data, "innerHTML"));
        assert_int_equal(strlen(response.body.data), response.body.len);
        gt_buf_done(&response.body);
    }
    struct gt_http_response response = {.status = 200, .body = GT_BUF(LIMIT)};
    assert_false(gt_ui_serve("/ui/ui.html", &response));
    assert_false(gt_ui_serve("/uix", &response));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_states_of_gpus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_marks_of_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_supernodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_jobs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stays_within_the_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_texts_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unit_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty, set_up, tear_down),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
