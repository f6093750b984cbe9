/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/decide/noted.h"
#include "scheduler-ext/serve/extender.h"
#include "tests/unit/cache/cache_world.h"

/* The extenders as a scheduler sees them: a request's bytes in, status and answer out. */

struct host {
    struct gt_cache *cache;
    struct gt_extender *extender;
};

static int set_up(void **state)
{
    static struct host host;
    struct gt_extender_spec spec = {.weights = GT_AWARE_DEFAULT};
    spec.cache = host.cache = new_cache(NULL);
    assert_int_equal(gt_extender_new(&spec, &host.extender, NULL), 0);
    gt_extender_set_ready(host.extender, true);
    *state = &host;
    return 0;
}

static int tear_down(void **state)
{
    struct host *host = *state;
    gt_extender_free(host->extender);
    gt_cache_free(host->cache);
    return 0;
}

/* Posts a body in pieces of `cut` bytes; the answer is the caller's. */
static unsigned post_as(struct host *host, const char *path, const char *type, const char *body, size_t cut,
                        struct gt_buf *answer)
{
    struct gt_http_request request = {.method = GT_HTTP_POST, .path = path, .content_type = type};
    struct gt_http_response response = {.status = 200, .body = GT_BUF(1 << 20)};
    struct gt_http_consumer consumer;
    size_t len = strlen(body);
    if (!gt_extender_on_body(host->extender, &request, &consumer)) {
        assert_true(gt_extender_serve(host->extender, &request, &response));
    } else {
        int r = 0;
        for (size_t at = 0; at < len && r == 0; at += cut)
            r = consumer.consume(consumer.consumer, body + at, len - at < cut ? len - at : cut);
        consumer.done(consumer.consumer, &response);
        consumer.free(consumer.consumer);
    }
    assert_false(response.body.failed);
    *answer = response.body;
    return response.status;
}

static cJSON *post(struct host *host, const char *path, const char *body)
{
    for (size_t cut = 1; cut < 64; cut += 31) { /* the same however it is cut */
        struct gt_buf piece = {0}, whole = {0};
        assert_int_equal(post_as(host, path, "application/json", body, cut, &piece), 200);
        assert_int_equal(post_as(host, path, "application/json; charset=utf-8", body, 1 << 20, &whole), 200);
        assert_string_equal(piece.data, whole.data);
        gt_buf_done(&piece);
        gt_buf_done(&whole);
    }
    gt_auto_buf struct gt_buf answer = {0};
    post_as(host, path, "application/json", body, 1 << 20, &answer);
    cJSON *json = cJSON_Parse(answer.data);
    assert_non_null(json);
    return json;
}

static void assert_refused(struct host *host, const char *path, const char *type, const char *body,
                           unsigned status, const char *word)
{
    gt_auto_buf struct gt_buf answer = {0};
    unsigned got = post_as(host, path, type, body, 7, &answer);
    if (got != status || !answer.data || !strstr(answer.data, word))
        fail_msg("%s: %u %s, expected %u with \"%s\"", body, got, answer.data ? answer.data : "", status,
                 word);
    assert_ptr_equal(strchr(answer.data, '\n'), answer.data + answer.len - 1);
}

#define POD_OF(name, gpus)                                                                                   \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"ns\",\"uid\":\"" name "\"},"                       \
    "\"spec\":{\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"" gpus \
    "\"}}}]}}"
#define ARGS(name, gpus, nodes) "{\"Pod\":" POD_OF(name, gpus) ",\"NodeNames\":[" nodes "]}"

static int score_of(const cJSON *list, const char *node)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(cJSON_GetObjectItem(item, "Host")->valuestring, node) == 0)
            return cJSON_GetObjectItem(item, "Score")->valueint;
    }
    fail_msg("no score of %s", node);
    return -1;
}

/* The node whose free GPUs equal the request wins, alone; a node that is not known has the least. */
static void test_exact_match_wins(void **state)
{
    struct host *host = *state;
    give_plain_node(host->cache, "n1");
    give_plain_node(host->cache, "n2");
    give_plain_node(host->cache, "n3");
    give_topology(host->cache, TOPOLOGY(.name = "n2", .gpus = 8, .unnamed = 0x0f), 1);
    give_topology(host->cache, TOPOLOGY(.name = "n3", .gpus = 8, .unnamed = 0x07), 1);
    cJSON *list = post(host, "/kube-scheduler/prioritize", ARGS("p", "4", "\"n1\",\"n2\",\"n3\",\"new\""));
    assert_int_equal(cJSON_GetArraySize(list), 4);
    assert_int_equal(score_of(list, "n2"), 10);
    assert_in_range(score_of(list, "n1"), 1, 9);
    assert_in_range(score_of(list, "n3"), 1, 9);
    assert_int_equal(score_of(list, "new"), 0);
    cJSON_Delete(list);
    /* 8 are on one node only */
    list = post(host, "/kube-scheduler/prioritize", ARGS("p", "8", "\"n1\",\"n2\""));
    assert_int_equal(score_of(list, "n1"), 10);
    assert_int_equal(score_of(list, "n2"), 0);
    cJSON_Delete(list);
}

/* Pods of a GPU take 12 cores each. One that needs few goes where cores are short, one without GPUs where
 * they are not, and first of all to a node without GPUs. The cache and the request tell of CPU alike. */
static void test_cpu_counts(void **state)
{
    struct host *host = *state;
    static const char *const has[][2] = {{"n1", "{\"cpu\":\"30\"}"}, {"n2", "{\"cpu\":\"96\"}"}};
    for (unsigned i = 0; i < 2; i++) {
        give_plain_node(host->cache, has[i][0]);
        give_node(host->cache, NODE(.name = has[i][0], .allocatable = has[i][1]));
    }
    for (unsigned i = 0; i < 64; i++) {
        char name[16];
        snprintf(name, sizeof(name), "usual-%u", i);
        give_pod(host->cache, POD(.name = name, .gpus = 1, .other_gate = true,
                                  .spec = "\"overhead\":{\"cpu\":\"10500m\"},"));
    }
    cJSON *list = post(host, "/kube-scheduler/prioritize", ARGS("few", "1", "\"n1\",\"n2\""));
    assert_int_equal(score_of(list, "n1"), 10);
    cJSON_Delete(list);
    list = post(host, "/kube-scheduler/prioritize", ARGS("usual-0", "1", "\"n1\",\"n2\""));
    assert_int_equal(score_of(list, "n2"), 10);
    cJSON_Delete(list);
    static const char without[] =
        "{\"Pod\":{\"metadata\":{\"name\":\"w\",\"namespace\":\"ns\",\"uid\":\"w\"},"
        "\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"6\"}}}]}},"
        "\"NodeNames\":[\"n1\",\"n2\",\"cpus-only\",\"cpus-too\"]}";
    list = post(host, "/kube-scheduler/prioritize", without);
    assert_int_equal(score_of(list, "cpus-only"), 10);
    assert_int_equal(score_of(list, "cpus-too"), 10);         /* kube-scheduler chooses among these */
    assert_true(score_of(list, "n2") < score_of(list, "n1")); /* all of its 96 cores are for GPUs, 24 of 30 */
    cJSON_Delete(list);
    list = post(host, "/kube-scheduler/prioritize",
                "{\"Pod\":{\"metadata\":{\"name\":\"w\"},\"spec\":{}},\"NodeNames\":[\"n1\",\"n2\"]}");
    assert_int_equal(score_of(list, "n1"), 0); /* it asks for nothing that we know of */
    cJSON_Delete(list);
}

static const char *failed_text(const cJSON *answer, const char *map, const char *node)
{
    const cJSON *text = cJSON_GetObjectItem(cJSON_GetObjectItem(answer, map), node);
    return text ? text->valuestring : NULL;
}

/* GPUs that are reserved for a planned pod are refused to others, and the planned pod goes to its node only.
 */
static void test_reservations_stay(void **state)
{
    struct host *host = *state;
    give_plain_node(host->cache, "n1");
    give_plain_node(host->cache, "n2");
    give_pod(host->cache, POD(.name = "planned", .gpus = 6, .plan_node = "n1", .plan_mask = 0x3f));
    cJSON *answer = post(host, "/kube-scheduler/filter", ARGS("other", "4", "\"n1\",\"n2\",\"new\""));
    const cJSON *names = cJSON_GetObjectItem(answer, "NodeNames");
    assert_int_equal(cJSON_GetArraySize(names), 2);
    assert_string_equal(cJSON_GetArrayItem(names, 0)->valuestring, "n2");
    assert_string_equal(cJSON_GetArrayItem(names, 1)->valuestring, "new");
    assert_string_equal(failed_text(answer, "FailedNodes", "n1"),
                        "6 of the free GPUs are reserved for planned or starting pods, 2 are left, 4 needed");
    cJSON_Delete(answer);

    answer = post(host, "/kube-scheduler/filter", ARGS("other", "2", "\"n1\",\"n2\""));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "NodeNames")), 2);
    cJSON_Delete(answer);

    answer = post(host, "/kube-scheduler/filter", ARGS("planned", "6", "\"n1\",\"n2\""));
    names = cJSON_GetObjectItem(answer, "NodeNames");
    assert_int_equal(cJSON_GetArraySize(names), 1);
    assert_string_equal(cJSON_GetArrayItem(names, 0)->valuestring, "n1");
    assert_string_equal(failed_text(answer, "FailedAndUnresolvableNodes", "n2"),
                        "gputopo planned this pod for node n1");
    cJSON_Delete(answer);

    answer = post(host, "/kube-scheduler/prioritize", ARGS("planned", "6", "\"n2\",\"n1\""));
    assert_int_equal(score_of(answer, "n1"), 10);
    assert_int_equal(score_of(answer, "n2"), 0);
    cJSON_Delete(answer);
}

/* A standby replica respects the leader's note: GPUs of pods that do not exist yet, and whole nodes. A pod
 * that has come to such a place in the meantime has it. */
static void test_what_another_replica_reserves(void **state)
{
    struct host *host = *state;
    struct gt_loop *loop;
    struct gt_owners *owners;
    struct gt_placement *placement;
    assert_int_equal(gt_loop_new(&loop, NULL), 0);
    assert_int_equal(gt_owners_new("metax-tech.com/gpu", &owners, NULL), 0);
    const struct gt_placement_spec controller = {.loop = loop, .cache = host->cache, .owners = owners};
    assert_int_equal(gt_placement_new(&controller, &placement, NULL), 0);
    struct gt_extender_spec spec = {
        .cache = host->cache, .placement = placement, .weights = GT_AWARE_DEFAULT};
    gt_extender_free(host->extender);
    assert_int_equal(gt_extender_new(&spec, &host->extender, NULL), 0);
    gt_extender_set_ready(host->extender, true);
    give_plain_node(host->cache, "n1");
    give_plain_node(host->cache, "n2");
    give_plain_node(host->cache, "n3");
    gt_placement_read_note(placement, "n1=0-3 n2=* n1=4,5 nobody=1 n3=x =  n3");
    cJSON *answer = post(host, "/kube-scheduler/filter", ARGS("other", "4", "\"n1\",\"n2\",\"n3\""));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "NodeNames")), 1);
    assert_string_equal(failed_text(answer, "FailedNodes", "n1"),
                        "6 of the free GPUs are reserved for planned or starting pods, 2 are left, 4 needed");
    assert_string_equal(failed_text(answer, "FailedNodes", "n2"),
                        "this node is reserved by the leading replica for a waiting job");
    cJSON_Delete(answer);
    give_pod(host->cache, POD(.name = "planned", .gpus = 4, .plan_node = "n1", .plan_mask = 0x0f));
    answer = post(host, "/kube-scheduler/filter", ARGS("planned", "4", "\"n1\",\"n3\""));
    assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "NodeNames"), 0)->valuestring, "n1");
    cJSON_Delete(answer);
    gt_placement_read_note(placement, "");
    answer = post(host, "/kube-scheduler/filter", ARGS("other", "4", "\"n1\",\"n2\",\"n3\""));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "NodeNames")), 3);
    cJSON_Delete(answer);
    /* What a leader writes, which leaders of before wrote in several words a node, is read as it was
     * promised. */
    struct gt_cluster *cluster = gt_cache_cluster(host->cache);
    uint32_t n1 = gt_cluster_find_node(cluster, "n1"), n3 = gt_cluster_find_node(cluster, "n3");
    gt_auto_buf struct gt_buf note = GT_BUF(1000);
    struct gt_promise_id id;
    /* Of whose job it is only its own namespace learns: an Event has the text. */
    give_pod(host->cache, POD(.name = "own", .gpus = 8));
    cJSON *foreign = world_pod(POD(.name = "holder", .gpus = 8));
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(foreign, "metadata"), "namespace",
                              cJSON_CreateString("others"));
    give_json_pod(host->cache, foreign);
    cJSON_Delete(foreign);
    static const struct {
        const char *namespace_, *name, *said;
    } holders[] = {{"others", "holder", "this node is reserved for another job until "},
                   {"ns", "own", "this node is reserved for job ns/"}};
    for (unsigned i = 0; i < GT_COUNT(holders); i++) {
        const struct gt_promise held = {
            .kind = GT_PROMISE_NODE,
            .place = {gt_cluster_find_node(cluster, "n2"), UINT64_MAX},
            .owner = gt_cache_find_pod(host->cache, holders[i].namespace_, holders[i].name)->job->number,
            .until_ms = gt_clock_ms() + 60000};
        assert_int_equal(gt_cluster_promise(cluster, &held, &id, NULL), 0);
        answer = post(host, "/kube-scheduler/filter", ARGS("other", "4", "\"n2\""));
        assert_non_null(strstr(failed_text(answer, "FailedNodes", "n2"), holders[i].said));
        cJSON_Delete(answer);
        gt_cluster_end_promise(cluster, id);
    }
    gt_cache_pod_deleted(host->cache, "others", "holder");
    assert_int_equal(gt_cluster_promise(cluster,
                                        &(struct gt_promise){GT_PROMISE_RESERVED, {n1, 0x30}, 1, 0, 0, 0},
                                        &id, NULL),
                     0);
    assert_int_equal(gt_cluster_promise(cluster,
                                        &(struct gt_promise){GT_PROMISE_RESERVED, {n1, 0xc0}, 2, 0, 0, 0},
                                        &id, NULL),
                     0);
    assert_int_equal(gt_cluster_promise(
                         cluster, &(struct gt_promise){GT_PROMISE_RESERVED, {n3, 1}, 2, 0, 0, 0}, &id, NULL),
                     0);
    assert_int_equal(
        gt_cluster_promise(cluster, &(struct gt_promise){GT_PROMISE_VACATED, {n3, 2}, 2, 0, 0, 0}, &id, NULL),
        0);
    assert_int_equal(gt_cluster_promise(cluster,
                                        &(struct gt_promise){GT_PROMISE_NODE, {n3, UINT64_MAX}, 3, 0, 0, 0},
                                        &id, NULL),
                     0);
    gt_noted_write(cluster, &note);
    assert_string_equal(note.data, "n3=* n1=4-7 n3=0,1");
    gt_cluster_end_promises(cluster, GT_PROMISE_NODE, 3);
    gt_cluster_end_promises(cluster, GT_PROMISE_RESERVED, 1);
    gt_cluster_end_promises(cluster, GT_PROMISE_RESERVED, 2);
    gt_cluster_end_promises(cluster, GT_PROMISE_VACATED, 2);
    gt_noted_read(cluster, note.data);
    assert_int_equal(gt_cluster_promised(cluster, n1, GT_PROMISE_NOTED), 0xf0);
    assert_int_equal(gt_cluster_promised(cluster, n3, GT_PROMISE_NOTED), 3);
    assert_int_equal(gt_cluster_promised(cluster, n3, GT_PROMISE_NOTED_NODE), UINT64_MAX);
    assert_int_equal(cluster_node(host->cache, "n1").available, 0xf0); /* it takes nothing */
    gt_cache_topology_deleted(host->cache, "n3");
    give_plain_node(host->cache, "n4"); /* has its id */
    assert_int_equal(gt_cluster_promised(cluster, gt_cluster_find_node(cluster, "n4"), GT_PROMISE_NOTED), 0);
    gt_noted_read(cluster, "");
    assert_int_equal(gt_cluster_promised(cluster, n1, GT_PROMISE_NOTED), 0);
    /* When it leads itself, objects say what places are reserved; nodes are chosen again, and left alone
     * until then. */
    gt_placement_read_note(placement, "n1=4-7 n2=*");
    gt_placement_start(placement);
    assert_int_equal(gt_cluster_promised(cluster, n1, GT_PROMISE_NOTED), 0);
    answer = post(host, "/kube-scheduler/filter", ARGS("other", "4", "\"n1\",\"n2\""));
    assert_string_equal(failed_text(answer, "FailedNodes", "n2"),
                        "this node is reserved by the leading replica for a waiting job");
    cJSON_Delete(answer);
    gt_placement_free(placement);
    gt_owners_free(owners);
    gt_loop_free(loop);
}

/* Too few GPUs, reserved or not: the scheduler counts better, and sooner, than the node reports. */
static void test_a_full_node_is_left_to_the_scheduler(void **state)
{
    struct host *host = *state;
    give_plain_node(host->cache, "n1");
    give_topology(host->cache, TOPOLOGY(.name = "n1", .gpus = 8, .unnamed = 0xff), 1);
    cJSON *answer = post(host, "/kube-scheduler/filter", ARGS("p", "4", "\"n1\""));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "NodeNames")), 1);
    cJSON_Delete(answer);
}

/* No plan goes to a node that is silent. A scheduler may, and a pod that starts there takes no more than it
 * has. */
static void test_a_silent_node_is_left_to_the_scheduler(void **state)
{
    struct host *host = *state;
    give_plain_node(host->cache, "n1");
    gt_cache_tick(host->cache, UINT64_C(1) << 40);
    give_pod(host->cache, POD(.name = "first", .gpus = 1, .node = "n1"));
    assert_int_equal(cluster_node(host->cache, "n1").available, 0);
    cJSON *answer = post(host, "/kube-scheduler/filter", ARGS("p", "7", "\"n1\""));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "NodeNames")), 1);
    cJSON_Delete(answer);
    answer = post(host, "/kube-scheduler/filter", ARGS("p", "8", "\"n1\""));
    assert_string_equal(failed_text(answer, "FailedNodes", "n1"),
                        "1 of the free GPUs are reserved for planned or starting pods, 7 are left, 8 needed");
    cJSON_Delete(answer);
}

/* ---- a kubelet that gives each pod GPUs of one of two NUMA nodes, of 4 GPUs each ---- */

static void give_numa_node(struct host *host, uint64_t used)
{
    give_plain_node(host->cache, "n1");
    give_topology(host->cache,
                  TOPOLOGY(.name = "n1", .gpus = 8, .single_numa = true, .owners = {{"other", used}}),
                  gt_clock_ms());
}

static bool passes(struct host *host, const char *args)
{
    cJSON *answer = post(host, "/kube-scheduler/filter", args);
    bool does = cJSON_GetArraySize(cJSON_GetObjectItem(answer, "NodeNames")) == 1;
    if (!does)
        assert_non_null(failed_text(answer, "FailedNodes", "n1"));
    cJSON_Delete(answer);
    return does;
}

/* The scheduler asks for the next pods before anybody tells where the last ones went. */
static void test_pods_in_a_row(void **state)
{
    struct host *host = *state;
    give_numa_node(host, 0);
    assert_true(passes(host, ARGS("a", "4", "\"n1\"")));
    assert_true(passes(host, ARGS("b", "4", "\"n1\"")));
    assert_false(passes(host, ARGS("c", "1", "\"n1\"")));
    give_pod(host->cache, POD(.name = "a", .gpus = 4, .node = "n1"));
    assert_false(passes(host, ARGS("c", "1", "\"n1\"")));
    give_pod(host->cache, POD(.name = "b", .gpus = 4));
    assert_false(passes(host, ARGS("c", "1", "\"n1\"")));
    gt_cache_pod_deleted(host->cache, "ns", "b");
    assert_true(passes(host, ARGS("c", "1", "\"n1\"")));
    assert_false(passes(host, ARGS("d", "4", "\"n1\"")));
    gt_cache_tick(host->cache, gt_clock_ms() + GT_CACHE_PASSED_MS + 1); /* c was never bound */
    assert_true(passes(host, ARGS("d", "4", "\"n1\"")));
}

#define CONTAINER_OF(name, gpus)                                                                             \
    "{\"name\":\"" name "\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"" gpus "\"}}}"
#define ARGS_OF_TWO(name, init, a, b)                                                                        \
    "{\"Pod\":{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"ns\",\"uid\":\"" name                     \
    "\"},\"spec\":{\"initContainers\":[" init                                                                \
    "],\"containers\":[" CONTAINER_OF("a", a) "," CONTAINER_OF("b", b) "]}},\"NodeNames\":[\"n1\"]}"

/* Each container has a NUMA node of its own; what passed is served likewise. */
static void test_containers_are_judged_one_by_one(void **state)
{
    struct host *host = *state;
    give_numa_node(host, 0xcc); /* 2 and 2 are free */
    assert_false(passes(host, ARGS("p", "4", "\"n1\"")));
    cJSON *answer = post(host, "/kube-scheduler/filter", ARGS_OF_TWO("q", "", "3", "1"));
    assert_string_equal(
        failed_text(answer, "FailedNodes", "n1"),
        "the kubelet's topology manager would refuse the pod (TopologyAffinityError): the GPUs of "
        "one of its containers would be spread over too many NUMA nodes");
    cJSON_Delete(answer);
    assert_false(passes(host, ARGS_OF_TWO("q", CONTAINER_OF("i", "3"), "2", "1")));
    assert_true(passes(host, ARGS_OF_TWO("r", CONTAINER_OF("i", "2"), "2", "1")));
    gt_cache_pod_deleted(host->cache, "ns", "r");
    assert_true(passes(host, ARGS_OF_TWO("s", "", "1", "2")));
    assert_false(passes(host, ARGS("t", "2", "\"n1\""))); /* 1 and 0, or 0 and 1, stay */
    assert_true(passes(host, ARGS("u", "1", "\"n1\"")));
    answer = post(host, "/kube-scheduler/prioritize", ARGS_OF_TWO("s", "", "2", "2"));
    assert_int_equal(score_of(answer, "n1"), 10);
    cJSON_Delete(answer);
    answer = post(host, "/kube-scheduler/prioritize", ARGS_OF_TWO("s", "", "3", "1"));
    assert_int_equal(score_of(answer, "n1"), 0);
    cJSON_Delete(answer);
}

/* No plan is made on a node where such a pod may be coming. */
static void test_plans_mind_pods_that_passed(void **state)
{
    struct host *host = *state;
    struct gt_cluster *cluster = gt_cache_cluster(host->cache);
    give_numa_node(host, 0);
    assert_true(passes(host, ARGS("a", "1", "\"n1\"")));
    assert_int_equal(
        gt_numa_pods(cluster, gt_cluster_find_node(cluster, "n1"), 0xff, (struct gt_numa_pod){4, 0}), 1);
}

/* It passed on its plan, which another pod took before the API server tells that it is bound: it comes all
 * the same, and gets others. */
static void test_a_pod_that_passed_and_lost_its_plan(void **state)
{
    struct host *host = *state;
    gt_cache_tick(host->cache, gt_clock_ms());
    give_numa_node(host, 0x08);
    give_pod(host->cache, POD(.name = "p", .gpus = 3, .plan_node = "n1", .plan_mask = 0x07));
    assert_true(passes(host, ARGS("p", "3", "\"n1\"")));
    give_numa_node(host, 0x0b);
    assert_false(passes(host, ARGS("q", "2", "\"n1\"")));
    give_pod(host->cache, POD(.name = "p", .gpus = 3, .node = "n1", .plan_node = "n1", .plan_mask = 0x07));
    assert_false(passes(host, ARGS("q", "2", "\"n1\"")));
    gt_cache_pod_deleted(host->cache, "ns", "p");
    assert_true(passes(host, ARGS("q", "2", "\"n1\"")));
}

/* The scheduler knows sooner that GPUs are free, but not on which NUMA nodes. */
static void test_gpus_that_are_not_reported(void **state)
{
    struct host *host = *state;
    give_numa_node(host, 0xff);
    cJSON *answer = post(host, "/kube-scheduler/filter", ARGS("p", "2", "\"n1\""));
    assert_string_equal(
        failed_text(answer, "FailedNodes", "n1"),
        "by its last report 0 GPUs are free, 2 needed: it is not known yet on which NUMA nodes "
        "others are, and the kubelet's topology manager may refuse the pod");
    cJSON_Delete(answer);
    gt_cache_tick(host->cache, gt_clock_ms() + 16 * 60 * 1000); /* nothing is heard of it any more */
    assert_true(passes(host, ARGS("p", "2", "\"n1\"")));
}

/* A pod of 4 is on a node that has 2 + 1 by the last report: which ones are left when it has its own? */
static void test_a_pod_that_has_no_room_yet(void **state)
{
    struct host *host = *state;
    give_numa_node(host, 0xec);
    assert_true(passes(host, ARGS("p", "2", "\"n1\"")));
    give_pod(host->cache, POD(.name = "large", .gpus = 4, .node = "n1"));
    assert_false(passes(host, ARGS("p", "2", "\"n1\"")));
}

#define TASK(name, gpus) "\"task\":{\"Resreq\":{},\"Pod\":" POD_OF(name, gpus) "}"
#define VOLCANO_NODE(name, idle)                                                                             \
    "{\"Name\":\"" name "\",\"Idle\":{\"ScalarResources\":{\"metax-tech.com/gpu\":" idle "}},\"Tasks\":"     \
    "{\"ns/x\":{\"Pod\":{\"metadata\":{\"name\":\"x\"}}}}}"

static double sum_of(const cJSON *answer, const char *node)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(answer, "nodeScore"), node)->valuedouble;
}

/* What Volcano has given away in this session counts, though no node has reported it. */
static void test_volcano(void **state)
{
    struct host *host = *state;
    give_plain_node(host->cache, "n1");
    give_plain_node(host->cache, "n2");
    give_pod(host->cache, POD(.name = "planned", .gpus = 6, .plan_node = "n1", .plan_mask = 0x3f));
    cJSON *answer =
        post(host, "/volcano/predicate", "{" TASK("o", "4") ",\"node\":" VOLCANO_NODE("n1", "8000") "}");
    assert_non_null(strstr(cJSON_GetObjectItem(answer, "status")->valuestring, "6 of the free GPUs"));
    assert_int_equal(cJSON_GetObjectItem(answer, "code")->valueint, 2);
    cJSON_Delete(answer);
    answer = post(host, "/volcano/predicate", "{" TASK("o", "4") ",\"node\":" VOLCANO_NODE("n2", "8000") "}");
    const cJSON *status = cJSON_GetObjectItem(answer, "status");
    assert_true(!status || !status->valuestring || !status->valuestring[0]);
    cJSON_Delete(answer);
    answer = post(host, "/volcano/predicate",
                  "{" TASK("planned", "6") ",\"node\":" VOLCANO_NODE("n2", "8000") "}");
    assert_int_equal(cJSON_GetObjectItem(answer, "code")->valueint, 3);
    cJSON_Delete(answer);

    /* n1 has 2 left; n2 has 8, or 2 by Volcano's own count */
    answer = post(
        host, "/volcano/prioritize",
        "{" TASK("o", "2") ",\"nodes\":[" VOLCANO_NODE("n1", "8000") "," VOLCANO_NODE("n2", "8000") "]}");
    assert_true(sum_of(answer, "n1") > sum_of(answer, "n2"));
    double whole = sum_of(answer, "n2");
    cJSON_Delete(answer);
    answer = post(
        host, "/volcano/prioritize",
        "{" TASK("o", "2") ",\"nodes\":[" VOLCANO_NODE("n1", "8000") "," VOLCANO_NODE("n2", "2000") "]}");
    assert_true(sum_of(answer, "n2") > whole);
    cJSON_Delete(answer);
    answer = post(host, "/volcano/prioritize",
                  "{" TASK("planned", "6") ",\"nodes\":[" VOLCANO_NODE("n1", "8000") "," VOLCANO_NODE(
                      "n2", "8000") "]}");
    assert_true(sum_of(answer, "n1") == 1e6);
    assert_true(sum_of(answer, "n2") == 0);
    cJSON_Delete(answer);
}

static void test_bad_input(void **state)
{
    struct host *host = *state;
    give_plain_node(host->cache, "n1");
    const char *filter = "/kube-scheduler/filter", *json = "application/json";
    assert_refused(host, filter, "text/plain", "{}", 415, "application/json");
    assert_refused(host, filter, NULL, "{}", 415, "application/json");
    assert_refused(host, filter, json, "", 400, "");
    assert_refused(host, filter, json, "{\"Pod\":", 400, "line 1, column 8");
    assert_refused(host, filter, json, "[]", 400, "expected");
    assert_refused(host, filter, json, ARGS("p", "-4", "\"n1\""), 400, "-4");
    assert_refused(host, filter, json, ARGS("p", "0.5", "\"n1\""), 400, "0.5");
    assert_refused(host, filter, json, ARGS("p", "1e30", "\"n1\""), 400, "1e30");
    assert_refused(host, filter, json, ARGS("p", "4", "\"\""), 400, "name");
    assert_refused(host, "/volcano/prioritize", json, "{\"nodes\":[]}", 400, "task");
    /* and the next one is served */
    cJSON *answer = post(host, filter, ARGS("p", "4", "\"n1\""));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "NodeNames")), 1);
    cJSON_Delete(answer);
    gt_extender_set_ready(host->extender, false);
    assert_refused(host, filter, json, ARGS("p", "4", "\"n1\""), 503, "has not read the cluster yet");

    gt_auto_buf struct gt_buf metrics = GT_BUF(1 << 16);
    gt_extender_metrics(host->extender, &metrics);
    assert_non_null(strstr(metrics.data, "{path=\"/kube-scheduler/filter\",result=\"refused\"} 7"));
    assert_non_null(strstr(metrics.data, "{path=\"/kube-scheduler/filter\",result=\"not_ready\"} 1"));
}

static void test_methods_and_paths(void **state)
{
    struct host *host = *state;
    struct gt_http_response response = {.status = 200, .body = GT_BUF(1 << 10)};
    struct gt_http_request get = {.method = GT_HTTP_GET, .path = "/volcano/predicate"},
                           other = {.method = GT_HTTP_POST,
                                    .path = "/volcano",
                                    .content_type = "application/json"};
    assert_true(gt_extender_serve(host->extender, &get, &response));
    assert_int_equal(response.status, 405);
    struct gt_http_consumer consumer;
    assert_false(gt_extender_on_body(host->extender, &other, &consumer));
    assert_false(gt_extender_serve(host->extender, &other, &response));
    gt_buf_done(&response.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exact_match_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cpu_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reservations_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_another_replica_reserves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_node_is_left_to_the_scheduler, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_silent_node_is_left_to_the_scheduler, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pods_in_a_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_containers_are_judged_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_plans_mind_pods_that_passed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pod_that_passed_and_lost_its_plan, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpus_that_are_not_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pod_that_has_no_room_yet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_volcano, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_input, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_methods_and_paths, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
