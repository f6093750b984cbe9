/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/names.h"
#include "base/err.h"
#include "tests/unit/cache/cache_world.h"
#include "tests/unit/core/core_checks.h"

/* Plans and assumptions: made, kept, lost, broken, and what comes back after a restart. */

static uint32_t id_of(struct gt_cache *cache, const char *node)
{
    return gt_cluster_find_node(gt_cache_cluster(cache), node);
}

static void assert_plan(struct gt_cache *cache, const char *pod, enum gt_cache_pod_state state,
                        enum gt_cache_plan plan)
{
    struct gt_cache_pod *at = pod_of(cache, pod);
    if (at->state != state || at->plan != plan)
        fail_msg("pod %s: state %d plan %d, expected %d and %d", pod, at->state, at->plan, state, plan);
}

/* The controller reports that the scheduler refuses the pod: others get the GPUs, until it is bound anyway.
 */
static void test_refused(void **state)
{
    (void)state;
    static const char condition[] = "{\"type\":\"GPUPlacement\",\"status\":\"False\",\"reason\":\"%s\"}";
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    for (unsigned i = 0; i < 3; i++) {
        cJSON *pod = world_pod(POD(.name = "a", .gpus = 4, .plan_node = "n1", .plan_mask = 0x0f));
        char text[128];
        snprintf(text, sizeof(text), condition, i == 1 ? "PlanRefused" : "Planned");
        cJSON_AddItemToArray(cJSON_AddArrayToObject(cJSON_GetObjectItem(pod, "status"), "conditions"),
                             cJSON_Parse(text));
        give_json_pod(cache, pod);
        cJSON_Delete(pod);
        assert_plan(cache, "a", GT_CACHE_WAITING, i == 1 ? GT_CACHE_PLAN_LOST : GT_CACHE_PLAN_ASSUMED);
        assert_int_equal(cluster_node(cache, "n1").available, i == 1 ? 0xff : 0xf0);
        assert_int_equal(pod_of(cache, "a")->refused, i == 1);
    }
    give_pod(cache, POD(.name = "a", .gpus = 4, .plan_node = "n1", .plan_mask = 0x0f, .node = "n1"));
    assert_plan(cache, "a", GT_CACHE_BOUND, GT_CACHE_PLAN_ASSUMED);
    check_cache(cache);
}

/* From the caller's plan to the pod that runs on it. */
static void test_life(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "a", .gpus = 4, .gated = true, .job = "j"));
    struct gt_cache_pod *a = pod_of(cache, "a");
    assert_plan(cache, "a", GT_CACHE_GATED, GT_CACHE_PLAN_NONE);

    assert_int_equal(gt_cache_plan_pod(cache, a, id_of(cache, "n1"), 0x0f, NULL), 0);
    assert_plan(cache, "a", GT_CACHE_GATED, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(a->planned.node, id_of(cache, "n1"));
    assert_int_equal(a->planned.mask, 0x0f);
    assert_non_null(gt_cluster_find_promise(gt_cache_cluster(cache), a->promise));
    assert_int_equal(cluster_node(cache, "n1").available, 0xf0);
    /* An event from before the plan was written changes nothing. */
    give_pod(cache, POD(.name = "a", .gpus = 4, .gated = true, .job = "j", .spec = "\"priority\":1,"));
    assert_plan(cache, "a", GT_CACHE_GATED, GT_CACHE_PLAN_ASSUMED);

    give_pod(cache, POD(.name = "a", .gpus = 4, .job = "j", .plan_node = "n1", .plan_mask = 0x0f));
    assert_ptr_equal(pod_of(cache, "a"), a);
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
    give_pod(cache,
             POD(.name = "a", .gpus = 4, .job = "j", .plan_node = "n1", .plan_mask = 0x0f, .node = "n1"));
    assert_plan(cache, "a", GT_CACHE_BOUND, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(cluster_node(cache, "n1").available, 0xf0);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"a", 0x0f}}), 2);
    assert_plan(cache, "a", GT_CACHE_RUNNING, GT_CACHE_PLAN_RUNNING);
    assert_null(gt_cluster_find_promise(gt_cache_cluster(cache), a->promise));
    assert_int_equal(gt_cluster_assumptions(gt_cache_cluster(cache)), 0);
    assert_int_equal(cluster_node(cache, "n1").available, 0xf0);

    gt_cache_pod_deleted(cache, "ns", "a"); /* forced: the kubelet has it still */
    assert_int_equal(cluster_node(cache, "n1").available, 0xf0);
    assert_null(gt_cache_gpu_user(cache, id_of(cache, "n1"), 0));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8), 3);
    assert_int_equal(cluster_node(cache, "n1").available, 0xff);
}

static void test_refusals(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    gt_auto_err struct gt_err *err = NULL;
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "a", .gpus = 4, .gated = true));
    give_pod(cache, POD(.name = "b", .gpus = 2, .gated = true));
    give_pod(cache, POD(.name = "c", .gpus = 1, .node = "n1"));
    struct gt_cache_pod *a = pod_of(cache, "a"), *b = pod_of(cache, "b");
    uint32_t n1 = id_of(cache, "n1");
    uint64_t c = gpus_of(cache, "n1", "c"), rest = 0xff & ~c;
    assert_int_equal(__builtin_popcountll(c), 1);
    assert_int_equal(gt_cache_plan_pod(cache, a, n1, 0x03, NULL), -EINVAL);
    assert_int_equal(gt_cache_plan_pod(cache, a, 17, 0x0f, NULL), -ENOENT);
    assert_int_equal(gt_cache_plan_pod(cache, b, n1, c | (rest & -rest), &err), -EBUSY);
    assert_non_null(strstr(gt_err_text(err), "ns/b"));
    assert_int_equal(gt_cache_plan_pod(cache, pod_of(cache, "c"), n1, c, NULL), -EINVAL);
    assert_int_equal(gt_cache_plan_pod(cache, b, n1, 0x300, NULL), -EINVAL);
    assert_int_equal(gt_cluster_assumptions(gt_cache_cluster(cache)), 1);

    /* A plan of its own is not in its way, and one that fails leaves the one before. */
    uint64_t four = rest & 0x78, other = rest & 0x3c;
    assert_int_equal(gt_cache_plan_pod(cache, a, n1, four, NULL), 0);
    assert_int_equal(gt_cache_plan_pod(cache, a, n1, other, NULL), 0);
    assert_int_equal(gt_cache_plan_pod(cache, a, n1, (other & ~UINT64_C(4)) | c, NULL), -EBUSY);
    assert_int_equal(a->planned.mask, other);
    assert_int_equal(cluster_node(cache, "n1").assumed, other | c);
    gt_cache_unplan_pod(cache, a);
    assert_int_equal(cluster_node(cache, "n1").assumed, c);
    assert_plan(cache, "a", GT_CACHE_GATED, GT_CACHE_PLAN_NONE);
    gt_cache_unplan_pod(cache, a); /* twice is once */
}

static void test_unplanned(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    const struct world_pod *reported = POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03);
    give_plain_node(cache, "n1");
    give_pod(cache, reported);
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
    gt_cache_unplan_pod(cache, pod_of(cache, "a"));
    assert_int_equal(cluster_node(cache, "n1").available, 0xff);
    give_pod(cache,
             POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03, .spec = "\"priority\":1,"));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_NONE);
    /* Another plan counts, and the same one when it was taken away in between. */
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x0c));
    assert_int_equal(pod_of(cache, "a")->planned.mask, 0x0c);
    gt_cache_unplan_pod(cache, pod_of(cache, "a"));
    give_pod(cache, POD(.name = "a", .gpus = 2));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_NONE);
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x0c));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
    /* A new plan of the caller's stands against the old text. */
    assert_int_equal(gt_cache_plan_pod(cache, pod_of(cache, "a"), id_of(cache, "n1"), 0x30, NULL), 0);
    give_pod(cache,
             POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x0c, .spec = "\"priority\":1,"));
    assert_int_equal(pod_of(cache, "a")->planned.mask, 0x30);
    give_pod(cache,
             POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x30, .spec = "\"priority\":1,"));
    assert_int_equal(pod_of(cache, "a")->planned.mask, 0x30);
    assert_int_equal(cluster_node(cache, "n1").assumed, 0x30);
}

/* A pod that is being deleted is never bound, so its GPUs are free at once; one on a node keeps them. */
static void test_deleting(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "a", .gpus = 4, .gated = true));
    assert_int_equal(gt_cache_plan_pod(cache, pod_of(cache, "a"), id_of(cache, "n1"), 0x0f, NULL), 0);
    give_pod(cache, POD(.name = "b", .gpus = 2, .plan_node = "n1", .plan_mask = 0x30));
    give_pod(cache, POD(.name = "c", .gpus = 2, .plan_node = "n1", .plan_mask = 0xc0, .node = "n1"));
    assert_int_equal(cluster_node(cache, "n1").available, 0);
    assert_int_equal(pod_of(cache, "a")->namespace_->gpus, 8);
    give_pod(cache, POD(.name = "a", .gpus = 4, .gated = true, .deleting = true));
    give_pod(cache, POD(.name = "b", .gpus = 2, .plan_node = "n1", .plan_mask = 0x30, .deleting = true));
    give_pod(cache, POD(.name = "c", .gpus = 2, .plan_node = "n1", .plan_mask = 0xc0, .node = "n1",
                        .deleting = true));
    assert_plan(cache, "a", GT_CACHE_GATED, GT_CACHE_PLAN_LOST);
    assert_plan(cache, "b", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    assert_plan(cache, "c", GT_CACHE_BOUND, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(cluster_node(cache, "n1").available, 0x3f);
    assert_int_equal(pod_of(cache, "a")->namespace_->gpus, 2);
}

static void test_lost(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8), 1);
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    give_node(cache, NODE(.name = "n1"));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);

    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unhealthy = 0x02), 2);
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    assert_int_equal(cluster_node(cache, "n1").available, 0xfd);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"stranger", 0x01}}), 3);
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 1), 4); /* GPU 1 is gone */
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    assert_int_equal(pod_of(cache, "a")->planned.mask, 0x01);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8), 5);
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(cluster_node(cache, "n1").available, 0xfc);

    give_node(cache, NODE(.name = "n1", .cordoned = true));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    assert_int_equal(cluster_node(cache, "n1").assumed, 0);
    give_node(cache, NODE(.name = "n1", .not_ready = true));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    /* On the node already, a cordon does not matter. */
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03, .node = "n1"));
    assert_plan(cache, "a", GT_CACHE_BOUND, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(cluster_node(cache, "n1").assumed, 0x03);
    assert_int_equal(cluster_node(cache, "n1").available, 0);
    give_node(cache, NODE(.name = "n1"));
    assert_int_equal(cluster_node(cache, "n1").available, 0xfc);
    gt_cache_topology_deleted(cache, "n1");
    assert_plan(cache, "a", GT_CACHE_BOUND, GT_CACHE_PLAN_LOST);
    assert_int_equal(pod_of(cache, "a")->node, GT_NONE);
    assert_string_equal(pod_of(cache, "a")->node_name, "n1");
}

/* A pod that came beside the plan: it is on the node, the planned one is not. */
static void test_taken_by_another(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "a", .gpus = 6, .plan_node = "n1", .plan_mask = 0x3f));
    give_pod(cache, POD(.name = "b", .gpus = 2, .node = "n1"));
    assert_int_equal(gpus_of(cache, "n1", "b"), 0xc0); /* beside the plan, while there is room */
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
    give_pod(cache, POD(.name = "c", .gpus = 1, .node = "n1", .created = "2026-02-01T00:00:00Z"));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").available), 5);
    gt_cache_pod_deleted(cache, "ns", "c");
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
}

/* A plan that cannot be kept takes no GPUs from one that can. */
static void test_beside_a_lost_plan(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "lost", .gpus = 6, .plan_node = "n1", .plan_mask = 0xfc));
    give_pod(cache, POD(.name = "there", .gpus = 5, .node = "n1"));
    assert_plan(cache, "lost", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    give_pod(cache, POD(.name = "a", .gpus = 1, .gated = true, .created = "2026-02-01T00:00:00Z"));
    for (uint64_t left = cluster_node(cache, "n1").available; left; left &= left - 1) {
        assert_int_equal(gt_cache_plan_pod(cache, pod_of(cache, "a"), id_of(cache, "n1"), left & -left, NULL),
                         0);
        assert_plan(cache, "a", GT_CACHE_GATED, GT_CACHE_PLAN_ASSUMED);
        assert_plan(cache, "lost", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
        assert_int_equal(__builtin_popcountll(gpus_of(cache, "n1", "there")), 5);
        gt_cache_unplan_pod(cache, pod_of(cache, "a"));
    }
}

static void test_broken(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03, .node = "n1"));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"a", 0x0c}}), 2);
    assert_plan(cache, "a", GT_CACHE_RUNNING, GT_CACHE_PLAN_BROKEN);
    assert_int_equal(cluster_node(cache, "n1").available, 0xf3);
    give_pod(cache, POD(.name = "b", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03, .node = "n2"));
    assert_plan(cache, "b", GT_CACHE_BOUND, GT_CACHE_PLAN_BROKEN);
    assert_int_equal(pod_of(cache, "b")->planned.node, GT_NONE);
    assert_int_equal(cluster_node(cache, "n1").assumed, 0);
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n2").assumed), 2);
    /* A bound pod whose GPU became unhealthy: it will get another. */
    give_pod(cache, POD(.name = "c", .gpus = 2, .plan_node = "n1", .plan_mask = 0xc0, .node = "n1"));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unhealthy = 0x40, .owners = {{"a", 0x0c}}), 3);
    assert_plan(cache, "c", GT_CACHE_BOUND, GT_CACHE_PLAN_LOST);
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").assumed), 2);
}

/* The kubelet names a pod's containers one after the other. */
static void test_named_in_part(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "a", .gpus = 4, .plan_node = "n1", .plan_mask = 0x0f, .node = "n1"));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"a", 0x03}}), 2);
    assert_plan(cache, "a", GT_CACHE_RUNNING, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(cluster_node(cache, "n1").available, 0xf0);
    assert_int_equal(cluster_node(cache, "n1").assumed, 0x0c);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"a", 0x13}}), 3);
    assert_plan(cache, "a", GT_CACHE_RUNNING, GT_CACHE_PLAN_BROKEN);
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").available), 4);
}

/* The CR counts GPUs before it names who has them: they count once. */
static void test_not_twice(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "a", .gpus = 6, .node = "n1"));
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").available), 2);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unnamed = 0x3f), 2);
    assert_int_equal(cluster_node(cache, "n1").available, 0xc0);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unnamed = 0x07), 3);
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").available), 2);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unnamed = 0x3f), 4);
    give_pod(cache, POD(.name = "p", .gpus = 2, .plan_node = "n1", .plan_mask = 0xc0, .node = "n1"));
    assert_plan(cache, "p", GT_CACHE_BOUND, GT_CACHE_PLAN_ASSUMED);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unnamed = 0xff), 5);
    assert_plan(cache, "p", GT_CACHE_BOUND, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(gt_cluster_assumptions(gt_cache_cluster(cache)), 0);
    /* More than there is: what is left, and no more. */
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"stranger", 0x7f}}), 6);
    assert_int_equal(cluster_node(cache, "n1").available, 0);
}

/* Owners come before or after their pods. */
static void test_owner_first(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_node(cache, NODE(.name = "n1"));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"a", 0x03}}), 1);
    assert_int_equal(cluster_node(cache, "n1").available, 0xfc);
    /* The NodeGPUTopology names the pod before its binding is observed: the plan's GPUs belong to it. */
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
    assert_null(gt_cluster_find_promise(gt_cache_cluster(cache), pod_of(cache, "a")->promise));
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03, .node = "n1"));
    assert_plan(cache, "a", GT_CACHE_RUNNING, GT_CACHE_PLAN_RUNNING);
    assert_int_equal(cluster_node(cache, "n1").available, 0xfc);
}

/* A pod of the name of one that has just gone: the CR still means that one. */
static void test_namesake(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "a", .uid = "1", .gpus = 2, .node = "n1", .created = "2026-01-01T10:00:00Z"));
    give_topology(
        cache,
        TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"a", 0x03}}, .owners_since = "2026-01-01T10:00:05Z"),
        2);
    assert_plan(cache, "a", GT_CACHE_RUNNING, GT_CACHE_PLAN_NONE);
    give_pod(cache, POD(.name = "a", .uid = "2", .gpus = 2, .node = "n1", .plan_node = "n1",
                        .plan_mask = 0x0c, .created = "2026-01-01T11:00:00Z"));
    assert_plan(cache, "a", GT_CACHE_BOUND, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(cluster_node(cache, "n1").available, 0xf0);
    assert_int_equal(gpus_of(cache, "n1", "a"), 0x0c);
    give_topology(
        cache,
        TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"a", 0x0c}}, .owners_since = "2026-01-01T11:00:01Z"),
        3);
    assert_plan(cache, "a", GT_CACHE_RUNNING, GT_CACHE_PLAN_RUNNING);
    assert_int_equal(cluster_node(cache, "n1").available, 0xf3);
}

static void test_moved_node(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static const char *const names[] = {"n0", "n1", "n2", "n3"};
    uint32_t ids[4];
    for (unsigned i = 0; i < 4; i++) {
        give_plain_node(cache, names[i]);
        ids[i] = id_of(cache, names[i]);
    }
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03));
    give_pod(cache, POD(.name = "b", .gpus = 3, .node = "n2"));
    const char *steps[][2] = {{"s1", "top"}, {"s1", NULL}, {"s1", "other"}, {"s1", "top"}};
    for (unsigned i = 0; i < GT_COUNT(steps); i++) {
        give_supernode(cache, SUPERNODE(.name = steps[i][0], .tier = 1, .parent = steps[i][1],
                                        .members = {"n0", "n1", "n2", i % 2 ? "n3" : NULL}));
        if (i == 1)
            give_supernode(cache, SUPERNODE(.name = "top", .tier = 2));
        for (unsigned n = 0; n < 4; n++)
            assert_int_equal(id_of(cache, names[n]), ids[n]);
        assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
        assert_int_equal(cluster_node(cache, "n1").assumed, 0x03);
        assert_int_equal(__builtin_popcountll(cluster_node(cache, "n2").assumed), 3);
    }
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .link_down = true), 9); /* another class */
    assert_int_equal(id_of(cache, "n1"), ids[1]);
    assert_int_equal(cluster_node(cache, "n1").assumed, 0x03);
}

static void test_malformed_plans(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static const char *const gpus[] = {"", "x", "[]", "{\\\"main\\\":1}", "{\\\"main\\\":[1,2]}",
                                       "{\\\"main\\\":[\\\"GPU-n1-0\\\"]}",
                                       "{\\\"main\\\":[\\\"GPU-n1-0\\\",\\\"\\\"]}",
                                       /* one GPU twice is not two */
                                       "{\\\"main\\\":[\\\"GPU-n1-0\\\",\\\"GPU-n1-0\\\"]}",
                                       "{\\\"main\\\":[\\\"GPU-n1-0\\\"],\\\"other\\\":[\\\"GPU-n1-0\\\"]}"};
    give_plain_node(cache, "n1");
    for (unsigned i = 0; i < GT_COUNT(gpus); i++) {
        char text[512];
        uint64_t before = refused(cache);
        snprintf(text, sizeof(text),
                 "\"" GT_PLAN_ANNOTATION_NODE "\":\"n1\",\"" GT_PLAN_ANNOTATION_GPUS "\":\"%s\",", gpus[i]);
        give_pod(cache, POD(.name = "a", .gpus = 2, .annotations = text));
        assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_NONE);
        assert_int_equal(refused(cache), before + 1);
    }
}

struct remote_reservations {
    unsigned pods, gone, room;
    uint32_t left;
};

static void on_pod(void *arg, struct gt_cache_pod *pod)
{
    (void)pod;
    ((struct remote_reservations *)arg)->pods++;
}

static void on_deleted(void *arg, struct gt_cache_pod *pod)
{
    ((struct remote_reservations *)arg)->gone++;
    ((struct remote_reservations *)arg)->left = pod->job->pod_count;
}

static void on_capacity(void *arg)
{
    ((struct remote_reservations *)arg)->room++;
}

static void test_callbacks(void **state)
{
    (void)state;
    struct remote_reservations received = {0};
    const struct gt_cache_spec spec = {
        .on_pod = on_pod, .on_pod_deleted = on_deleted, .on_capacity = on_capacity, .arg = &received};
    gt_auto_cache struct gt_cache *cache = new_cache(&spec);
    give_plain_node(cache, "n1");
    assert_true(received.room > 0);
    received.room = 0;
    give_pod(cache, POD(.name = "a", .gpus = 4, .gated = true, .job = "j"));
    assert_int_equal(received.pods, 1);
    give_pod(cache, POD(.name = "a", .gpus = 4, .gated = true, .job = "j"));
    assert_int_equal(received.pods, 1); /* nothing new */
    give_pod(cache, POD(.name = "b", .gpus = 2, .node = "n1", .job = "j"));
    assert_int_equal(received.pods, 2);
    uint64_t available = cluster_node(cache, "n1").available, four = 0;
    for (unsigned i = 0; i < 4; i++, available &= available - 1)
        four |= available & -available;
    assert_int_equal(gt_cache_plan_pod(cache, pod_of(cache, "a"), id_of(cache, "n1"), four, NULL), 0);
    gt_cache_tick(cache, 2);
    assert_int_equal(received.pods, 2); /* the caller knows what it planned */
    assert_int_equal(received.room, 0);
    gt_cache_unplan_pod(cache, pod_of(cache, "a"));
    assert_int_equal(received.room, 0);
    gt_cache_tick(cache, 3);
    assert_int_equal(received.room, 1);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"b", 0x81}}), 4);
    assert_int_equal(received.pods, 3); /* b runs */
    received.room = 0;
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"b", 0x81}}), 5);
    assert_int_equal(received.pods, 3);
    assert_int_equal(received.room, 0);
    gt_cache_pod_deleted(cache, "ns", "b");
    assert_int_equal(received.gone, 1);
    assert_int_equal(received.left, 1);
    assert_int_equal(received.room, 0); /* the CR does not say so yet */
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8), 6);
    assert_int_equal(received.room, 1);
    give_pod(cache, POD(.name = "a", .gpus = 4, .job = "j", .phase = "Failed"));
    assert_int_equal(received.gone, 2);
    assert_int_equal(received.left, 0);
    assert_null(gt_cache_next_job(cache, NULL));
}

/* Who is lifted keeps its place before an older one that is gated still: a plan that was given up may stand
 * in its annotations. */
static void test_lifted_before_gated(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "old", .gpus = 8, .gated = true, .plan_node = "n1", .plan_mask = 0xff,
                        .created = "2026-01-01T00:00:00Z"));
    assert_plan(cache, "old", GT_CACHE_GATED, GT_CACHE_PLAN_ASSUMED);
    give_pod(cache, POD(.name = "new", .gpus = 8, .plan_node = "n1", .plan_mask = 0xff,
                        .created = "2026-01-02T00:00:00Z"));
    assert_plan(cache, "new", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
    assert_plan(cache, "old", GT_CACHE_GATED, GT_CACHE_PLAN_LOST);
}

/* A caller that reserves GPUs itself is notified once when they are no longer available. */
static void test_reserved_gpus_become_unhealthy(void **state)
{
    (void)state;
    struct remote_reservations received = {0};
    const struct gt_cache_spec spec = {.on_capacity = on_capacity, .arg = &received};
    gt_auto_cache struct gt_cache *cache = new_cache(&spec);
    struct gt_promise_id own;
    give_plain_node(cache, "n1");
    assert_int_equal(
        gt_cluster_promise(gt_cache_cluster(cache),
                           &(struct gt_promise){GT_PROMISE_RESERVED, {id_of(cache, "n1"), 0x0f}, 1, 0, 0, 0},
                           &own, NULL),
        0);
    received.room = 0;
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unhealthy = 0xf0), 2); /* others than those */
    assert_int_equal(received.room, 0);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unhealthy = 0xf1), 3);
    assert_int_equal(received.room, 1);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unhealthy = 0xf1), 4);
    assert_int_equal(received.room, 1);
    gt_cache_topology_deleted(cache, "n1");
    assert_int_equal(received.room, 2);
}

/* Jobs that wait are tried again when the time of a pod that passed is over, also if the next one ends it. */
static void test_passed_pods_are_over(void **state)
{
    (void)state;
    struct remote_reservations received = {0};
    const struct gt_cache_spec spec = {.on_capacity = on_capacity, .arg = &received};
    gt_auto_cache struct gt_cache *cache = new_cache(&spec);
    struct gt_node_set nodes = {0}, none = {0};
    give_plain_node(cache, "n1");
    assert_int_equal(gt_node_set_add(&nodes, id_of(cache, "n1"), NULL), 0);
    gt_cache_pass(cache, "ns", "a", (struct gt_numa_pod){.gpus = 1}, &nodes, 1000);
    gt_cache_tick(cache, 1000);
    received.room = 0;
    gt_cache_pass(cache, "ns", "b", (struct gt_numa_pod){.gpus = 1}, &none, 1000 + GT_CACHE_PASSED_MS);
    gt_cache_tick(cache, 1000 + GT_CACHE_PASSED_MS);
    assert_int_equal(received.room, 1);
}

/* Assumptions of callers exist beside those of the cache. */
static void test_others_assumptions(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    struct gt_promise_id own;
    give_plain_node(cache, "n1");
    assert_int_equal(
        gt_cluster_promise(cluster,
                           &(struct gt_promise){GT_PROMISE_RESERVED, {id_of(cache, "n1"), 0x0f}, 1, 0, 0, 0},
                           &own, NULL),
        0);
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03));
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_LOST);
    give_pod(cache, POD(.name = "b", .gpus = 6, .node = "n1"));
    assert_int_equal(cluster_node(cache, "n1").assumed, 0xff);
    assert_int_equal(cluster_node(cache, "n1").available, 0);
    gt_cache_tick(cache, 99);
    assert_int_equal(gt_cluster_assumptions(cluster), 2);
    gt_cluster_end_promise(cluster, own);
    gt_cache_tick(cache, 100);
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").assumed), 8);
    assert_int_equal(gt_cluster_assumptions(cluster), 2);
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);

    /* Ended by the caller itself: b gets what it lacked with the next tick. */
    gt_cache_pod_deleted(cache, "ns", "a");
    gt_cache_pod_deleted(cache, "ns", "b");
    assert_int_equal(
        gt_cluster_promise(cluster,
                           &(struct gt_promise){GT_PROMISE_RESERVED, {id_of(cache, "n1"), 0x0f}, 1, 0, 0, 0},
                           &own, NULL),
        0);
    give_pod(cache, POD(.name = "b", .gpus = 6, .node = "n1"));
    assert_int_equal(gt_cluster_end_promises(cluster, GT_PROMISE_RESERVED, 1), 1);
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").available), 4);
    gt_cache_tick(cache, 101);
    assert_int_equal(__builtin_popcountll(cluster_node(cache, "n1").available), 2);
}

/* They stay where their node moves to another supernode, or its supernode moves. */
static void test_assumptions_move(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    struct gt_promise_id own;
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "a", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03));
    assert_int_equal(
        gt_cluster_promise(gt_cache_cluster(cache),
                           &(struct gt_promise){GT_PROMISE_RESERVED, {id_of(cache, "n1"), 0xf0}, 1, 0, 0, 0},
                           &own, NULL),
        0);
    give_supernode(cache, SUPERNODE(.name = "s1", .tier = 1, .parent = "top", .members = {"n1"}));
    assert_int_equal(cluster_node(cache, "n1").assumed, 0xf3);
    give_supernode(cache, SUPERNODE(.name = "top", .tier = 2));
    gt_cache_supernode_deleted(cache, "s1");
    assert_int_equal(cluster_node(cache, "n1").assumed, 0xf3);
    assert_plan(cache, "a", GT_CACHE_WAITING, GT_CACHE_PLAN_ASSUMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_unplanned),
        cmocka_unit_test(test_deleting),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_taken_by_another),
        cmocka_unit_test(test_beside_a_lost_plan),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_named_in_part),
        cmocka_unit_test(test_not_twice),
        cmocka_unit_test(test_owner_first),
        cmocka_unit_test(test_namesake),
        cmocka_unit_test(test_moved_node),
        cmocka_unit_test(test_malformed_plans),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_passed_pods_are_over),
        cmocka_unit_test(test_others_assumptions),
        cmocka_unit_test(test_assumptions_move),
        cmocka_unit_test(test_lifted_before_gated),
        cmocka_unit_test(test_reserved_gpus_become_unhealthy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
