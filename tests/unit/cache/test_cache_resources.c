/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "scheduler-ext/cache/resources.h"
#include "tests/unit/cache/cache_world.h"
#include "tests/unit/model/loss_wirings.h"

/* What pods of all kinds leave of a node's CPU and the like. */

static unsigned reported; /* on_capacity() */

static void on_capacity(void *arg)
{
    (void)arg;
    reported++;
}

static struct gt_cache *new_counted(void)
{
    reported = 0;
    return new_cache(&(struct gt_cache_spec){.on_capacity = on_capacity});
}

static void give_room(struct gt_cache *cache, const char *name, const char *allocatable)
{
    give_node(cache, NODE(.name = name, .allocatable = allocatable));
    give_topology(cache, TOPOLOGY(.name = name, .gpus = 8), 1);
}

static uint32_t id_of(struct gt_cache *cache, const char *name)
{
    return gt_cluster_find_node(gt_cache_cluster(cache), name);
}

/* A pod with a request of its own that nobody has placed. */
static const struct gt_cache_request *asking(struct gt_cache *cache, const char *name, const char *spec)
{
    give_pod(cache, POD(.name = name, .gpus = 1, .gated = true, .spec = spec));
    return gt_cache_pod_request(pod_of(cache, name));
}

static uint32_t room(struct gt_cache *cache, const char *node, const struct gt_cache_request *request)
{
    return gt_cache_room_for(cache, id_of(cache, node), request, GT_CACHE_ROOM_NOW);
}

static uint32_t emptied(struct gt_cache *cache, const char *node, const struct gt_cache_request *request)
{
    return gt_cache_room_for(cache, id_of(cache, node), request, GT_CACHE_ROOM_EMPTIED);
}

static void pods_of_all_kinds_count(void **state)
{
    (void)state;
    struct gt_cache *cache = new_counted();
    /* Before the node is known. A container asks for 1500m. */
    give_pod(cache, POD(.name = "daemon", .node = "n", .spec = "\"overhead\":{\"cpu\":\"500m\"},"));
    give_room(cache, "n", "{\"cpu\":\"16\",\"memory\":\"64Gi\",\"pods\":\"5\",\"example.com/nic\":\"1\"}");
    const struct gt_cache_request *one = asking(cache, "one", "\"overhead\":{\"cpu\":\"1500m\"},");
    assert_int_equal(room(cache, "n", one), 4); /* 14 CPUs, 3 each; 4 pods are left */
    const struct gt_cache_request *nic = asking(cache, "nic", "\"overhead\":{\"example.com/nic\":\"1\"},");
    assert_int_equal(room(cache, "n", nic), 1);
    const struct gt_cache_request *strange =
        asking(cache, "strange", "\"overhead\":{\"example.com/none\":\"1\"},");
    assert_int_equal(room(cache, "n", strange), 0);
    /* A pod with GPUs on the node, without the CR naming it. */
    give_pod(cache, POD(.name = "two", .gpus = 2, .node = "n", .spec = "\"overhead\":{\"cpu\":\"6500m\"},"));
    assert_int_equal(room(cache, "n", one), 2);
    assert_int_equal(emptied(cache, "n", one), 4);
    /* A pod that is invalid for other reasons counts, too. */
    give_pod(cache, POD(.name = "odd", .gpus = 1 << 20, .node = "n"));
    assert_int_equal(room(cache, "n", one), 1);
    give_pod(cache, POD(.name = "odd", .gpus = 1 << 20, .node = "n", .phase = "Failed"));
    give_pod(cache, POD(.name = "two", .gpus = 2, .node = "n", .phase = "Succeeded"));
    gt_cache_pod_deleted(cache, "ns", "daemon");
    gt_cache_pod_deleted(cache, "ns", "daemon");
    assert_int_equal(room(cache, "n", one), 5);
    gt_cache_pod_deleted(cache, "ns", "strange"); /* with the resource that only it named */
    give_node(cache, NODE(.name = "n", .allocatable = "{\"cpu\":\"7\"}"));
    assert_int_equal(room(cache, "n", one), 2);
    assert_int_equal(room(cache, "n", nic), 0);
    give_node(cache, NODE(.name = "n"));
    assert_int_equal(room(cache, "n", nic), 0);
    assert_true(room(cache, "n", one) > 1000000); /* it says nothing */
    gt_cache_node_deleted(cache, "n");
    gt_cache_free(cache);
}

static void a_plan_takes_until_its_pod_is_bound_or_gone(void **state)
{
    (void)state;
    struct gt_cache *cache = new_counted();
    give_room(cache, "n", "{\"cpu\":\"16\"}");
    give_room(cache, "m", "{\"cpu\":\"16\"}");
    const struct gt_cache_request *of = asking(cache, "p", "\"overhead\":{\"cpu\":\"6500m\"},");
    assert_int_equal(room(cache, "n", of), 2);
    assert_int_equal(gt_cache_plan_pod(cache, pod_of(cache, "p"), id_of(cache, "n"), 1, NULL), 0);
    assert_int_equal(room(cache, "n", of), 1);
    assert_int_equal(gt_cache_plan_pod(cache, pod_of(cache, "p"), id_of(cache, "m"), 1, NULL), 0);
    assert_int_equal(room(cache, "n", of), 2);
    assert_int_equal(room(cache, "m", of), 1);
    assert_int_equal(emptied(cache, "m", of), 2);
    gt_cache_unplan_pod(cache, pod_of(cache, "p"));
    assert_int_equal(room(cache, "m", of), 2);
    /* A plan of the object, and the pod is bound there. */
    for (unsigned bound = 0; bound < 2; bound++) {
        give_pod(cache, POD(.name = "p", .gpus = 1, .node = bound ? "m" : NULL, .plan_node = "m",
                            .plan_mask = 1, .spec = "\"overhead\":{\"cpu\":\"6500m\"},"));
        assert_int_equal(room(cache, "m", of), 1);
    }
    of = asking(cache, "other", "\"overhead\":{\"cpu\":\"6500m\"},");
    gt_cache_pod_deleted(cache, "ns", "p");
    assert_int_equal(room(cache, "m", of), 2);
    /* A place for a pod that does not exist. */
    const struct gt_cache_job *job = pod_of(cache, "other")->job;
    assert_null(gt_cache_reserve(cache, job, id_of(cache, "m"), 7));
    struct gt_cache_reserve *hold = gt_cache_reserve(cache, job, id_of(cache, "m"), 1);
    assert_int_equal(room(cache, "m", of), 1);
    assert_true(gt_cache_reserve_is_sound(cache, hold));
    give_node(cache, NODE(.name = "m", .allocatable = "{\"cpu\":\"7\"}"));
    assert_false(gt_cache_reserve_is_sound(cache, hold));
    gt_cache_topology_deleted(cache, "m");
    gt_cache_node_deleted(cache, "m");
    gt_cache_unreserve(cache, hold);
    gt_cache_free(cache);
}

static void who_waits_is_woken_by_what_was_short(void **state)
{
    (void)state;
    struct gt_cache *cache = new_counted();
    struct gt_plan_limit limits[8];
    give_room(cache, "n", "{\"cpu\":\"16\"}");
    give_pod(cache, POD(.name = "big", .node = "n", .spec = "\"overhead\":{\"cpu\":\"10\"},"));
    give_pod(cache, POD(.name = "small", .node = "n"));
    const struct gt_cache_demand demand = {asking(cache, "p", "\"overhead\":{\"cpu\":\"1\"},"), 2};
    reported = 0;
    gt_cache_pod_deleted(cache, "ns", "small");
    assert_int_equal(reported, 0); /* no pod needed it */
    assert_int_equal(gt_cache_limits(cache, &demand, 1, GT_CACHE_ROOM_NOW, false, limits), 1);
    assert_int_equal(limits[0].node, id_of(cache, "n"));
    assert_int_equal(limits[0].gpus, 2); /* 4.5 CPUs are left, 2.5 each */
    assert_int_equal(gt_cache_limits(cache, &demand, 1, GT_CACHE_ROOM_EMPTIED, false, limits), 1);
    gt_cache_pod_deleted(cache, "ns", "big");
    assert_int_equal(reported, 1);
    assert_int_equal(gt_cache_limits(cache, &demand, 1, GT_CACHE_ROOM_NOW, false, limits), 0);
    gt_cache_free(cache);
}

/* Pods come, move, grow, end and go in any order, under one name also with other volumes than before: the
 * sums are those of the pods that are there. */
static void sums_are_those_of_the_pods(void **state)
{
    (void)state;
    enum { PODS = 40, NODES = 5, CPUS = 1000 };
    uint64_t random = test_seed();
    int node_of[PODS];
    unsigned asks[PODS];
    struct gt_cache *cache = new_counted();
    for (unsigned n = 0; n < NODES; n++)
        give_room(cache, (const char *[]){"a", "b", "c", "d", "e"}[n], "{\"cpu\":\"1000\"}");
    const struct gt_cache_request *one = asking(cache, "x", "\"resources\":{\"requests\":{\"cpu\":\"1\"}},");
    for (unsigned p = 0; p < PODS; p++)
        node_of[p] = -1;
    for (unsigned i = 0; i < 4000; i++) {
        unsigned p = random_next(&random) % PODS, n = random_next(&random) % NODES;
        char name[16], node[2] = {(char)('a' + n), 0}, spec[192];
        snprintf(name, sizeof(name), "p%u", p);
        switch (random_next(&random) % 4) {
        case 0:
            gt_cache_pod_deleted(cache, "ns", name);
            node_of[p] = -1;
            break;
        case 1:
            give_pod(cache, POD(.name = name, .node = node, .phase = "Succeeded", .gpus = p % 2));
            node_of[p] = -1;
            break;
        default:
            asks[p] = 1 + random_next(&random) % 9;
            snprintf(spec, sizeof(spec), "\"resources\":{\"requests\":{\"cpu\":\"%u\"}},%s", asks[p],
                     random_next(&random) % 2
                         ? "\"volumes\":[{\"persistentVolumeClaim\":{\"claimName\":\"v\"}}],"
                         : "");
            give_pod(cache, POD(.name = name, .node = node, .spec = spec, .gpus = p % 2));
            node_of[p] = (int)n;
        }
        unsigned used[NODES] = {0}, without_gpus[NODES] = {0};
        for (unsigned q = 0; q < PODS; q++)
            if (node_of[q] >= 0) {
                used[node_of[q]] += asks[q];
                without_gpus[node_of[q]] += q % 2 ? 0 : asks[q];
            }
        for (n = 0; n < NODES; n++) {
            node[0] = (char)('a' + n);
            assert_int_equal(room(cache, node, one), CPUS - used[n]);
            assert_int_equal(emptied(cache, node, one), CPUS - without_gpus[n]);
        }
    }
    gt_cache_free(cache);
}

/* Likewise with resources that come and go, with nodes and without, and nodes that are made again. */
static void sums_of_resources_that_come_and_go(void **state)
{
    (void)state;
    enum { PODS = 20, NODES = 4, KINDS = 5, MUCH = 1000 };
    uint64_t random = test_seed();
    unsigned has[NODES][KINDS] = {{0}}, asks[PODS][KINDS] = {{0}};
    int node_of[PODS];
    bool there[NODES] = {0};
    struct gt_cache *cache = new_counted();
    for (unsigned p = 0; p < PODS; p++)
        node_of[p] = -1;
    for (unsigned i = 0; i < 3000; i++) {
        unsigned n = random_next(&random) % NODES, p = random_next(&random) % PODS;
        char name[16], node[2] = {(char)('a' + n), 0};
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 10);
        snprintf(name, sizeof(name), "p%u", p);
        switch (random_next(&random) % 8) {
        case 0: /* the Node alone goes, or all of it */
            gt_cache_node_deleted(cache, node);
            if (i % 2)
                gt_cache_topology_deleted(cache, node);
            there[n] = false;
            break;
        case 1:
        case 2:
            gt_buf_puts(&text, "{\"x\":\"1\"");
            for (unsigned k = 0; k < KINDS; k++) {
                has[n][k] = random_next(&random) % 3 ? MUCH + random_next(&random) % 3 : 0;
                if (has[n][k])
                    gt_buf_printf(&text, ",\"example.com/r%u\":\"%u\"", k, has[n][k]);
            }
            gt_buf_puts(&text, "}");
            give_room(cache, node, text.data);
            there[n] = true;
            break;
        case 3:
            gt_cache_pod_deleted(cache, "ns", name);
            node_of[p] = -1;
            break;
        default: /* to that node, whether it is there or not */
            gt_buf_puts(&text, "\"overhead\":{\"x\":\"0\"");
            for (unsigned k = 0; k < KINDS; k++) {
                asks[p][k] = random_next(&random) % 3;
                gt_buf_printf(&text, ",\"example.com/r%u\":\"%u\"", k, asks[p][k]);
            }
            gt_buf_puts(&text, "},");
            give_pod(cache, POD(.name = name, .node = node, .spec = text.data, .gpus = p % 2));
            node_of[p] = (int)n;
        }
        for (unsigned k = 0; k < KINDS; k++) {
            char spec[64];
            snprintf(spec, sizeof(spec), "\"overhead\":{\"example.com/r%u\":\"1\"},", k);
            const struct gt_cache_request *one = asking(cache, "query", spec);
            for (n = 0; n < NODES; n++) {
                unsigned used[2] = {0}; /* without GPUs, with GPUs */
                for (p = 0; p < PODS; p++)
                    used[p % 2] += node_of[p] == (int)n ? asks[p][k] : 0;
                node[0] = (char)('a' + n);
                if (!there[n])
                    continue;
                unsigned rest = has[n][k] > used[0] ? has[n][k] - used[0] : 0;
                assert_int_equal(emptied(cache, node, one), rest);
                assert_int_equal(room(cache, node, one), rest > used[1] ? rest - used[1] : 0);
            }
            gt_cache_pod_deleted(cache, "ns", "query");
        }
    }
    gt_cache_free(cache);
}

/* More resources than are looked at: those that came first count. */
static void further_resources_are_passed_over(void **state)
{
    (void)state;
    struct gt_cache *cache = new_counted();
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 14);
    gt_buf_puts(&text, "{\"cpu\":\"16\"");
    for (unsigned i = 0; i < 60; i++)
        gt_buf_printf(&text, ",\"example.com/r%u\":\"%u\"", i, i + 1);
    gt_buf_puts(&text, "}");
    give_room(cache, "n", text.data);
    assert_int_equal(room(cache, "n", asking(cache, "p", "\"overhead\":{\"example.com/r3\":\"2\"},")), 2);
    assert_int_equal(room(cache, "n", asking(cache, "q", "\"overhead\":{\"example.com/r59\":\"99\"},")), 10);
    give_node(cache, NODE(.name = "n", .allocatable = "{\"cpu\":\"16\"}"));
    assert_int_equal(room(cache, "n", asking(cache, "r", "\"overhead\":{\"example.com/r59\":\"99\"},")), 0);
    gt_cache_free(cache);
}

/* Names that a pod makes up leave room for those that nodes have. */
static void strange_resources_hide_no_others(void **state)
{
    (void)state;
    struct gt_cache *cache = new_counted();
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 14);
    gt_buf_puts(&text, "\"overhead\":{\"example.com/s\":\"1\"");
    for (unsigned i = 0; i < 60; i++)
        gt_buf_printf(&text, ",\"example.com/s%u\":\"1\"", i);
    gt_buf_puts(&text, "},");
    const struct gt_cache_request *strange = asking(cache, "strange", text.data);
    give_room(cache, "n", "{\"cpu\":\"16\",\"memory\":\"64Gi\",\"example.com/nic\":\"1\"}");
    assert_int_equal(room(cache, "n", strange), 0);
    assert_int_equal(room(cache, "n", asking(cache, "p", "\"overhead\":{\"memory\":\"32Gi\"},")), 2);
    assert_int_equal(room(cache, "n", asking(cache, "q", "\"overhead\":{\"example.com/nic\":\"1\"},")), 1);
    gt_cache_free(cache);
}

/* ---- the number of GPUs that limits may ask for ---- */

static void give_offer(struct gt_cache *cache, const char *gpus, const char *registered)
{
    char allocatable[64] = "{}";
    if (gpus)
        snprintf(allocatable, sizeof(allocatable), "{\"metax-tech.com/gpu\":\"%s\"}", gpus);
    give_node(cache, NODE(.name = "n", .allocatable = allocatable));
    give_topology(cache, TOPOLOGY(.name = "n", .gpus = 8, .registered = registered), 1);
}

/* The kubelet's topology manager judges GPUs of the device plugin, and no claims. */
static void claims_are_not_judged(void **state)
{
    (void)state;
    for (unsigned by_claims = 0; by_claims < 2; by_claims++) {
        struct gt_cache *cache = new_counted();
        give_plain_node(cache, "n");
        give_topology(cache,
                      TOPOLOGY(.name = "n", .gpus = 8, .single_numa = true,
                               .registered = by_claims ? "DriverRegistered" : "Registered"),
                      0);
        assert_int_equal(gt_class_numa(cluster_node(cache, "n").class)->count, by_claims ? 0 : 2);
        gt_cache_free(cache);
    }
}

static void gpus_are_those_that_the_node_offers(void **state)
{
    (void)state;
    static const struct {
        const char *gpus, *registered;
        uint32_t room; /* for pods of 2 GPUs; UINT32_MAX: nothing limits them */
    } cases[] = {
        {"0", "Registered", 0},
        {"4", "Registered", 2},
        {"5", NULL, 2},
        {NULL, "NotRegistered", 0}, /* the kubelet does not know the resource yet */
        {NULL, NULL, UINT32_MAX},   /* nothing says that a plugin offers them */
        {NULL, "NoDevicePlugin", UINT32_MAX},
        {"0", "DriverRegistered",
         UINT32_MAX}, /* claims give them, what the plugin left behind means nothing */
        {"8", "Registered", 4},
    };
    struct gt_cache *cache = new_counted();
    give_pod(cache, POD(.name = "p", .gpus = 2, .gated = true));
    const struct gt_cache_request *request = gt_cache_pod_request(pod_of(cache, "p"));
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        give_offer(cache, cases[i].gpus, cases[i].registered);
        uint32_t got = room(cache, "n", request);
        if (cases[i].room == UINT32_MAX ? got < 1000 : got != cases[i].room)
            fail_msg("case %zu: room for %u pods", i, got);
        assert_int_equal(cluster_node(cache, "n").available,
                         0xff); /* which ones are free is another matter */
    }
    /* As the scheduler counts: all bound pods, those that hold an unhealthy GPU, too. */
    give_pod(cache, POD(.name = "sick", .gpus = 4, .node = "n"));
    give_node(cache, NODE(.name = "n", .allocatable = "{\"metax-tech.com/gpu\":\"7\"}"));
    give_topology(cache, TOPOLOGY(.name = "n", .gpus = 8, .unhealthy = 1, .owners = {{"sick", 0xf}}), 2);
    assert_int_equal(room(cache, "n", request), 1);
    assert_int_equal(emptied(cache, "n", request), 3);
    struct gt_plan_limit limits[1];
    const struct gt_cache_demand demand = {request, 2};
    assert_int_equal(gt_cache_limits(cache, &demand, 1, GT_CACHE_ROOM_NOW, false, limits), 1);
    assert_int_equal(limits[0].gpus, 2);
    /* Who waits for it is woken. */
    reported = 0;
    give_node(cache, NODE(.name = "n", .allocatable = "{\"metax-tech.com/gpu\":\"8\"}"));
    assert_int_equal(reported, 1);
    assert_int_equal(room(cache, "n", request), 2);
    gt_cache_topology_deleted(cache, "n");
    gt_cache_node_deleted(cache, "n");
    gt_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_of_all_kinds_count),
        cmocka_unit_test(a_plan_takes_until_its_pod_is_bound_or_gone),
        cmocka_unit_test(who_waits_is_woken_by_what_was_short),
        cmocka_unit_test(sums_are_those_of_the_pods),
        cmocka_unit_test(sums_of_resources_that_come_and_go),
        cmocka_unit_test(further_resources_are_passed_over),
        cmocka_unit_test(strange_resources_hide_no_others),
        cmocka_unit_test(claims_are_not_judged),
        cmocka_unit_test(gpus_are_those_that_the_node_offers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
