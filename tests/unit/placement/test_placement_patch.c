/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "base/err.h"
#include "scheduler-ext/placement/patch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/pod_plan.h"
#include "base/digest.h"
#include "base/text.h"
#include "tests/unit/api/apply_patch.h"
#include "tests/unit/cache/cache_world.h"
#include "tests/unit/placement/json_path.h"

/* What is read of a pod's object, and the patches made from it. */

#define INIT(name, more, gpus)                                                                               \
    "{\"name\":\"" name "\"," more "\"resources\":{\"limits\":{\"metax-tech.com/gpu\":" gpus "}}}"
#define HEAD "\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\""
#define TERMS(list)                                                                                          \
    "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"                   \
    "\"nodeSelectorTerms\":" list "}}}"

/* As if the pod asked for GPUs: of others hardly anything is read. */
static int make_object(const cJSON *json, struct gt_pod_object *ret, struct gt_err **err)
{
    struct gt_pod pod;
    cJSON *copy = cJSON_Duplicate(json, true), *containers = cJSON_Parse("[" INIT("main", "", "1") "]");
    if (!cJSON_GetObjectItem(copy, "spec"))
        cJSON_AddObjectToObject(copy, "spec");
    cJSON_AddItemToObject(cJSON_GetObjectItem(copy, "spec"), "containers", containers);
    gt_pod_read(copy, GT_RESOURCE_GPU, &pod);
    int r = gt_pod_object_make(&pod, ret, err);
    cJSON_Delete(copy);
    return r;
}

static struct gt_pod_object read_object(const char *text)
{
    struct gt_pod_object object;
    cJSON *json = cJSON_Parse(text);
    gt_auto_err struct gt_err *err = NULL;
    if (!json)
        fail_msg("the test wrote no JSON: %s", text);
    if (make_object(json, &object, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    cJSON_Delete(json);
    return object;
}

static cJSON *parsed(struct gt_buf *buf)
{
    assert_false(buf->failed);
    cJSON *json = cJSON_Parse(buf->data);
    if (!json)
        fail_msg("no JSON: %s", buf->data);
    gt_buf_done(buf);
    return json;
}

/* Compares a part of the patch with what it should be. */
static void check_part(const cJSON *json, const char *path, const char *want)
{
    cJSON *expected = cJSON_Parse(want);
    const cJSON *part = json_at(json, path);
    assert_non_null(expected);
    if (!cJSON_Compare(part, expected, true)) {
        char *text = cJSON_PrintUnformatted(part);
        fail_msg("%s is %s, expected %s", path, text ? text : "nothing", want);
    }
    cJSON_Delete(expected);
}

/* `node` NULL: without a plan. */
static cJSON *lift(const char *object_text, const char *node)
{
    struct gt_buf buf = GT_BUF(1 << 16);
    struct gt_pod_object object = read_object(object_text);
    struct gt_plan_texts texts = {.unit = "0", .rank = "0", .gpus = "{}"};
    gt_text_copy(texts.node, sizeof(texts.node), node ? node : "");
    gt_patch_lift(&object, node ? &texts : NULL, &buf);
    gt_pod_object_done(&object);
    return parsed(&buf);
}

static const char terms_path[] =
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

static void test_lift(void **state)
{
    (void)state;
    cJSON *json = lift("{" HEAD "},\"spec\":{\"schedulingGates\":[{\"name\":\"" GT_GATE "\"}]}}", "n\"1");
    check_part(json, "metadata.uid", "\"u\"");
    check_part(json, "metadata.resourceVersion", "\"7\"");
    check_part(json, "spec.schedulingGates", "null");
    check_part(
        json, terms_path,
        "[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n\\\"1\"]}]}]");
    cJSON_Delete(json);
    json = lift("{" HEAD "},\"spec\":{\"schedulingGates\":[{\"name\":\"a\"},{\"name\":\"" GT_GATE
                "\"},{\"name\":\"b\"}]}}",
                NULL);
    check_part(json, "spec", "{\"schedulingGates\":[{\"name\":\"a\"},{\"name\":\"b\"}]}");
    check_part(json, "metadata", "{\"uid\":\"u\",\"resourceVersion\":\"7\"}");
    cJSON_Delete(json);
}

/* Terms are alternatives: each is tightened, none is added, and one that matches nothing stays so. */
static void test_terms_of_the_user(void **state)
{
    (void)state;
    cJSON *json = lift("{" HEAD "},\"spec\":{" TERMS(
                           "[{\"matchExpressions\":[{\"key\":\"k\",\"operator\":\"Exists\"}]},{},"
                           "{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":"
                           "[\"n1\",\"n2\"]}]},{\"matchFields\":null,\"matchExpressions\":[]}]") "}}",
                       "n1");
    check_part(json, terms_path,
               "[{\"matchExpressions\":[{\"key\":\"k\",\"operator\":\"Exists\"}],\"matchFields\":[{\"key\":"
               "\"metadata.name\",\"operator\":\"In\",\"values\":[\"n1\"]}]},{},{\"matchFields\":[{\"key\":"
               "\"metadata.name\",\"operator\":\"In\",\"values\":[\"n1\",\"n2\"]},{\"key\":\"metadata.name\","
               "\"operator\":\"In\",\"values\":[\"n1\"]}]},{\"matchFields\":null,\"matchExpressions\":[]}]");
    cJSON_Delete(json);
}

static unsigned allocations_left;

static void *scarce_malloc(size_t size)
{
    return allocations_left && allocations_left-- ? malloc(size) : NULL;
}

/* Whichever allocation fails: the patch is whole, with the user's terms, or it is none. */
static void test_terms_without_memory(void **state)
{
    (void)state;
    static const char terms[] = "[{\"matchExpressions\":[{\"key\":\"zone\",\"operator\":\"Exists\"}]},"
                                "{\"matchFields\":[]}]";
    cJSON_Hooks scarce = {.malloc_fn = scarce_malloc, .free_fn = free};
    gt_auto_buf struct gt_buf whole = GT_BUF(4096);
    gt_pod_write_affinity(terms, "n1", &whole);
    assert_false(whole.failed);
    unsigned failed = 0;
    for (;; failed++) {
        gt_auto_buf struct gt_buf patch = GT_BUF(4096);
        allocations_left = failed;
        cJSON_InitHooks(&scarce);
        gt_pod_write_affinity(terms, "n1", &patch);
        cJSON_InitHooks(NULL);
        if (!patch.failed) {
            assert_string_equal(patch.data, whole.data);
            break;
        }
    }
    assert_true(failed > 10);
}

static int make_texts(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node,
                      uint64_t mask, uint32_t unit, uint32_t rank, struct gt_plan_texts *ret)
{
    const struct gt_planned_place place = {
        .place = {node, mask}, .unit = unit, .unit_rank = 1, .rank = rank, .tier = unit ? 2 : 0};
    return gt_plan_texts_make(cache, pod, &place, ret, NULL);
}

/* What was written is what is read. */
static void check_written(const cJSON *json, const struct gt_plan_texts *texts)
{
    struct gt_pod pod;
    gt_pod_read(json, GT_RESOURCE_GPU, &pod);
    assert_null(pod.invalid);
    assert_false(pod.gated);
    assert_string_equal(pod.plan_node, texts->node);
    assert_string_equal(pod.plan_gpus, texts->gpus);
    assert_string_equal(gt_pod_annotation(&pod.meta, GT_KEY_PLAN_UNIT), texts->unit);
    assert_string_equal(gt_pod_annotation(&pod.meta, GT_KEY_PLAN_RANK), texts->rank);
    check_part(json, terms_path,
               "[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n1\"]}]}]");
    gt_auto_free struct gt_pod_plan *plan = NULL;
    assert_int_equal(gt_pod_plan_read(pod.plan_gpus, &plan, NULL), 0);
    assert_int_equal(plan->count, 1);
    assert_int_equal(plan->containers[0].count, 3);
    assert_string_equal(plan->containers[0].ids[2], "GPU-n1-7");
}

static void test_plan(void **state)
{
    (void)state;
    struct gt_cache *cache = new_cache(NULL);
    struct gt_buf buf = GT_BUF(1 << 16);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "p", .gpus = 3, .gated = true));
    struct gt_cache_pod *pod = pod_of(cache, "p");
    struct gt_plan_texts texts;
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(cache), "n1");
    assert_int_equal(make_texts(cache, pod, node, 0x92, 4, 17, &texts), 0);
    assert_string_equal(texts.gpus, "{\"main\":[\"GPU-n1-1\",\"GPU-n1-4\",\"GPU-n1-7\"]}");
    struct gt_pod_object object = read_object("{" HEAD "}}");
    assert_false(object.planned);
    gt_patch_lift(&object, &texts, &buf);
    gt_pod_object_done(&object);
    cJSON *json = parsed(&buf);
    check_part(json, "metadata.annotations",
               "{\"plan.topology.metax-tech.com/gpus\":"
               "\"{\\\"main\\\":[\\\"GPU-n1-1\\\",\\\"GPU-n1-4\\\",\\\"GPU-n1-7\\\"]}\","
               "\"plan.topology.metax-tech.com/node\":\"n1\",\"plan.topology.metax-tech.com/unit\":\"4\","
               "\"plan.topology.metax-tech.com/rank\":\"17\","
               "\"plan.topology.metax-tech.com/unit-rank\":\"1\","
               "\"plan.topology.metax-tech.com/supernode\":\"n1\","
               "\"plan.topology.metax-tech.com/tier\":\"2\"}");
    check_part(json, terms_path,
               "[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n1\"]}]}]");
    assert_int_equal(make_object(json, &object, NULL), 0); /* the patch, taken for the object */
    assert_true(object.planned);
    gt_pod_object_done(&object);
    check_written(json, &texts);
    cJSON_Delete(json);
    gt_plan_texts_done(&texts);
    assert_true(make_texts(cache, pod, node, 0x12, 4, 17, &texts) < 0);     /* two GPUs for three */
    assert_true(make_texts(cache, pod, node + 1, 0x92, 4, 17, &texts) < 0); /* no such node */
    gt_cache_free(cache);
}

/* Our condition and the hint; other conditions stay. */
static void test_condition(void **state)
{
    (void)state;
    struct gt_buf buf = GT_BUF(1 << 16);
    struct gt_pod_object object = read_object(
        "{" HEAD "},\"spec\":{\"schedulingGates\":[{\"name\":\"" GT_GATE
        "\"}]},\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
        "\"SchedulingGated\"},{\"type\":\"GPUPlacement\",\"status\":\"False\",\"reason\":\"Old\"}]}}");
    const struct gt_condition_text condition = {.is_true = true, .reason = "Planned", .message = "on \"n1\""};
    assert_int_not_equal(object.condition, 0);
    assert_false(object.unschedulable || object.nominated);
    gt_patch_condition(&object, &condition, "n1", 0, &buf);
    gt_pod_object_done(&object);
    cJSON *json = parsed(&buf);
    check_part(
        json, "status",
        "{\"nominatedNodeName\":\"n1\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
        "\"reason\":\"SchedulingGated\"},{\"type\":\"GPUPlacement\",\"status\":\"True\",\"reason\":"
        "\"Planned\",\"message\":\"on \\\"n1\\\"\",\"lastTransitionTime\":\"1970-01-01T00:00:00Z\"}]}");
    assert_int_equal(make_object(json, &object, NULL), 0); /* the patch, taken for the object */
    cJSON_Delete(json);
    assert_true(object.condition == gt_condition_digest(&condition));
    assert_true(object.nominated == gt_digest_keyed("n1"));
    gt_patch_condition(&object, &condition, "", 0, &buf); /* not gated: the scheduler's own, perhaps */
    json = parsed(&buf);
    assert_null(json_at(json, "status.nominatedNodeName"));
    cJSON_Delete(json);
    object.gated = true;
    gt_patch_condition(&object, &condition, "", 0, &buf);
    json = parsed(&buf);
    check_part(json, "status.nominatedNodeName", "null");
    cJSON_Delete(json);
    gt_patch_condition(&object, &condition, NULL, 0, &buf); /* it stays as it is */
    json = parsed(&buf);
    assert_null(json_at(json, "status.nominatedNodeName"));
    cJSON_Delete(json);
    gt_pod_object_done(&object);
}

/* What the cache reads of the written plan is what was planned. */
static void test_containers_share_a_plan(void **state)
{
    (void)state;
    static const char two[] =
        "\"initContainers\":[{\"name\":\"side\",\"restartPolicy\":\"Always\",\"resources\":{\"limits\":{"
        "\"metax-tech.com/gpu\":2}}},{\"name\":\"none\"}],";
    struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "p", .gpus = 3, .gated = true, .spec = two));
    struct gt_cache_pod *pod = pod_of(cache, "p");
    struct gt_plan_texts texts;
    assert_int_equal(pod->gpus, 5);
    assert_int_equal(
        make_texts(cache, pod, gt_cluster_find_node(gt_cache_cluster(cache), "n1"), 0x1f, 0, 0, &texts), 0);
    cJSON *json = cJSON_Parse(texts.gpus);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "side")), 2);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "main")), 3);
    assert_int_equal(cJSON_GetArraySize(json), 2);
    cJSON_Delete(json);
    gt_plan_texts_done(&texts);
    gt_cache_free(cache);
}

/* An ordinary init container has its GPUs of those of the containers, who take them over. */
static void test_init_containers_share_a_plan(void **state)
{
    (void)state;
#define SIDECAR "\"restartPolicy\":\"Always\","
#define IDS4    "\"GPU-n1-0\",\"GPU-n1-1\",\"GPU-n1-2\",\"GPU-n1-3\""
#define IDS8    IDS4 ",\"GPU-n1-4\",\"GPU-n1-5\",\"GPU-n1-6\",\"GPU-n1-7\""
    static const struct {
        const char *inits;
        unsigned main, gpus;
        const char *plan;
    } cases[] = {
        {INIT("i", "", "2"), 4, 4, "{\"main\":[" IDS4 "],\"i\":[\"GPU-n1-0\",\"GPU-n1-1\"]}"},
        {INIT("i", "", "8"), 4, 8, "{\"main\":[" IDS4 "],\"i\":[" IDS8 "]}"},
        {INIT("i", "", "8") "," INIT("j", "", "4"), 4, 8,
         "{\"main\":[" IDS4 "],\"i\":[" IDS8 "],\"j\":[" IDS4 "]}"},
        {INIT("i", "", "4"), 0, 4, "{\"i\":[" IDS4 "]}"},
        /* started before: it keeps its own */
        {INIT("s", SIDECAR, "4") "," INIT("i", "", "2"), 2, 6,
         "{\"s\":[" IDS4 "],\"main\":[\"GPU-n1-4\",\"GPU-n1-5\"],\"i\":[\"GPU-n1-4\",\"GPU-n1-5\"]}"},
        {INIT("i", "", "6") "," INIT("s", SIDECAR, "4"), 2, 6,
         "{\"s\":[" IDS4 "],\"main\":[\"GPU-n1-4\",\"GPU-n1-5\"],\"i\":[" IDS4
         ",\"GPU-n1-4\",\"GPU-n1-5\"]}"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        char spec[1024];
        struct gt_cache *cache = new_cache(NULL);
        struct gt_plan_texts texts;
        give_plain_node(cache, "n1");
        uint32_t node = gt_cluster_find_node(gt_cache_cluster(cache), "n1");
        snprintf(spec, sizeof(spec), "\"initContainers\":[%s],", cases[i].inits);
        give_pod(cache, POD(.name = "p", .gpus = cases[i].main, .gated = true, .spec = spec));
        struct gt_cache_pod *pod = pod_of(cache, "p");
        uint64_t mask = (1U << cases[i].gpus) - 1;
        assert_int_equal(pod->gpus, cases[i].gpus);
        assert_int_equal(make_texts(cache, pod, node, mask, 0, 0, &texts), 0);
        assert_string_equal(texts.gpus, cases[i].plan);
        /* Read again, it is the same. */
        struct gt_buf annotations = GT_BUF(4096);
        gt_buf_puts(&annotations, "\"" GT_PLAN_ANNOTATION_NODE "\":\"n1\",\"" GT_PLAN_ANNOTATION_GPUS "\":");
        gt_text_quote(&annotations, texts.gpus);
        gt_buf_puts(&annotations, ",");
        give_pod(cache,
                 POD(.name = "p", .gpus = cases[i].main, .spec = spec, .annotations = annotations.data));
        assert_int_equal(pod_of(cache, "p")->plan, GT_CACHE_PLAN_ASSUMED);
        assert_int_equal(pod_of(cache, "p")->planned.mask, mask);
        gt_buf_done(&annotations);
        gt_plan_texts_done(&texts);
        gt_cache_free(cache);
    }
}

static void test_long_message_is_cut_between_characters(void **state)
{
    (void)state;
    static char message[3 * 1000];
    struct gt_buf buf = GT_BUF(1 << 16);
    for (unsigned i = 0; i + 3 < sizeof(message); i += 3)
        memcpy(message + i, "\xe2\x82\xac", 3);
    struct gt_pod_object object = read_object("{" HEAD "}}");
    const struct gt_condition_text condition = {.reason = "R", .message = message};
    gt_patch_condition(&object, &condition, NULL, 1, &buf);
    cJSON *json = parsed(&buf);
    const cJSON *first = cJSON_GetArrayItem(json_at(json, "status.conditions"), 0);
    assert_int_equal(strlen(json_text(first, "message")), 999);
    cJSON_Delete(json);
    gt_pod_object_done(&object);
}

static void test_flags(void **state)
{
    (void)state;
    struct gt_pod_object object = read_object(
        "{" HEAD
        "},\"spec\":{\"nodeName\":\"n\",\"schedulingGates\":[{\"name\":\"x\"}]},\"status\":{\"phase\":"
        "\"Failed\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
        "\"Unschedulable\"}]}}");
    assert_true(object.others && object.unschedulable);
    assert_false(object.gated);
    gt_pod_object_done(&object);
    object = read_object("{" HEAD "},\"spec\":{\"nodeName\":\"\",\"schedulingGates\":[{\"name\":\"" GT_GATE
                         "\"},{\"name\":\"scheduling.volcano.sh/queue-allocation-gate\"}]}}");
    assert_true(object.gated);
    assert_false(object.others);
    gt_pod_object_done(&object);
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const bad[] = {"{}", "[]", "{\"metadata\":{\"uid\":\"u\"}}",
                                      "{\"metadata\":{\"uid\":7,\"resourceVersion\":\"1\"}}"};
    for (size_t i = 0; i < GT_COUNT(bad); i++) {
        struct gt_pod_object object;
        gt_auto_err struct gt_err *err = NULL;
        cJSON *json = cJSON_Parse(bad[i]);
        assert_true(make_object(json, &object, &err) < 0);
        assert_string_not_equal(gt_err_text(err), "");
        cJSON_Delete(json);
    }
    struct gt_pod_object odd =
        read_object(/* lists that are none do not matter */
                    "{" HEAD
                    ",\"annotations\":5},\"spec\":{\"schedulingGates\":\"x\",\"affinity\":[]},\"status\":{"
                    "\"conditions\":{\"type\":\"x\"}}}");
    assert_false(odd.gated);
    gt_pod_object_done(&odd);
}

/* All containers of a pod are planned, also more than 16 of them. */
static void test_many_containers_share_a_plan(void **state)
{
    (void)state;
    enum { INITS = 20 };
    struct gt_cache *cache = new_cache(NULL);
    struct gt_plan_texts texts;
    gt_auto_free struct gt_pod_plan *plan = NULL;
    gt_auto_buf struct gt_buf spec = GT_BUF(1 << 14);
    for (unsigned i = 0; i < INITS; i++)
        gt_buf_printf(&spec, "%s" INIT("i%u", "", "2"), i ? "," : "\"initContainers\":[", i);
    gt_buf_puts(&spec, "],");
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "p", .gpus = 4, .gated = true, .spec = spec.data));
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(cache), "n1");
    assert_int_equal(make_texts(cache, pod_of(cache, "p"), node, 0xf, 0, 0, &texts), 0);
    assert_int_equal(gt_pod_plan_read(texts.gpus, &plan, NULL), 0);
    assert_int_equal(plan->count, INITS + 1);
    assert_int_equal(plan->containers[INITS].count, 2);
    gt_plan_texts_done(&texts);
    gt_cache_free(cache);
}

/* Plans the pod on these GPUs of n1, writes that to its object, and reads the object. */
static void plan_and_read(struct gt_cache *cache, cJSON *object, uint64_t mask)
{
    struct gt_plan_texts texts;
    struct gt_pod_object written;
    struct gt_pod pod;
    struct gt_buf buf = GT_BUF(1 << 16);
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(cache), "n1");
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    assert_true(pod.gated && !gt_pod_is_planned(&pod));
    assert_int_equal(gt_pod_object_make(&pod, &written, NULL), 0);
    assert_int_equal(make_texts(cache, pod_of(cache, "p"), node, mask, 1, 2, &texts), 0);
    gt_patch_lift(&written, &texts, &buf);
    cJSON *patch = parsed(&buf);
    apply_merge_patch(object, patch);
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    assert_null(pod.invalid);
    assert_false(pod.gated);
    assert_string_equal(pod.plan_node, "n1");
    assert_string_equal(pod.plan_gpus, texts.gpus);
    give_json_pod(cache, object);
    cJSON_Delete(patch);
    gt_pod_object_done(&written);
    gt_plan_texts_done(&texts);
}

static void test_random_pods_keep_their_plans(void **state)
{
    (void)state;
    unsigned seed = 3, planned = 0;
    for (unsigned round = 0; round < 400; round++) {
        struct gt_cache *cache = new_cache(NULL);
        gt_auto_buf struct gt_buf spec = GT_BUF(1 << 16);
        give_plain_node(cache, "n1");
        gt_buf_puts(&spec, "\"initContainers\":[");
        for (unsigned i = 0, count = (unsigned)rand_r(&seed) % 4; i < count; i++)
            gt_buf_printf(&spec, "%s" INIT("i%u", "%s", "%u"), i ? "," : "", i,
                          rand_r(&seed) % 2 ? "" : SIDECAR, (unsigned)rand_r(&seed) % 5);
        gt_buf_puts(&spec, "],");
        const struct world_pod pod = {
            .name = "p", .gpus = (unsigned)rand_r(&seed) % 6, .gated = true, .spec = spec.data};
        cJSON *object = world_pod(&pod);
        cJSON_AddStringToObject(cJSON_GetObjectItem(object, "metadata"), "resourceVersion", "7");
        give_json_pod(cache, object);
        const struct gt_cache_pod *known = gt_cache_find_pod(cache, "ns", "p");
        if (known && known->gpus <= 8) {
            uint64_t mask = 0;
            while ((unsigned)__builtin_popcountll(mask) < known->gpus)
                mask |= UINT64_C(1) << rand_r(&seed) % 8;
            plan_and_read(cache, object, mask);
            assert_int_equal(pod_of(cache, "p")->plan, GT_CACHE_PLAN_ASSUMED);
            assert_int_equal(pod_of(cache, "p")->planned.mask, mask);
            assert_int_equal(pod_of(cache, "p")->state, GT_CACHE_WAITING);
            planned++;
        }
        cJSON_Delete(object);
        gt_cache_free(cache);
    }
    assert_true(planned > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lift),
        cmocka_unit_test(test_terms_of_the_user),
        cmocka_unit_test(test_terms_without_memory),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_condition),
        cmocka_unit_test(test_containers_share_a_plan),
        cmocka_unit_test(test_init_containers_share_a_plan),
        cmocka_unit_test(test_many_containers_share_a_plan),
        cmocka_unit_test(test_random_pods_keep_their_plans),
        cmocka_unit_test(test_long_message_is_cut_between_characters),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
