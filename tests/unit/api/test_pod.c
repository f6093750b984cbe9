/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "api/pod.h"
#include "base/err.h"
#include "topology/model/numa.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What is read of a pod, and how its GPUs are counted. */

struct read {
    struct gt_pod pod;
    cJSON *json;
};

static void free_read(struct read *read)
{
    cJSON_Delete(read->json);
}
#define auto_read __attribute__((cleanup(free_read)))

static void read_as(const char *text, const char *resource, struct read *ret)
{
    ret->json = cJSON_Parse(text);
    if (!ret->json)
        fail_msg("the test wrote no JSON: %s", text);
    gt_pod_read(ret->json, resource, &ret->pod);
}

static void read_text(const char *text, struct read *ret)
{
    read_as(text, GT_RESOURCE_GPU, ret);
}

#define POD(spec) "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"p\",\"uid\":\"u\"},\"spec\":{" spec "}}"
#define ASKS(name, number)                                                                                   \
    "{\"name\":\"" name "\",\"resources\":{\"limits\":{\"" GT_RESOURCE_GPU "\":" number "}}}"
#define SIDECAR(name, number)                                                                                \
    "{\"name\":\"" name "\",\"restartPolicy\":\"Always\",\"resources\":{\"limits\":{\"" GT_RESOURCE_GPU      \
    "\":" number "}}}"

static void test_everything(void **state)
{
    (void)state;
    auto_read struct read read = {0};
    read_text(
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"demo-0\",\"uid\":\"u-1\",\"resourceVersion\":"
        "\"17\","
        "\"creationTimestamp\":\"2026-01-31T12:00:00Z\",\"deletionTimestamp\":\"2026-01-31T13:00:00Z\","
        "\"labels\":{\"app\":\"x\",\"training.kubeflow.org/job-name\":\"demo\",\"job-name\":null},"
        "\"annotations\":{\"" GT_ANNOTATION_GROUP "\":\"32\",\"" GT_PLAN_ANNOTATION_NODE "\":\"n1\","
        "\"" GT_PLAN_ANNOTATION_GPUS "\":\"{}\",\"" GT_PLAN_ANNOTATION_RANK "\":\"3\","
        "\"" GT_PLAN_ANNOTATION_EPOCH "\":\"7\"},"
        "\"ownerReferences\":[{\"kind\":\"A\",\"name\":\"first\"},{\"apiVersion\":\"kubeflow.org/"
        "v1\",\"kind\":"
        "\"PyTorchJob\",\"name\":\"demo\",\"uid\":\"o-1\",\"controller\":true}]},"
        "\"spec\":{\"nodeName\":\"n2\",\"schedulerName\":\"volcano\",\"priority\":-7,\"priorityClassName\":"
        "\"batch\",\"schedulingGates\":[{\"name\":\"a\"},{\"name\":\"" GT_GATE "\"}],"
        "\"nodeSelector\":{\"k\":\"v\"},\"tolerations\":[{}],\"affinity\":{\"nodeAffinity\":{"
        "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[]}}},"
        "\"containers\":[" ASKS(
            "main", "\"8\"") "]},"
                             "\"status\":{\"phase\":\"Pending\",\"nominatedNodeName\":\"n3\",\"conditions\":["
                             "{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\"},"
                             "{\"type\":\"" GT_CONDITION_PLACEMENT
                             "\",\"status\":\"False\",\"reason\":\"" GT_CONDITION_REFUSED
                             "\"},{\"type\":\"DisruptionTarget\",\"status\":\"True\",\"reason\":"
                             "\"PreemptionByScheduler\"}]}}",
        &read);
    const struct gt_pod *pod = &read.pod;
    assert_null(pod->invalid);
    assert_string_equal(pod->meta.namespace_, "team");
    assert_string_equal(pod->meta.name, "demo-0");
    assert_string_equal(pod->uid, "u-1");
    assert_string_equal(pod->resource_version, "17");
    assert_true(pod->created_s == 1769860800);
    assert_true(pod->deleting && pod->gated && !pod->ended);
    assert_int_equal(pod->gate_count, 2);
    assert_int_equal(pod->meta.label_count, 1);
    assert_string_equal(gt_pod_label(&pod->meta, GT_KEY_KUBEFLOW_JOB), "demo");
    assert_int_equal(pod->meta.annotation_count, 2);
    assert_string_equal(gt_pod_annotation(&pod->meta, GT_KEY_GROUP), "32");
    assert_string_equal(gt_pod_annotation(&pod->meta, GT_KEY_PLAN_RANK), "3");
    assert_string_equal(pod->meta.owner_kind, "PyTorchJob");
    assert_string_equal(pod->meta.owner_name, "demo");
    assert_true(pod->meta.owner_controls);
    assert_string_equal(pod->owner_uid, "o-1");
    assert_string_equal(pod->owner_api_version, "kubeflow.org/v1");
    assert_string_equal(pod->node_name, "n2");
    assert_string_equal(pod->nominated_node, "n3");
    assert_string_equal(pod->scheduler, "volcano");
    assert_string_equal(pod->priority_class, "batch");
    assert_int_equal(pod->priority, -7);
    assert_true(gt_pod_is_planned(pod));
    assert_string_equal(pod->plan_node, "n1");
    assert_int_equal(pod->fence, 7);
    assert_string_equal(pod->plan_gpus, "{}");
    assert_true(cJSON_IsObject(pod->where.selector) && cJSON_IsArray(pod->where.tolerations) &&
                cJSON_IsObject(pod->affinity) && pod->where.has_terms);
    const struct gt_condition *conditions = pod->conditions;
    assert_int_equal(conditions[GT_POD_SCHEDULED].status, GT_CONDITION_FALSE);
    assert_true(gt_condition_has(&conditions[GT_POD_SCHEDULED], "Unschedulable"));
    assert_true(gt_condition_has(&conditions[GT_POD_PLACEMENT], GT_CONDITION_REFUSED));
    assert_int_equal(conditions[GT_POD_DISRUPTED].status, GT_CONDITION_TRUE);
    assert_true(gt_condition_has(&conditions[GT_POD_DISRUPTED], "PreemptionByScheduler"));
    assert_int_equal(pod->gpus.total, 8);
    assert_int_equal(pod->meta.containers, 1);
    assert_int_equal(pod->meta.gpus[0], 8);
    assert_string_equal(pod->gpus.names[0], "main");
}

static void test_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}", "[]", "null", "{\"metadata\":null,\"spec\":[],\"status\":1}",
        "{\"metadata\":{\"labels\":[],\"annotations\":5,\"ownerReferences\":{}},\"spec\":{"
        "\"schedulingGates\":"
        "\"x\",\"affinity\":[]},\"status\":{\"conditions\":{\"type\":\"x\"}}}"};
    for (unsigned i = 0; i < GT_COUNT(texts); i++) {
        auto_read struct read read = {0};
        read_text(texts[i], &read);
        assert_null(read.pod.invalid);
        assert_string_equal(read.pod.meta.name, "");
        assert_string_equal(read.pod.meta.namespace_, "");
        assert_null(read.pod.uid);
        assert_false(read.pod.gated || read.pod.ended || read.pod.deleting || gt_pod_is_planned(&read.pod));
        assert_int_equal(read.pod.gpus.total, 0);
    }
    struct gt_pod pod;
    gt_pod_read(NULL, GT_RESOURCE_GPU, &pod);
    assert_int_equal(pod.gpus.total, 0);
}

/* Errors in a pod without GPUs do not matter here. */
static void test_invalid(void **state)
{
    (void)state;
    static const char *const parts[] = {"\"priority\":\"high\"", "\"nodeName\":5", "\"schedulerName\":{}"};
    for (unsigned i = 0; i < GT_COUNT(parts); i++) {
        char text[1024];
        auto_read struct read read = {0}, none = {0};
        snprintf(text, sizeof(text), POD("%s,\"containers\":[" ASKS("a", "1") "]"), parts[i]);
        read_text(text, &read);
        assert_string_equal(read.pod.invalid, "it has invalid fields");
        snprintf(text, sizeof(text), POD("%s"), parts[i]);
        read_text(text, &none);
        assert_null(none.pod.invalid);
    }
    static const char *const wrong[] = {
        "{\"metadata\":{\"name\":7}}",
        POD("\"containers\":[{\"resources\":{\"limits\":{\"" GT_RESOURCE_GPU "\":1}}}]"), /* no name */
        POD("\"containers\":{}"),
        POD("\"initContainers\":\"x\""),
        POD("\"containers\":[" ASKS("a", "\"x\"") "]"),
    };
    for (unsigned i = 0; i < GT_COUNT(wrong); i++) {
        auto_read struct read read = {0};
        read_text(wrong[i], &read);
        assert_non_null(read.pod.invalid);
    }
}

/* A name or index that is too long is ignored; for a size the user gets an error. */
static void test_long_texts(void **state)
{
    (void)state;
    char text[2048], value[300];
    auto_read struct read read = {0};
    memset(value, '9', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    snprintf(text, sizeof(text),
             "{\"metadata\":{\"name\":\"p\",\"labels\":{\"job-name\":\"%s\"},\"annotations\":{\"%s\":\"%s\","
             "\"%s\":"
             "\"%s\",\"%s\":\"%s\"}},\"spec\":{\"containers\":[" ASKS("a", "1") "]}}",
             value, GT_ANNOTATION_GROUP, value, GT_PLAN_ANNOTATION_NODE, value, GT_PLAN_ANNOTATION_GPUS,
             value);
    read_text(text, &read);
    assert_null(read.pod.invalid);
    assert_null(gt_pod_label(&read.pod.meta, GT_KEY_OLD_JOB));
    assert_string_equal(gt_pod_annotation(&read.pod.meta, GT_KEY_GROUP), "(too long)");
    assert_null(read.pod.plan_node);
    assert_string_equal(read.pod.plan_gpus, value);
}

/* ---- GPUs ---- */

/* Kubernetes' rule: what a pod needs at most at one time. */
static void test_gpus_of_containers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned gpus, containers, sidecars, inits;
        const char *last;
    } cases[] = {
        {POD("\"containers\":[" ASKS("a", "\"2\"") "," ASKS("b", "3") ",{\"name\":\"c\"}]"), 5, 2, 0, 0, "b"},
        {POD("\"initContainers\":[" ASKS("i", "4") "],\"containers\":[" ASKS("a", "5") "]"), 5, 1, 0, 1, "a"},
        {POD("\"containers\":[" ASKS("a", "5") "],\"initContainers\":[" ASKS("i", "8") "," ASKS("j",
                                                                                                "7") "]"),
         8, 2, 0, 2, "i"},
        {POD("\"initContainers\":[" SIDECAR("s", "2") "],\"containers\":[" ASKS("a", "5") "]"), 7, 2, 1, 0,
         "a"},
        {POD("\"containers\":[" ASKS("a", "5") "],\"initContainers\":[" SIDECAR("s", "2") "," ASKS("i",
                                                                                                   "6") "]"),
         8, 3, 1, 1, "i"},
        {POD("\"initContainers\":[" ASKS("i", "6") "," SIDECAR("s", "2") "],\"containers\":[" ASKS("a",
                                                                                                   "5") "]"),
         7, 2, 1, 1, "a"},
        {POD("\"initContainers\":[" ASKS("i", "1") "],\"containers\":[{\"name\":\"a\"}]"), 1, 1, 0, 1, "i"},
        {POD("\"containers\":[{\"name\":\"a\",\"resources\":{\"requests\":{\"" GT_RESOURCE_GPU
             "\":\"1\"}}}]"),
         1, 1, 0, 0, "a"},
        {POD("\"containers\":[{\"name\":\"a\",\"resources\":{\"requests\":{\"" GT_RESOURCE_GPU
             "\":\"1\"},\"limits\":{\"" GT_RESOURCE_GPU "\":\"2\"}}}]"),
         2, 1, 0, 0, "a"},
        {POD("\"containers\":[" ASKS("a", "\"1e3\"") "," ASKS("b", "\"8k\"") "," ASKS("c", "\"8000m\"") "]"),
         9008, 3, 0, 0, "c"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        auto_read struct read read = {0};
        read_text(cases[i].text, &read);
        const struct gt_pod_gpus *gpus = &read.pod.gpus;
        unsigned sum = 0;
        for (unsigned c = 0; c < gpus->containers; c++)
            sum += gpus->counts[c];
        assert_null(read.pod.invalid);
        assert_int_equal(gpus->total, cases[i].gpus);
        assert_int_equal(sum, cases[i].gpus);
        assert_int_equal(gpus->containers, cases[i].containers);
        assert_int_equal(gpus->sidecars, cases[i].sidecars);
        assert_int_equal(gpus->inits, cases[i].inits);
        assert_string_equal(gpus->names[cases[i].containers - 1], cases[i].last);
        auto_read struct read other = {0};
        read_as(cases[i].text, "example.com/card", &other);
        assert_int_equal(other.pod.gpus.total, 0);
    }
}

static void test_amounts(void **state)
{
    (void)state;
    static const char *const numbers[] = {
        "-1",       "1.5",   "\"1.5\"", "\"-8\"", "1e30",
        "\"1e30\"", "\"\"",  "true",    "[]",     "\"99999999999999999999\"",
        "100000",   "\" 8\""};
    for (unsigned i = 0; i < GT_COUNT(numbers); i++) {
        char text[512];
        auto_read struct read read = {0};
        struct gt_pod_gpus gpus;
        gt_auto_err struct gt_err *err = NULL;
        snprintf(text, sizeof(text), POD("\"containers\":[" ASKS("main", "%s") "]"), numbers[i]);
        read_text(text, &read);
        assert_string_equal(read.pod.invalid, "its numbers of GPUs are invalid");
        assert_int_equal(read.pod.gpus.total, 0);
        const cJSON *spec = cJSON_GetObjectItem(read.json, "spec");
        assert_int_equal(gt_pod_gpus_read(spec, GT_RESOURCE_GPU, &gpus, &err), -EINVAL);
        if (strncmp(gt_err_text(err), "container main: " GT_RESOURCE_GPU ": ", 36) != 0)
            fail_msg("%s", gt_err_text(err));
    }
}

/* A pod of so many containers and init containers, of so many GPUs each. */
static int count(unsigned containers, unsigned inits, unsigned gpus, struct gt_pod_gpus *ret,
                 struct gt_err **err)
{
    static struct gt_pod_containers all;
    all.count = 0;
    for (unsigned i = 0; i < inits + containers; i++) {
        const struct gt_pod_container one = {.name = "c", .gpus = gpus, .init = i < inits};
        int r = gt_pod_containers_add(&all, &one, err);
        if (r < 0)
            return r;
    }
    return gt_pod_gpus_count(&all, ret, err);
}

static void test_limits(void **state)
{
    (void)state;
    struct gt_pod_gpus gpus = {0};
    assert_int_equal(count(17, 0, 1, &gpus, NULL), 0);
    assert_int_equal(gpus.containers, 17);
    assert_int_equal(count(64, 64, 1023, &gpus, NULL), 0);
    assert_int_equal(gpus.total, 65472);
    assert_int_equal(gpus.containers, 64);
    assert_int_equal(gpus.inits, 64);
    static const struct {
        unsigned containers, inits, gpus;
        const char *says;
    } cases[] = {
        {65, 0, 1, "more than 64 containers with GPUs"},
        {1, 65, 1, "more than 64 init containers with GPUs"},
        {65, 65, 1, "more than 128 containers with GPUs"},
        {64, 0, 1024, "65536 GPUs, the limit is 65535"},
        {2, 0, GT_POD_GPUS_MAX, "131070 GPUs, the limit is 65535"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(count(cases[i].containers, cases[i].inits, cases[i].gpus, &gpus, &err), -E2BIG);
        assert_string_equal(gt_err_text(err), cases[i].says);
        assert_int_equal(gpus.containers, 64); /* untouched */
    }
    assert_int_equal(count(500, 0, 0, &gpus, NULL), 0); /* those without GPUs are not counted */
    assert_int_equal(gpus.total, 0);
}

/* The order in which the kubelet serves them, which is that of the spec. */
static void test_requests(void **state)
{
    static const struct gt_pod_container list[] = {
        {.name = "i", .gpus = 2, .init = true},
        {.name = "s", .gpus = 1, .init = true, .sidecar = true},
        {.name = "none", .gpus = 0},
        {.name = "a", .gpus = 4},
        {.name = "c", .gpus = 8, .claimed = true},
    };
    struct gt_pod_containers all = {0};
    struct gt_pod_gpus gpus;
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(list); i++)
        assert_int_equal(gt_pod_containers_add(&all, &list[i], NULL), 0);
    assert_int_equal(gt_pod_gpus_count(&all, &gpus, NULL), 0);
    assert_int_equal(gpus.requests, 0x040182);
    assert_int_equal(count(1, 0, 4, &gpus, NULL), 0); /* one is the pod */
    assert_int_equal(gpus.requests, 0);
    assert_int_equal(count(8, 0, 2, &gpus, NULL), 0);
    assert_int_equal(gpus.requests, UINT64_C(0x0202020202020202));
    assert_int_equal(count(9, 0, 2, &gpus, NULL), 0);
    assert_int_equal(gpus.requests, GT_NUMA_TOO_MANY);
    assert_int_equal(count(2, 0, 128, &gpus, NULL), 0); /* larger than any node */
    assert_int_equal(gpus.requests, GT_NUMA_TOO_MANY);
}

/* Checked against another form of the rule: what runs at each moment. */
static void test_random_pods(void **state)
{
    (void)state;
    unsigned seed = 5;
    for (unsigned round = 0; round < 20000; round++) {
        struct gt_pod_containers all = {0};
        struct gt_pod_gpus gpus;
        unsigned inits = (unsigned)rand_r(&seed) % 5, others = (unsigned)rand_r(&seed) % 4, kept = 0,
                 peak = 0;
        for (unsigned i = 0; i < inits + others; i++) {
            struct gt_pod_container one = {.name = "c",
                                           .gpus = (unsigned)rand_r(&seed) % 9,
                                           .init = i < inits,
                                           .sidecar = i < inits && rand_r(&seed) % 2};
            assert_int_equal(gt_pod_containers_add(&all, &one, NULL), 0);
            if (kept + one.gpus > peak)
                peak = kept + one.gpus;
            if (!one.init || one.sidecar)
                kept += one.gpus;
        }
        assert_int_equal(gt_pod_gpus_count(&all, &gpus, NULL), 0);
        unsigned sum = 0;
        for (unsigned i = 0; i < gpus.containers; i++)
            sum += gpus.counts[i];
        if (gpus.total != peak || sum != peak)
            fail_msg("round %u: %u GPUs, containers have %u, expected %u", round, gpus.total, sum, peak);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_gpus_of_containers),
        cmocka_unit_test(test_amounts),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_random_pods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
