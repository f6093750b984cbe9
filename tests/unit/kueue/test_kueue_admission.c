/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/names.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/kueue/admission.h"
#include "tests/unit/cache/cache_world.h"
#include "tests/unit/core/core_checks.h"

/* Decisions on Workloads over time: nodes s0-n0 to s0-n3 of 8 GPUs in one supernode. */

enum { SAID_MAX = 64, MINUTE_MS = 60000 };

struct fixture {
    struct gt_cache *cache;
    struct gt_admission *admission;
    char said[SAID_MAX][16]; /* "NAME STATE", in the order of decisions */
    unsigned count;
    bool is_busy;
    char text[1024];
    unsigned requeue_s;
    uint64_t held_until_ms; /* the end of what the first GPU was promised to meanwhile; 0: to nobody */
};

static bool decided(void *arg, const struct gt_workload *workload, const char *const checks[],
                    unsigned check_count, const struct gt_check_verdict *verdict)
{
    struct fixture *fixture = arg;
    assert_int_equal(check_count, 1);
    assert_string_equal(checks[0], "ours");
    if (fixture->is_busy)
        return false;
    assert_true(fixture->count < SAID_MAX);
    snprintf(fixture->said[fixture->count++], sizeof(fixture->said[0]), "%s %s", workload->name,
             gt_check_state_name(verdict->state));
    snprintf(fixture->text, sizeof(fixture->text), "%s", verdict->message);
    fixture->requeue_s = verdict->requeue_s;
    const struct gt_promise *held = gt_cluster_promise_of(gt_cache_cluster(fixture->cache), 0, 0);
    assert_true(!held || held->kind == GT_PROMISE_ADMITTED);
    fixture->held_until_ms = held ? held->until_ms : 0;
    return true;
}

static void setup(struct fixture *fixture)
{
    *fixture = (struct fixture){.cache = new_cache(NULL)};
    const struct gt_admission_spec spec = {
        .cache = fixture->cache, .resource = GT_RESOURCE_GPU, .decided = decided, .arg = fixture};
    for (unsigned n = 0; n < 4; n++) {
        char name[8];
        snprintf(name, sizeof(name), "s0-n%u", n);
        give_plain_node(fixture->cache, name);
    }
    give_supernode(fixture->cache,
                   SUPERNODE(.name = "s0", .tier = 1, .members = {"s0-n0", "s0-n1", "s0-n2", "s0-n3"}));
    assert_int_equal(gt_admission_new(&spec, &fixture->admission, NULL), 0);
    gt_admission_add_check(fixture->admission, "ours");
}

static void teardown(struct fixture *fixture)
{
    uint32_t nodes = gt_cluster_nodes(gt_cache_cluster(fixture->cache));
    for (uint32_t n = 0; n < nodes; n++) { /* nothing stays assumed between decisions */
        struct gt_cluster_node node;
        if (gt_cluster_get_node(gt_cache_cluster(fixture->cache), n, &node))
            assert_int_equal(node.assumed, 0);
    }
    gt_admission_free(fixture->admission);
    gt_cache_free(fixture->cache);
}

struct given {
    const char *name, *since, *check, *state, *version;
    unsigned pods, group;
    int priority;
    const char *requests; /* of a container, JSON; NULL: none */
};

static void give(struct fixture *fixture, const struct given *given)
{
    char text[2048];
    snprintf(
        text, sizeof(text),
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"resourceVersion\":\"%s\"},\"spec\":{"
        "\"priority\":%d,"
        "\"podSets\":[{\"name\":\"main\",\"count\":%u,\"template\":{\"metadata\":{\"annotations\":{"
        "\"metax-tech.com/gpu-group-size\":\"%u\"}},\"spec\":{\"containers\":[{\"resources\":{\"limits\":{"
        "\"metax-tech.com/"
        "gpu\":\"8\"},\"requests\":%s}}]}}}]},\"status\":{\"conditions\":[{\"type\":\"QuotaReserved\","
        "\"status\":\"True\",\"reason\":\"R\",\"lastTransitionTime\":\"%s\"}],\"admissionChecks\":[{\"name\":"
        "\"%s\",\"state\":\"%"
        "s\","
        "\"lastTransitionTime\":\"1970-01-01T00:10:00Z\"}]}}",
        given->name, given->version ? given->version : "1", given->priority, given->pods ? given->pods : 4,
        given->group ? given->group : 32, given->requests ? given->requests : "{}",
        given->since ? given->since : "t", given->check ? given->check : "ours",
        given->state ? given->state : "Pending");
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    assert_int_equal(gt_admission_put(fixture->admission, json, true, NULL), 0);
    cJSON_Delete(json);
}
#define GIVE(fixture, ...) give(fixture, &(struct given){.name = __VA_ARGS__})

static uint64_t decide(struct fixture *fixture, uint64_t now_ms)
{
    return gt_admission_decide(fixture->admission, now_ms, 600 + (int64_t)now_ms / 1000);
}

static void expect(struct fixture *fixture, const char *said)
{
    char all[SAID_MAX * 20] = "";
    for (unsigned i = 0; i < fixture->count; i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", fixture->said[i]);
    assert_string_equal(all, said);
    fixture->count = 0;
}

static void test_order_and_holds(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    GIVE(&fixture, "young", .since = "2026-01-02T00:00:00Z");
    GIVE(&fixture, "old", .since = "2026-01-01T00:00:00Z");
    GIVE(&fixture, "foreign", .check = "other");
    GIVE(&fixture, "high", .since = "2026-01-03T00:00:00Z", .priority = 1);
    assert_int_equal(decide(&fixture, 1000), 2000);
    expect(&fixture, "high Ready");
    assert_string_equal(fixture.text, "1 unit of 32 GPUs fits: s0");
    decide(&fixture, 2000);
    expect(&fixture, "");
    gt_admission_remove(fixture.admission, "ns", "high"); /* its place is free at once */
    decide(&fixture, 3000);
    expect(&fixture, "old Ready");
    assert_int_equal(fixture.held_until_ms, 0);
    decide(&fixture, 7000); /* since 1000 */
    expect(&fixture, "young Retry");
    assert_int_equal(fixture.held_until_ms, 3000 + 120000);
    assert_int_equal(fixture.requeue_s, 10);
    GIVE(&fixture, "young", .since = "2026-01-04T00:00:00Z", .version = "2");
    decide(&fixture, 8000); /* has its time again */
    expect(&fixture, "");
    decide(&fixture, 3000 + 120000); /* pods of the old one never came: others may have its room */
    expect(&fixture, "young Ready");
    teardown(&fixture);
}

static void test_writes_that_fail(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    fixture.is_busy = true;
    GIVE(&fixture, "a");
    assert_int_equal(decide(&fixture, 1000), 2000);
    fixture.is_busy = false;
    GIVE(&fixture, "b", .priority = 1); /* what was not told is not held */
    decide(&fixture, 1001);
    expect(&fixture, "b Ready");
    gt_admission_failed(fixture.admission, "ns", "b", 1002);
    decide(&fixture, 2001);
    expect(&fixture, "a Ready");
    decide(&fixture, 6003);
    expect(&fixture, "");
    teardown(&fixture);
}

static void test_a_new_leader(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    GIVE(&fixture, "ready", .state = "Ready"); /* at 600 s */
    GIVE(&fixture, "next");
    decide(&fixture, 10000);
    expect(&fixture, "");
    struct gt_admission_counters counters;
    gt_admission_counters(fixture.admission, &counters);
    assert_int_equal(counters.held, 1);
    assert_int_equal(counters.workloads, 2);
    decide(&fixture, 119000);
    expect(&fixture, "next Retry");
    GIVE(&fixture, "next", .version = "2", .since = "u");
    decide(&fixture, 120001);
    expect(&fixture, "next Ready");
    teardown(&fixture);
}

static void test_held_gpus_go(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    GIVE(&fixture, "a", .pods = 2, .group = 16);
    decide(&fixture, 1000);
    expect(&fixture, "a Ready");
    for (unsigned n = 0; n < 2;
         n++) { /* somebody takes two nodes: the hold is on the others then, or on none */
        char name[8];
        snprintf(name, sizeof(name), "s0-n%u", n);
        give_topology(fixture.cache, TOPOLOGY(.name = name, .gpus = 8, .unnamed = 0xff), 0);
    }
    GIVE(&fixture, "b", .pods = 1, .group = 8);
    decide(&fixture, 2000);
    expect(&fixture, "");
    give_topology(fixture.cache, TOPOLOGY(.name = "s0-n2", .gpus = 8, .unnamed = 0xff), 0);
    decide(&fixture, 3000);
    expect(&fixture, "b Ready"); /* there is no room for a any more, and so none is kept */
    teardown(&fixture);
}

static void test_many(void **state)
{
    struct fixture fixture;
    char name[8];
    (void)state;
    setup(&fixture);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "w%02u", i);
        GIVE(&fixture, name, .pods = 1, .group = 0x7fffffff); /* refused by the rules */
    }
    assert_int_equal(decide(&fixture, 1000), 1000); /* a part of them at a time */
    assert_in_range(fixture.count, 1, 39);
    while (decide(&fixture, 1000) == 1000)
        ;
    assert_int_equal(fixture.count, 40);
    assert_string_equal(fixture.said[39], "w39 Rejected");
    teardown(&fixture);
}

/* A launcher without GPUs runs elsewhere: its node selector says nothing of those that have some. */
static void test_a_pod_set_without_gpus(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"resourceVersion\":\"1\"},\"spec\":{\"podSets\":"
        "[{"
        "\"name\":\"launcher\",\"count\":1,\"template\":{\"spec\":{\"nodeSelector\":{\"pool\":\"cpu\"},"
        "\"containers\":[{}]}}},{\"name\":\"worker\",\"count\":4,\"template\":{\"metadata\":{\"annotations\":"
        "{"
        "\"metax-tech.com/gpu-group-size\":\"32\"}},\"spec\":{\"containers\":[{\"resources\":{\"limits\":{"
        "\"metax-tech.com/gpu\":\"8\"}}}]}}}]},\"status\":{\"conditions\":[{\"type\":\"QuotaReserved\","
        "\"status\":\"True\",\"lastTransitionTime\":\"t\"}],\"admissionChecks\":[{\"name\":\"ours\","
        "\"state\":\"Pending\"}]}}";
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    assert_int_equal(gt_admission_put(fixture.admission, json, true, NULL), 0);
    cJSON_Delete(json);
    decide(&fixture, 1000);
    expect(&fixture, "a Ready");
    teardown(&fixture);
}

#define POD_SET(name, count, size, gpus)                                                                     \
    "{\"name\":\"" name "\",\"count\":" count ",\"template\":{\"metadata\":{\"annotations\":{" size          \
    "}},\"spec\":{"                                                                                          \
    "\"containers\":[{\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"" gpus "\"}}}]}}}"
#define SIZE(size) "\"metax-tech.com/gpu-group-size\":\"" size "\""

/* The groups of a RayCluster are jobs of their own: each has its own size, or none. */
static void test_a_raycluster(void **state)
{
    static const char *const sets[] = {
        POD_SET("head", "1", "", "2") "," POD_SET("big", "2", SIZE("16"), "8") "," POD_SET("small", "4",
                                                                                           SIZE("8"), "4"),
        POD_SET("head", "1", "", "2") "," POD_SET("big", "2", SIZE("16"), "8") "," POD_SET("small", "3",
                                                                                           SIZE("8"), "4")};
    static const char *const says[] = {"a Ready", "a Rejected"};
    for (unsigned i = 0; i < 2; i++) {
        struct fixture fixture;
        char text[4096];
        (void)state;
        setup(&fixture);
        snprintf(
            text, sizeof(text),
            "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"resourceVersion\":\"1\","
            "\"ownerReferences\":["
            "{\"apiVersion\":\"ray.io/"
            "v1\",\"kind\":\"RayCluster\",\"name\":\"x\",\"controller\":true}]},\"spec\":{"
            "\"podSets\":[%s]},\"status\":{\"conditions\":[{\"type\":\"QuotaReserved\",\"status\":\"True\","
            "\"lastTransitionTime\":\"t\"}],\"admissionChecks\":[{\"name\":\"ours\",\"state\":\"Pending\"}]}"
            "}",
            sets[i]);
        cJSON *json = cJSON_Parse(text);
        assert_non_null(json);
        assert_int_equal(gt_admission_put(fixture.admission, json, true, NULL), 0);
        cJSON_Delete(json);
        decide(&fixture, 1000);
        expect(&fixture, says[i]);
        if (!i) { /* its places are held */
            struct gt_admission_counters counters;
            gt_admission_counters(fixture.admission, &counters);
            assert_int_equal(counters.held, 1);
        }
        teardown(&fixture);
    }
}

/* One that asks for no groups takes no places, also where a new leader finds it. */
static void test_nothing_is_held_for_no_groups(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"resourceVersion\":\"1\"},\"spec\":{\"podSets\":"
        "[{"
        "\"name\":\"main\",\"count\":1,\"template\":{\"spec\":{\"containers\":[{}]}}}]},\"status\":{"
        "\"conditions\":[{\"type\":\"QuotaReserved\",\"status\":\"True\",\"lastTransitionTime\":\"t\"}],"
        "\"admissionChecks\":[{\"name\":\"ours\",\"state\":\"Ready\","
        "\"lastTransitionTime\":\"1970-01-01T00:10:00Z\"}]}}";
    struct fixture fixture;
    struct gt_admission_counters counters;
    (void)state;
    setup(&fixture);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    assert_int_equal(gt_admission_put(fixture.admission, json, true, NULL), 0);
    cJSON_Delete(json);
    assert_int_equal(decide(&fixture, 1000), UINT64_MAX);
    gt_admission_counters(fixture.admission, &counters);
    assert_int_equal(counters.held, 0);
    teardown(&fixture);
}

/* What is held for a Workload is nobody else's: asked again, it fits where it fitted. */
static void test_asked_again_while_it_holds(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    GIVE(&fixture, "a");
    decide(&fixture, 1000);
    expect(&fixture, "a Ready");
    GIVE(&fixture, "a", .version = "2"); /* Kueue has changed it before the state was written */
    decide(&fixture, 3000);
    expect(&fixture, "a Ready");
    GIVE(&fixture, "b");
    decide(&fixture, 4000);
    expect(&fixture, "");
    teardown(&fixture);
}

static void give_room(struct fixture *fixture, unsigned node, const char *allocatable)
{
    char name[8];
    snprintf(name, sizeof(name), "s0-n%u", node);
    give_node(fixture->cache, NODE(.name = name, .allocatable = allocatable));
}

static uint32_t room(struct fixture *fixture, uint32_t node, uint64_t cpu)
{
    const struct gt_resources asked = {.count = 1, .list = {{GT_RESOURCE_CPU, cpu}}};
    struct gt_cache_request *request = gt_cache_request_make(fixture->cache, &asked, true);
    uint32_t pods = gt_cache_room_for(fixture->cache, node, request, GT_CACHE_ROOM_NOW);
    gt_cache_request_drop(fixture->cache, request);
    return pods;
}

static void test_nodes_that_lack_resources(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_room(&fixture, 0, "{\"cpu\":\"4\"}");
    GIVE(&fixture, "a", .requests = "{\"cpu\":\"6\"}");
    decide(&fixture, 1000);
    decide(&fixture, 6000);
    expect(&fixture, "a Retry");
    assert_string_equal(
        fixture.text,
        "no supernode has more than 24 GPUs for pods of 8, a unit of 32 must lie in one: a size up to "
        "24, or an atomic size, would do; 1 node lacks CPU (a pod needs 6, at most 4 is free)");
    GIVE(&fixture, "small", .pods = 3, .group = 24, .requests = "{\"cpu\":\"6\"}");
    decide(&fixture, 7000);
    expect(&fixture, "small Ready");
    gt_admission_remove(fixture.admission, "ns", "small");
    give_room(&fixture, 0, "{\"cpu\":\"8\"}");
    GIVE(&fixture, "a", .version = "2", .requests = "{\"cpu\":\"6\"}");
    decide(&fixture, 8000);
    expect(&fixture, "a Ready");
    GIVE(&fixture, "nic", .pods = 1, .group = 8, .requests = "{\"example.com/nic\":\"1\"}");
    gt_admission_remove(fixture.admission, "ns", "a");
    decide(&fixture, 9000);
    decide(&fixture, 14000);
    expect(&fixture, "nic Retry");
    assert_non_null(strstr(fixture.text, "4 nodes lack example.com/nic (a pod needs 1, at most 0 is free)"));
    teardown(&fixture);
}

/* Each pod set asks for its own: the one that asks for much goes where there is much. */
static void test_pod_sets_ask_for_their_own(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"resourceVersion\":\"1\"},\"spec\":{\"podSets\":"
        "[{\"name\":\"master\",\"count\":1,\"template\":{\"metadata\":{\"annotations\":{"
        "\"metax-tech.com/gpu-group-size\":\"32\"}},\"spec\":{\"containers\":[{\"resources\":{\"limits\":{"
        "\"metax-tech.com/"
        "gpu\":\"8\",\"memory\":\"64Gi\"}}}]}}},{\"name\":\"worker\",\"count\":3,\"template\":{"
        "\"metadata\":{\"annotations\":{\"metax-tech.com/"
        "gpu-group-size\":\"32\"}},\"spec\":{\"containers\":[{"
        "\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\",\"memory\":\"8Gi\"}}}]}}}]},\"status\":{"
        "\"conditions\":[{\"type\":\"QuotaReserved\",\"status\":\"True\",\"lastTransitionTime\":\"t\"}],"
        "\"admissionChecks\":[{\"name\":\"ours\",\"state\":\"Pending\"}]}}";
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    for (unsigned n = 0; n < 4; n++)
        give_room(&fixture, n, n ? "{\"memory\":\"16Gi\"}" : "{\"memory\":\"64Gi\"}");
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    assert_int_equal(gt_admission_put(fixture.admission, json, true, NULL), 0);
    decide(&fixture, 1000);
    expect(&fixture, "a Ready");
    gt_admission_remove(fixture.admission, "ns", "a");
    give_room(&fixture, 0, "{\"memory\":\"16Gi\"}");
    assert_int_equal(gt_admission_put(fixture.admission, json, true, NULL), 0);
    cJSON_Delete(json);
    decide(&fixture, 2000);
    decide(&fixture, 7000);
    expect(&fixture, "a Retry");
    teardown(&fixture);
}

/* A unit is not called too large for what one of its pods needs: two nodes hold the first one, all the other
 * two. */
static void test_pods_that_differ_in_containers(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"resourceVersion\":\"1\"},\"spec\":{\"podSets\":"
        "[{\"name\":\"one\",\"count\":1,\"template\":{\"metadata\":{\"annotations\":{"
        "\"metax-tech.com/gpu-group-size\":\"24\"}},\"spec\":{\"containers\":[{\"resources\":{\"limits\":{"
        "\"metax-tech.com/gpu\":\"6\"}}},{\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"2\"}}}]}}},"
        "{\"name\":\"two\",\"count\":2,\"template\":{\"metadata\":{\"annotations\":{"
        "\"metax-tech.com/gpu-group-size\":\"24\"}},\"spec\":{\"containers\":[{\"resources\":{\"limits\":{"
        "\"metax-tech.com/gpu\":\"4\"}}},{\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"4\"}}}]}}}]},"
        "\"status\":{\"conditions\":[{\"type\":\"QuotaReserved\",\"status\":\"True\","
        "\"lastTransitionTime\":\"t\"}],\"admissionChecks\":[{\"name\":\"ours\",\"state\":\"Pending\"}]}}";
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    for (unsigned n = 2; n < 4; n++) {
        char name[8];
        snprintf(name, sizeof(name), "s0-n%u", n);
        give_topology(fixture.cache, TOPOLOGY(.name = name, .gpus = 8, .single_numa = true), 1);
    }
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    assert_int_equal(gt_admission_put(fixture.admission, json, true, NULL), 0);
    cJSON_Delete(json);
    decide(&fixture, 1000);
    decide(&fixture, 6000);
    expect(&fixture, "a Retry");
    assert_null(strstr(fixture.text, "would do"));
    teardown(&fixture);
}

/* Room for pods of a Workload that was let in is nobody else's, and that of placement is as it was. */
static void test_held_resources(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    for (unsigned n = 0; n < 4; n++)
        give_topology(fixture.cache,
                      TOPOLOGY(.name = (const char *[]){"s0-n0", "s0-n1", "s0-n2", "s0-n3"}[n], .gpus = 16),
                      0);
    for (unsigned n = 0; n < 4; n++)
        give_room(&fixture, n, "{\"cpu\":\"10\"}");
    GIVE(&fixture, "a", .requests = "{\"cpu\":\"6\"}");
    GIVE(&fixture, "b", .since = "u", .requests = "{\"cpu\":\"6\"}");
    decide(&fixture, 1000);
    expect(&fixture, "a Ready");
    decide(&fixture, 6000);
    expect(&fixture, "b Retry");
    assert_int_equal(room(&fixture, 0, 10000), 1);
    assert_non_null(strstr(fixture.text, "4 nodes lack CPU (a pod needs 6, at most 4 is free)"));
    GIVE(&fixture, "a", .version = "2", .requests = "{\"cpu\":\"6\"}"); /* its own room is there for it */
    decide(&fixture, 8000);
    expect(&fixture, "a Ready");
    give_room(&fixture, 0, "{\"cpu\":\"5\"}"); /* it has lost its place: nothing is kept */
    GIVE(&fixture, "c", .pods = 3, .group = 24, .requests = "{\"cpu\":\"6\"}");
    decide(&fixture, 9000);
    expect(&fixture, "c Ready");
    teardown(&fixture);
}

/* ---- units that are larger than any supernode ---- */

/* Asks again, and after the time for pods that may still be ending. */
static void ask(struct fixture *fixture, const struct given *given, uint64_t now_ms, const char *said)
{
    gt_admission_remove(fixture->admission, "ns", given->name);
    give(fixture, given);
    decide(fixture, now_ms);
    decide(fixture, now_ms + 5000);
    expect(fixture, said);
}
#define GIVEN(...) (&(struct given){.name = __VA_ARGS__})

static void expect_text(const struct fixture *fixture, const char *text)
{
    assert_string_equal(fixture->text, text);
}

static void test_too_large(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    ask(&fixture, GIVEN("a", .pods = 8, .group = 64), MINUTE_MS, "a Retry");
    expect_text(&fixture, "no supernode has more than 32 GPUs for pods of 8, a unit of 64 must lie in one: a "
                          "size up to 32, or an atomic "
                          "size, would do");
    ask(&fixture, GIVEN("a"), 2 * MINUTE_MS, "a Ready");
    gt_cache_topology_deleted(fixture.cache, "s0-n2");
    ask(&fixture, GIVEN("a"), 3 * MINUTE_MS, "a Retry");
    expect_text(&fixture, "no supernode has more than 24 GPUs for pods of 8, a unit of 32 must lie in one: a "
                          "size up to 24, or an atomic "
                          "size, would do; "
                          "s0-n2 has no NodeGPUTopology");
    give_plain_node(fixture.cache, "s0-n2");
    ask(&fixture, GIVEN("a"), 4 * MINUTE_MS, "a Ready");
    teardown(&fixture);
}

static void test_members_that_never_reported(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_supernode(fixture.cache, SUPERNODE(.name = "s0", .tier = 1,
                                            .members = {"s0-n0", "s0-n1", "x9", "x1", "x8", "x2", "x7", "x3",
                                                        "x6", "x4", "x5"}));
    ask(&fixture, GIVEN("a"), MINUTE_MS, "a Retry");
    expect_text(&fixture, "no supernode has more than 16 GPUs for pods of 8, a unit of 32 must lie in one: a "
                          "size up to 16, or an atomic "
                          "size, would do; "
                          "x1, x2, x3, x4, x5, x6, x7, x8 and 1 more have no NodeGPUTopology");
    teardown(&fixture);
}

/* Nodes that are there, and where nothing can be placed now. */
static void test_nodes_that_are_closed(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_node(fixture.cache, NODE(.name = "s0-n0", .not_ready = true));
    give_node(fixture.cache, NODE(.name = "s0-n1", .cordoned = true));
    give_topology(fixture.cache, TOPOLOGY(.name = "s0-n2", .gpus = 8, .unhealthy = 4), 0);
    gt_cache_node_deleted(fixture.cache, "s0-n3");
    ask(&fixture, GIVEN("a"), MINUTE_MS, "a Retry");
    assert_non_null(strstr(fixture.text,
                           "; s0-n0 is not Ready, s0-n1 is cordoned, s0-n2 has 1 unhealthy GPU, "
                           "s0-n3 has no Node"));
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_holds),
        cmocka_unit_test(test_writes_that_fail),
        cmocka_unit_test(test_a_new_leader),
        cmocka_unit_test(test_held_gpus_go),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_a_pod_set_without_gpus),
        cmocka_unit_test(test_a_raycluster),
        cmocka_unit_test(test_nothing_is_held_for_no_groups),
        cmocka_unit_test(test_asked_again_while_it_holds),
        cmocka_unit_test(test_nodes_that_lack_resources),
        cmocka_unit_test(test_pod_sets_ask_for_their_own),
        cmocka_unit_test(test_pods_that_differ_in_containers),
        cmocka_unit_test(test_held_resources),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_members_that_never_reported),
        cmocka_unit_test(test_nodes_that_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
