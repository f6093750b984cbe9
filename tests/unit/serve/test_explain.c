/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "scheduler-ext/serve/explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cache/cache_world.h"

enum { LIMIT = 1 << 20 };

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

/* The answer is the caller's. */
static unsigned ask(struct gt_cache *cache, const char *query, struct gt_buf *ret)
{
    const struct gt_debug_view view = {
        .cache = cache, .weights = GT_AWARE_DEFAULT, .now_ms = 10000, .wall_ms = 1800000000000};
    struct gt_http_response response = {.status = 200, .body = GT_BUF(LIMIT)};
    gt_explain(&view, query, &response);
    assert_false(response.body.failed);
    *ret = response.body;
    return response.status;
}

static void assert_says(struct gt_cache *cache, const char *query, unsigned status, const char *words)
{
    gt_auto_buf struct gt_buf answer = {0};
    unsigned got = ask(cache, query, &answer);
    if (got != status || !strstr(answer.data ? answer.data : "", words))
        fail_msg("%s: %u\n%s\nexpected %u with \"%s\"", query, got, answer.data ? answer.data : "", status,
                 words);
    if (status != 200) /* one line */
        assert_ptr_equal(strchr(answer.data, '\n'), answer.data + answer.len - 1);
}

static void assert_silent(struct gt_cache *cache, const char *query, const char *words)
{
    gt_auto_buf struct gt_buf answer = {0};
    ask(cache, query, &answer);
    if (strstr(answer.data ? answer.data : "", words))
        fail_msg("%s: \"%s\" is in\n%s", query, words, answer.data);
}

static void test_who_is_meant(void **state)
{
    struct gt_cache *cache = *state;
    give_pod(cache, POD(.name = "lone", .gpus = 1));
    give_pod(cache, POD(.name = "a-0", .job = "a", .gpus = 1));
    give_pod(cache,
             POD(.name = "t-worker-0", .gpus = 1,
                 .labels = "\"training.kubeflow.org/job-name\":\"a\",\"training.kubeflow.org/replica-type\":"
                           "\"worker\",\"training.kubeflow.org/replica-index\":\"0\""));
    assert_says(cache, "pod=ns/lone", 200, "Pod ns/lone: 1 GPU, pending");
    assert_says(cache, "pod=lone", 200, "Pod ns/lone");
    assert_says(cache, "name=ns/lone", 200, "Pod ns/lone"); /* and no other: the pod is its own job */
    assert_says(cache, "job=ns/Owned/ReplicaSet/a", 200, "Job ns/Owned/ReplicaSet/a: 1 pod, 1 GPU");
    assert_says(cache, "job=ns/ReplicaSet/a", 200, "Job ns/Owned/ReplicaSet/a");
    assert_says(cache, "job=ns%2FPyTorchJob%2Fa", 200, "Job ns/PyTorchJob/a");
    assert_says(cache, "job=ns/a", 300, "2 have the name \"ns/a\": ");
    assert_says(cache, "job=ns/a", 300, "job ns/Owned/ReplicaSet/a");
    assert_says(cache, "name=a", 300, "job ns/PyTorchJob/a");
    assert_says(cache, "pod=ns/a", 404, "there is no pod \"ns/a\"");
    assert_says(cache, "pod=other/lone", 404, "there is no pod");
    assert_says(cache, "job=n/a", 404, "there is no job");
    assert_says(cache, "job=ns/", 404, "there is no job");
    assert_says(cache, "job=ns/Job/a", 404, "there is no job");
    assert_says(cache, "name=%22%0a", 404, "\"\\\"\\n\"");
    assert_says(cache, NULL, 400, "expected ?pod=");
    assert_says(cache, "pod=", 400, "expected ?pod=");
    assert_says(cache, "pod=lone&format=xml", 400, "format");
}

#define OWNER(api, kind, name)                                                                               \
    "{\"apiVersion\":\"" api "\",\"kind\":\"" kind "\",\"name\":\"" name                                     \
    "\",\"uid\":\"u\",\"controller\":true}"

/* An object whose groups are jobs: its name means all of them. */
static void test_several_jobs(void **state)
{
    struct gt_cache *cache = *state;
    static const char group[] = "\"leaderworkerset.sigs.k8s.io/name\":\"vllm\"",
                      workers[] = "\"ray.io/cluster\":\"demo\",\"ray.io/group\":\"workers\"";
    give_pod(cache, POD(.name = "vllm-0", .gpus = 1, .labels = group,
                        .owner = OWNER("apps/v1", "StatefulSet", "vllm")));
    assert_says(cache, "name=vllm", 200, "Job ns/LeaderWorkerSet/vllm-0: 1 pod");
    give_pod(cache, POD(.name = "vllm-1", .gpus = 1, .labels = group,
                        .owner = OWNER("apps/v1", "StatefulSet", "vllm")));
    give_pod(cache, POD(.name = "demo-worker-x", .gpus = 1, .labels = workers,
                        .owner = OWNER("ray.io/v1", "RayCluster", "demo")));
    assert_says(cache, "name=ns/LeaderWorkerSet/vllm", 300,
                "2 have the name \"ns/LeaderWorkerSet/vllm\": job ");
    assert_says(cache, "job=vllm", 300, "job ns/LeaderWorkerSet/vllm-1");
    assert_says(cache, "job=vllm-1", 200, "Job ns/LeaderWorkerSet/vllm-1: 1 pod");
    assert_says(cache, "name=ns/demo", 200, "Job ns/RayCluster/demo.workers: 1 pod");
    assert_says(cache, "name=ns/dem", 404, "there is no ");
    assert_says(cache, "format=name", 200, "ns/vllm-0\n");
    assert_says(cache, "format=name&namespace=ns", 200, "demo.workers\n");
    assert_silent(cache, "format=name&namespace=others", "vllm");
    assert_says(cache, "format=names", 400, "expected text, json or name");
}

/* The RayCluster of a RayJob or RayService has another name than that. */
static void test_ray_by_its_owner(void **state)
{
    struct gt_cache *cache = *state;
    static const struct {
        const char *cluster, *labels;
    } made[] = {
        {"train-x7k2p", "\"ray.io/cluster\":\"train-x7k2p\",\"ray.io/group\":\"big\""},
        {"chat-raycluster-b9v4d", "\"ray.io/cluster\":\"chat-raycluster-b9v4d\",\"ray.io/group\":\"big\""},
        {"plain-1234", "\"ray.io/cluster\":\"plain-1234\",\"ray.io/group\":\"big\""}};
    for (unsigned i = 0; i < GT_COUNT(made); i++)
        give_pod(cache, POD(.name = made[i].cluster, .gpus = 1, .labels = made[i].labels,
                            .owner = OWNER("ray.io/v1", "RayCluster", "of-it")));
    give_pod(cache, POD(.name = "other-x7k2p", .job = "other-x7k2p", .gpus = 1));
    assert_says(cache, "name=train", 200, "Job ns/RayCluster/train-x7k2p.big: 1 pod");
    assert_says(cache, "job=ns/chat", 200, "Job ns/RayCluster/chat-raycluster-b9v4d.big: 1 pod");
    assert_says(cache, "name=plain", 404, "there is no ");
    assert_says(cache, "name=chat-raycluster", 404, "there is no ");
    assert_says(cache, "name=other", 404, "there is no ");
}

/* A pod that has its GPUs by a claim. */
static void test_claim(void **state)
{
    struct gt_cache *cache = new_cache(&(struct gt_cache_spec){.claims = true});
    (void)state;
    give_plain_node(cache, "n");
    const char *device = gt_cache_device_name(cache, gt_cluster_find_node(gt_cache_cluster(cache), "n"), 3);
    cJSON *pod = world_pod(POD(.name = "p", .gpus = 0, .gated = true));
    cJSON *spec = cJSON_GetObjectItem(pod, "spec"), *claim = NULL;
    cJSON_AddItemToObject(spec, "resourceClaims",
                          cJSON_Parse("[{\"name\":\"g\",\"resourceClaimTemplateName\":\"gputopo-gpus-1\"}]"));
    cJSON_ReplaceItemInObject(
        spec, "containers",
        cJSON_Parse("[{\"name\":\"main\",\"resources\":{\"claims\":[{\"name\":\"g\"}]}}]"));
    give_json_pod(cache, pod);
    cJSON_Delete(pod);
    assert_says(cache, "pod=ns/p", 200,
                "Its ResourceClaim, of the template gputopo-gpus-1, is not there yet\n");
    for (unsigned i = 0; i < 3; i++) {
        char text[1024];
        snprintf(
            text, sizeof(text),
            "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c%u\",\"uid\":\"u%u\",\"ownerReferences\":[{"
            "\"kind\":\"Pod\",\"name\":\"%s\",\"uid\":\"%s\",\"controller\":true}]},\"spec\":{\"devices\":{"
            "\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"gpu.metax-tech.com\"}}]}}%s%s%"
            "s}",
            i / 2, i / 2, i / 2 ? "other" : "p", i / 2 ? "other" : "p",
            i ? ",\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":"
                "\"gpu.metax-tech.com\",\"pool\":\"n\",\"device\":\""
              : "",
            i ? device : "", i ? "\"}]}}}" : "");
        assert_non_null(claim = cJSON_Parse(text));
        gt_cache_claim(cache, claim);
        cJSON_Delete(claim);
        gt_auto_buf struct gt_buf want = GT_BUF(256);
        gt_buf_printf(&want, "Its ResourceClaim c0 has %s%s\n", i ? device : "no GPUs yet",
                      i == 2 ? "; the ResourceClaim ns/c1 has some of them, too" : "");
        assert_says(cache, "pod=ns/p", 200, want.data);
    }
    gt_auto_buf struct gt_buf json = GT_BUF(128);
    gt_buf_printf(&json, "\"claim\":{\"name\":\"c0\",\"devices\":[\"%s\"]}", device);
    assert_says(cache, "pod=ns/p&format=json", 200, json.data);
    gt_cache_free(cache);
}

static void test_many_of_one_name(void **state)
{
    struct gt_cache *cache = *state;
    give_pod(cache, POD(.name = "x", .gpus = 1));
    give_pod(cache, POD(.name = "y", .gpus = 1, .job = "x"));
    assert_says(cache, "name=ns/x", 300, "3 have the name \"ns/x\": pod ns/x, job ");
}

static void test_scores_and_refusals(void **state)
{
    struct gt_cache *cache = *state;
    for (char name[] = "n1"; name[1] <= '7'; name[1]++)
        give_plain_node(cache, name);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unnamed = 0x0f), 1); /* 4 left: exact */
    give_topology(cache, TOPOLOGY(.name = "n2", .gpus = 8, .unnamed = 0x7f), 1);
    give_node(cache, NODE(.name = "n3", .cordoned = true));
    give_node(cache, NODE(.name = "n4", .not_ready = true));
    give_node(cache,
              NODE(.name = "n5", .taints = "[{\"key\":\"k\",\"value\":\"v\",\"effect\":\"NoSchedule\"}]"));
    give_pod(cache, POD(.name = "planned", .gpus = 6, .plan_node = "n6", .plan_mask = 0x3f));
    give_topology(cache, TOPOLOGY(.name = "lost", .gpus = 8), 1);
    give_pod(cache, POD(.name = "p", .gpus = 4));
    assert_says(cache, "pod=ns/p", 200, "2 nodes could hold a pod of 4 GPUs now");
    assert_says(cache, "pod=ns/p", 200, "\n  n1     7.000   1.000   0.000     0.000     10     4  4-7\n");
    assert_says(cache, "pod=ns/p", 200, "\n  n7  ");
    assert_says(cache, "pod=ns/p", 200, "1 node has fewer than 4 GPUs free: n2 (1)\n");
    assert_says(cache, "pod=ns/p", 200, "1 node has too few left: free GPUs are reserved");
    assert_says(cache, "pod=ns/p", 200, "1 node is cordoned: n3\n");
    assert_says(cache, "pod=ns/p", 200, "1 node is not Ready: n4\n");
    assert_says(cache, "pod=ns/p", 200, "1 node does not suit the pod");
    assert_says(cache, "pod=ns/p", 200, "1 node has no Node object: lost\n");
    assert_says(cache, "job=ns/Pod/p", 200, "2 nodes could hold");
    /* a job with a place gets no data about others */
    assert_silent(cache, "pod=ns/planned", "could hold");
    assert_says(cache, "pod=ns/planned", 200, "It is planned for node n6, GPUs 0-5\n  GPU 0   GPU-n6-0\n");

    gt_auto_buf struct gt_buf answer = {0};
    assert_int_equal(ask(cache, "pod=ns/p&format=json", &answer), 200);
    cJSON *json = cJSON_Parse(answer.data);
    assert_non_null(json);
    const cJSON *best = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "best"), 0);
    assert_int_equal(cJSON_GetObjectItem(json, "feasible")->valueint, 2);
    assert_string_equal(cJSON_GetObjectItem(best, "node")->valuestring, "n1");
    assert_int_equal(cJSON_GetObjectItem(best, "kubeScheduler")->valueint, 10);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "refused")), 6);
    cJSON_Delete(json);
}

/* More nodes than are shown: the best ones are, in order. */
static void test_only_the_best_are_shown(void **state)
{
    struct gt_cache *cache = *state;
    for (unsigned i = 0; i < 30; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%02u", (i * 7) % 30);
        give_plain_node(cache, name);
        give_topology(cache, TOPOLOGY(.name = name, .gpus = 8, .unnamed = (i * 7) % 30 < 3 ? 0x3f : 0), 1);
    }
    give_pod(cache, POD(.name = "p", .gpus = 2));
    gt_auto_buf struct gt_buf answer = {0};
    ask(cache, "pod=ns/p", &answer);
    const char *last = answer.data;
    for (unsigned i = 0; i < 10; i++) {
        char line[16];
        snprintf(line, sizeof(line), "\n  n%02u ", i);
        const char *at = strstr(answer.data, line);
        if (!at || at < last)
            fail_msg("n%02u is not in its place:\n%s", i, answer.data);
        last = at;
    }
    assert_null(strstr(answer.data, "\n  n10 "));
    assert_non_null(strstr(answer.data, "\n  and 20 more\n"));
}

static void test_pods_of_a_job(void **state)
{
    struct gt_cache *cache = *state;
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "w-10", .job = "j", .gpus = 2, .gated = true));
    give_pod(cache, POD(.name = "w-9", .job = "j", .gpus = 2, .gated = true));
    give_pod(cache,
             POD(.name = "w-x", .job = "j", .gpus = 4, .plan_node = "n1", .plan_mask = 0xf0, .node = "n1",
                 .annotations = "\"" GT_PLAN_ANNOTATION_UNIT "\":\"1\",\"" GT_PLAN_ANNOTATION_RANK
                                "\":\"7\",\"metax-tech.com/gpu-group-size\":\"8\","));
    assert_says(cache, "job=ns/j", 200, "3 pods, 8 GPUs, in units of 8\n");
    assert_says(cache, "job=ns/j", 200, "   1     7  n1    4-7   starting  w-x\n");
    assert_says(cache, "job=ns/j", 200,
                "   -     -  -     -     gated     w-9\n     -     -  -     -     gated     w-10\n");
    assert_says(cache, "job=ns/j", 200, "It has a group size, but placement is switched off here");

    for (unsigned i = 11; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof(name), "w-%u", i);
        give_pod(cache, POD(.name = name, .job = "j", .gpus = 2, .gated = i != 30));
    }
    assert_says(cache, "job=ns/j", 200, "     gated     w-9\n  and 20 more like it, to w-29\n");
    assert_says(cache, "job=ns/j", 200, "\n     -     -  -     -     pending   w-30\n");
    assert_says(cache, "job=ns/j", 200, "     gated     w-31\n  and 8 more like it, to w-39\n");

    gt_auto_buf struct gt_buf answer = {0};
    assert_int_equal(ask(cache, "job=ns/j&format=json", &answer), 200);
    cJSON *json = cJSON_Parse(answer.data);
    assert_non_null(json);
    const cJSON *pod, *pods = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "job"), "pods");
    unsigned ids = 0;
    cJSON_ArrayForEach(pod, pods) ids += (unsigned)cJSON_GetArraySize(cJSON_GetObjectItem(pod, "gpuIds"));
    assert_int_equal(ids, 4);
    cJSON_Delete(json);
}

static void test_boundaries_that_a_job_crosses(void **state)
{
    struct gt_cache *cache = *state;
    char name[8], annotations[128];
    for (unsigned i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        give_plain_node(cache, name);
    }
    give_supernode(cache, SUPERNODE(.name = "leaf1", .tier = 2, .gbps = 12.5));
    give_supernode(cache, SUPERNODE(.name = "leaf2", .tier = 2));
    give_supernode(cache, SUPERNODE(.name = "leaf3", .tier = 2));
    give_supernode(cache,
                   SUPERNODE(.name = "s0", .tier = 1, .parent = "leaf1", .gbps = 50000, .members = {"n0"}));
    give_supernode(cache,
                   SUPERNODE(.name = "s1", .tier = 1, .parent = "leaf1", .gbps = 50000, .members = {"n1"}));
    give_supernode(cache, SUPERNODE(.name = "s2", .tier = 1, .parent = "leaf2", .members = {"n2"}));
    for (unsigned i = 0; i < 2; i++) {
        char pod[8];
        snprintf(name, sizeof(name), "n%u", i);
        snprintf(pod, sizeof(pod), "w-%u", i);
        snprintf(annotations, sizeof(annotations), "\"" GT_PLAN_ANNOTATION_RANK "\":\"%u\",", i);
        give_pod(cache, POD(.name = pod, .job = "j", .gpus = 8, .plan_node = name, .plan_mask = 0xff,
                            .annotations = annotations));
    }
    assert_says(cache, "job=ns/j", 200,
                "It lies in 2 of 4 supernodes; slowest step 50000 GB/s, between s1 and s0\n");
    give_pod(cache, POD(.name = "w-2", .job = "j", .gpus = 8, .plan_node = "n2", .plan_mask = 0xff,
                        .annotations = "\"" GT_PLAN_ANNOTATION_RANK "\":\"2\","));
    assert_says(
        cache, "job=ns/j", 200,
        "It lies in 2 of 3 leaves, 3 of 4 supernodes; slowest step 12.5 GB/s, between leaf2 and leaf1\n");
    give_supernode(cache, SUPERNODE(.name = "leaf1", .tier = 2));
    assert_says(cache, "job=ns/j", 200, "slowest step 50000 GB/s, between");
    assert_silent(cache, "job=ns/j", "would do");
    for (unsigned i = 0; i < 3; i++) {
        char pod[8], node[8];
        snprintf(pod, sizeof(pod), "w-%u", i);
        snprintf(node, sizeof(node), "n%u", i);
        snprintf(annotations, sizeof(annotations),
                 "\"metax-tech.com/gpu-group-size\":\"8\",\"" GT_PLAN_ANNOTATION_RANK "\":\"%u\",", i);
        give_pod(cache, POD(.name = pod, .job = "j", .gpus = 8, .plan_node = node, .plan_mask = 0xff,
                            .annotations = annotations));
    }
    assert_silent(cache, "job=ns/j", "would do"); /* leaf1 has no room for the third */
    give_supernode(cache, SUPERNODE(.name = "s3", .tier = 1, .parent = "leaf1", .members = {"n3"}));
    assert_says(cache, "job=ns/j", 200, "; 1 leaf would do if its 1 in leaf2 moved\n");
    give_node(cache, NODE(.name = "n3", .taints = "[{\"key\":\"team\",\"effect\":\"NoSchedule\"}]"));
    assert_silent(cache, "job=ns/j", "would do"); /* its pods may not go there */
}

/* Its unit has no good nodes where it is; the whole of it has room in another supernode, or in none. */
static void test_slow_gpus_of_a_unit(void **state)
{
    struct gt_cache *cache = *state;
    static const char stuck[] = "Slow GPUs: it runs at the pace of slow or suspect GPUs: GPU 3 of node n0 "
                                "(pod w-0). To be free of it, pods "
                                "like w-0 need 8 GPUs that are not slow on a node of their supernode";
    char name[8], text[sizeof(stuck) + 80];
    for (unsigned i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        give_node(cache, NODE(.name = name));
        give_topology(cache, TOPOLOGY(.name = name, .gpus = 8, .slow = i ? 0 : 8, .unhealthy = i == 3), 1);
    }
    give_supernode(cache, SUPERNODE(.name = "s0", .tier = 1, .members = {"n0", "n1"}));
    give_supernode(cache, SUPERNODE(.name = "s1", .tier = 1, .members = {"n2", "n3"}));
    for (unsigned i = 0; i < 2; i++) {
        char pod[8];
        snprintf(pod, sizeof(pod), "w-%u", i);
        snprintf(name, sizeof(name), "n%u", i);
        give_pod(cache, POD(.name = pod, .job = "j", .gpus = 8, .plan_node = name, .plan_mask = 0xff,
                            .annotations = "\"metax-tech.com/gpu-group-size\":\"16\","));
    }
    snprintf(text, sizeof(text), "%s\n", stuck);
    assert_says(cache, "job=ns/j", 200, text);
    give_topology(cache, TOPOLOGY(.name = "n3", .gpus = 8), 1);
    snprintf(text, sizeof(text), "%s. Made again, all of its unit has room without them in supernode s1\n",
             stuck);
    assert_says(cache, "job=ns/j", 200, text);
    give_topology(cache, TOPOLOGY(.name = "n0", .gpus = 8), 1);
    assert_silent(cache, "job=ns/j", "Slow GPUs");
}

static void test_plans_that_went_wrong(void **state)
{
    struct gt_cache *cache = *state;
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    give_pod(cache, POD(.name = "lost", .gpus = 2, .plan_node = "n1", .plan_mask = 0x03));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .unhealthy = 0x01), 1);
    assert_says(cache, "pod=ns/lost", 200, "Its plan is lost");
    assert_says(cache, "pod=ns/lost", 200, "nodes could hold");
    give_pod(cache, POD(.name = "astray", .gpus = 2, .plan_node = "n1", .plan_mask = 0x0c, .node = "n2"));
    assert_says(cache, "pod=ns/astray", 200, "not as planned");
    give_pod(cache, POD(.name = "far", .gpus = 2, .node = "unheard-of"));
    assert_says(cache, "pod=ns/far", 200, "It is on node unheard-of");
}

/* What a node has besides GPUs counts, as it does for a plan. */
static void test_nodes_with_too_little_else(void **state)
{
    struct gt_cache *cache = *state;
    give_plain_node(cache, "n1");
    give_topology(cache, TOPOLOGY(.name = "n2", .gpus = 8), 1);
    give_node(cache, NODE(.name = "n2", .allocatable = "{\"cpu\":\"1\"}"));
    give_pod(cache, POD(.name = "p", .gpus = 4)); /* of 1500m */
    assert_says(cache, "pod=ns/p", 200, "\n1 node could hold a pod of 4 GPUs now");
    assert_says(
        cache, "pod=ns/p", 200,
        "1 node has too little besides GPUs left for the pod: n2 (CPU: a pod needs 1.5, 1 is free)\n");
    assert_says(cache, "pod=ns/p&format=json", 200,
                "{\"reason\":\"tooFewResources\",\"nodes\":1,\"examples\":[\"n2\"]}");
}

static void test_nodes_that_are_not_as_reported(void **state)
{
    struct gt_cache *cache = *state;
    give_node(cache, NODE(.name = "n1", .allocatable = "{\"metax-tech.com/gpu\":\"4\"}"));
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8), 1);
    give_node(cache, NODE(.name = "n2", .uid = "new"));
    give_topology(cache, TOPOLOGY(.name = "n2", .gpus = 8, .node_uid = "old"), 1);
    give_pod(cache, POD(.name = "large", .gpus = 8, .gated = true));
    give_pod(cache, POD(.name = "small", .gpus = 4, .gated = true));
    assert_says(
        cache, "pod=ns/large", 200,
        "1 node offers fewer GPUs than are free there, by status.allocatable of its Node: n1 (4 of 8 GPUs "
        "allocatable, 4 of them free)\n");
    assert_says(
        cache, "pod=ns/large", 200,
        "1 node is not believed: the report there is of an earlier Node of the same name, until its agent "
        "writes a new one: n2\n");
    assert_says(cache, "pod=ns/small", 200, "1 node could hold a pod of 4 GPUs now");
}

#define GROUP(size) "\"metax-tech.com/gpu-group-size\":\"" size "\","

/* Three supernodes of two nodes, and a job whose units are two pods of eight GPUs. */
static void make_units(struct gt_cache *cache, const char *annotations)
{
    for (char rack[] = "s1", first[] = "s1a", second[] = "s1b"; rack[1] <= '3';
         rack[1]++, first[1]++, second[1]++) {
        give_plain_node(cache, first);
        give_plain_node(cache, second);
        give_supernode(cache, SUPERNODE(.name = rack, .tier = 1, .members = {first, second}));
    }
    for (char name[] = "u-0"; name[2] <= '1'; name[2]++)
        give_pod(cache, POD(.name = name, .job = "u", .gpus = 8, .gated = true, .annotations = annotations));
}

static void use(struct gt_cache *cache, const char *node, const char *pod, uint64_t mask)
{
    char job[32];
    snprintf(job, sizeof(job), "of-%s", pod);
    give_topology(cache, TOPOLOGY(.name = node, .gpus = 8, .owners = {{pod, mask}}), 2);
    give_pod(cache, POD(.name = pod, .job = job, .gpus = (unsigned)__builtin_popcountll(mask), .node = node));
}

static void test_supernodes_of_a_unit(void **state)
{
    struct gt_cache *cache = *state;
    make_units(cache, GROUP("16"));
    use(cache, "s1a", "small", 0x03);
    use(cache, "s1b", "large", 0x3f);
    use(cache, "s2a", "other", 0xff);
    give_node(cache, NODE(.name = "s2b", .cordoned = true));
    give_topology(cache, TOPOLOGY(.name = "s3a", .gpus = 8, .unhealthy = 0x01), 2);
    give_topology(cache, TOPOLOGY(.name = "s3b", .gpus = 8, .unnamed = 0x80), 2);
    for (unsigned i = 0; i < 2; i++) {
        const char *asked = i ? "pod=ns/u-1" : "job=ns/u";
        assert_says(cache, asked, 200, "\nSupernodes, for a unit of 16 GPUs (2 pods of 8) each");
        assert_says(cache, asked, 200,
                    "\n  s1             2     0      0     16  job ns/Owned/ReplicaSet/of-large (6 GPUs), "
                    "job ns/Owned/ReplicaSet/of-small (2 GPUs)\n");
        assert_says(cache, asked, 200,
                    "\n  s2             2     0      0     16  job ns/Owned/ReplicaSet/of-other (8 GPUs), "
                    "1 node cordoned (8 GPUs)\n");
        assert_says(cache, asked, 200,
                    "\n  s3             2     0      0     16  unhealthy GPUs (1 GPU), users that are no "
                    "pods (1 GPU)\n");
        assert_says(
            cache, asked, 200,
            "\nThe least in the way of one more unit is in s1: job ns/Owned/ReplicaSet/of-small (2 GPUs) and "
            "job ns/Owned/ReplicaSet/of-large (6 GPUs)\n");
        assert_silent(cache, asked, "could hold");
    }
    give_topology(cache, TOPOLOGY(.name = "s1a", .gpus = 8), 3);
    gt_cache_pod_deleted(cache, "ns", "small");
    assert_says(cache, "job=ns/u", 200, "\n  s1             2     8      0      8  job ");
    assert_says(
        cache, "job=ns/u", 200,
        "\nThe least in the way of one more unit is in s1: job ns/Owned/ReplicaSet/of-large (6 GPUs)\n");
    gt_auto_buf struct gt_buf answer = {0};
    assert_int_equal(ask(cache, "job=ns/u&format=json", &answer), 200);
    const char *const members[] = {
        "\"unit\":{\"pods\":2,\"gpus\":16}",
        "\"supernodes\":[{\"name\":\"s1\",\"nodes\":2,\"free\":8,\"units\":0,\"lacks\":8,\"inTheWay\":[{",
        "\"what\":\"job\",\"job\":\"ns/Owned/ReplicaSet/of-large\",\"gpus\":6}]}",
        "\"leastChange\":{\"supernode\":\"s1\",\"inTheWay\":[{\"what\":\"job\",",
        "\"feasible\":1,",
    };
    for (unsigned i = 0; i < GT_COUNT(members); i++)
        if (!strstr(answer.data, members[i]))
            fail_msg("%s is not in %s", members[i], answer.data);
}

/* What must lie together is an atom, and a supernode may hold some already. */
static void test_supernodes_of_an_atom(void **state)
{
    struct gt_cache *cache = *state;
    make_units(cache, GROUP("16") "\"metax-tech.com/atomic-gpu-group-size\":\"8\",");
    use(cache, "s1a", "a", 0x01);
    for (char name[] = "s1a"; name[1] <= '3'; name[1]++)
        give_node(cache, NODE(.name = name, .allocatable = "{\"cpu\":\"1\"}"));
    assert_says(cache, "job=ns/u", 200, "\nSupernodes, for a unit of 8 GPUs (1 pod of 8) each");
    assert_says(cache, "job=ns/u", 200,
                "\n  s2             2     8      1      8  1 node with too little besides GPUs (8 GPUs)\n");
    assert_says(
        cache, "job=ns/u", 200,
        "\nThe least in the way of one more unit is in s2: 1 node with too little besides GPUs (8 GPUs)\n");
    give_pod(cache, POD(.name = "u-0", .job = "u", .gpus = 8)); /* the scheduler decides on nodes */
    give_pod(cache, POD(.name = "u-1", .job = "u", .gpus = 8));
    assert_says(cache, "job=ns/u", 200, "nodes could hold a pod of 8 GPUs");
}

/* Free GPUs on the wrong NUMA nodes are not called a lack of something else, and who is in the way is named.
 */
static void test_numa_nodes_of_a_unit(void **state)
{
    struct gt_cache *cache = *state;
    give_plain_node(cache, "n1");
    give_topology(
        cache, TOPOLOGY(.name = "n1", .gpus = 8, .single_numa = true, .owners = {{"a", 0x07}, {"b", 0x30}}),
        2);
    give_pod(cache, POD(.name = "a", .job = "of-a", .gpus = 3, .node = "n1"));
    give_pod(cache, POD(.name = "b", .job = "of-b", .gpus = 2, .node = "n1"));
    give_pod(cache, POD(.name = "p", .gpus = 3));
    assert_says(cache, "pod=ns/p", 200,
                "1 node has enough GPUs free, but spread over NUMA nodes so that its kubelet would refuse");
    give_pod(cache, POD(.name = "u", .job = "u", .gpus = 3, .gated = true, .annotations = GROUP("3")));
    assert_says(cache, "job=ns/u", 200,
                "\nThe least in the way of one more unit is in n1: job ns/Owned/ReplicaSet/of-b (2 GPUs)\n");
    assert_silent(cache, "job=ns/u", "besides GPUs");
}

/* Of each kind of promise one sentence, with its end where that is known. */
static void test_promises_of_a_node(void **state)
{
    struct gt_cache *cache = *state;
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    static const struct {
        struct gt_promise promise; /* of one GPU */
        bool to_job;
        const char *says;
    } kinds[] = {
        {{.kind = GT_PROMISE_PLANNED},
         true,
         "planned for job ns/Owned/ReplicaSet/j, since 2027-01-15T07:59:59Z"},
        {{.kind = GT_PROMISE_PLANNED, .owner = 99},
         false,
         "planned for a job that has ended, since 2027-01-15T07:59:59Z"},
        {{.kind = GT_PROMISE_RESERVED, .until_ms = 70000},
         true,
         "reserved for pods to come of job ns/Owned/ReplicaSet/j until 2027-01-15T08:01:00Z"},
        {{.kind = GT_PROMISE_RESERVED, .until_ms = UINT64_MAX},
         true,
         "reserved for pods to come of job ns/Owned/ReplicaSet/j, since 2027-01-15T07:59:59Z"},
        {{.kind = GT_PROMISE_ADMITTED, .until_ms = 70000},
         false,
         "reserved for a Workload that Kueue has let in until 2027-01-15T08:01:00Z"},
        {{.kind = GT_PROMISE_VACATED, .until_ms = 70000},
         true,
         "vacated for job ns/Owned/ReplicaSet/j until 2027-01-15T08:01:00Z"},
        {{.kind = GT_PROMISE_FOREIGN, .until_ms = 70000},
         false,
         "reserved by the other scheduler for pods to come until 2027-01-15T08:01:00Z"},
        {{.kind = GT_PROMISE_NODE, .until_ms = 70000},
         true,
         "reserved for job ns/Owned/ReplicaSet/j until 2027-01-15T08:01:00Z"},
        {{.kind = GT_PROMISE_SPARE}, false, "spare, left free for pods that lose their nodes"},
        {{.kind = GT_PROMISE_PEOPLE, .until_ms = 70000},
         false,
         "reserved by people until 2027-01-15T08:01:00Z"},
        {{.kind = GT_PROMISE_NOTED}, false, "reserved by the leading replica for pods to come"},
        {{.kind = GT_PROMISE_NOTED_NODE}, false, "reserved by the leading replica for a waiting job"},
    };
    give_plain_node(cache, "n");
    give_pod(cache, POD(.name = "j-0", .job = "j", .gpus = 1, .gated = true));
    gt_cache_tick(cache, 9000);
    for (unsigned i = 0; i < GT_COUNT(kinds); i++) {
        struct gt_promise promise = kinds[i].promise;
        struct gt_promise_id id;
        gt_auto_buf struct gt_buf line = GT_BUF(512);
        promise.place = (struct gt_place){gt_cluster_find_node(cluster, "n"), 0x38};
        promise.owner =
            kinds[i].to_job ? gt_cache_find_job(cache, "ns/Owned/ReplicaSet/j")->number : promise.owner;
        assert_int_equal(gt_cluster_promise(cluster, &promise, &id, NULL), 0);
        gt_buf_printf(&line, "GPUs 0-2: free\nGPUs 3-5: %s\nGPUs 6,7: free\n", kinds[i].says);
        assert_says(cache, "node=n", 200, line.data);
        gt_cluster_end_promise(cluster, id);
    }
    /* A job of the same name is another one. */
    struct gt_promise_id of_gone;
    const struct gt_promise left = {.kind = GT_PROMISE_RESERVED,
                                    .place = {gt_cluster_find_node(cluster, "n"), 1},
                                    .owner = gt_cache_find_job(cache, "ns/Owned/ReplicaSet/j")->number,
                                    .until_ms = 70000};
    assert_int_equal(gt_cluster_promise(cluster, &left, &of_gone, NULL), 0);
    assert_says(cache, "node=n", 200, "GPU 0: reserved for pods to come of job ns/Owned/ReplicaSet/j until ");
    gt_cache_pod_deleted(cache, "ns", "j-0");
    give_pod(cache, POD(.name = "j-0", .job = "j", .gpus = 1, .gated = true));
    assert_says(cache, "node=n", 200, "GPU 0: reserved for pods to come of a job that has ended until ");
    gt_cluster_end_promise(cluster, of_gone);
    cJSON *node = world_node(NODE(.name = "n"));
    cJSON *annotations = cJSON_AddObjectToObject(cJSON_GetObjectItem(node, "metadata"), "annotations");
    cJSON_AddStringToObject(annotations, GT_ANNOTATION_RESERVED, "2126-01-01T00:00:00Z for=ml");
    gt_cache_node(cache, node);
    cJSON_Delete(node);
    gt_cache_promise_reserved(cache);
    assert_says(cache, "node=n", 200, "GPUs 0-7: reserved by people until 2126-01-01T00:00:00Z for ml\n");
    give_pod(cache, POD(.name = "p", .gpus = 2, .plan_node = "n", .plan_mask = 0x30));
    assert_says(cache, "node=n", 200,
                "GPUs 4,5: planned for pod ns/p of job ns/Pod/p, since 2027-01-15T07:59:59Z\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_is_meant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_several_jobs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ray_by_its_owner, set_up, tear_down),
        cmocka_unit_test(test_claim),
        cmocka_unit_test_setup_teardown(test_many_of_one_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scores_and_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_the_best_are_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pods_of_a_job, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_boundaries_that_a_job_crosses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slow_gpus_of_a_unit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_plans_that_went_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nodes_with_too_little_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nodes_that_are_not_as_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_supernodes_of_a_unit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_supernodes_of_an_atom, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numa_nodes_of_a_unit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_promises_of_a_node, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
