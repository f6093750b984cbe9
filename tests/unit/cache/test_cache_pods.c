/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/names.h"
#include "scheduler-ext/jobs/job.h"
#include "tests/unit/cache/cache_world.h"

/* Which pods are kept, what of them, and how they become jobs. */

static void test_kept(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_pod(cache,
             POD(.name = "a", .uid = "u1", .gpus = 8, .job = "set", .gated = true, .other_gate = true,
                 .created = "2026-03-01T12:30:15Z", .spec = "\"priority\":-5,\"priorityClassName\":\"low\",",
                 .labels = "\"app\":\"x\",\"apps.kubernetes.io/pod-index\":\"3\"",
                 .annotations = "\"" GT_ANNOTATION_GROUP "\":\"32\",\"other\":\"y\","));
    struct gt_cache_pod *pod = pod_of(cache, "a");
    assert_string_equal(pod->uid, "u1");
    assert_string_equal(pod->meta.namespace_, "ns");
    assert_string_equal(pod->meta.owner_kind, "ReplicaSet");
    assert_string_equal(pod->meta.owner_name, "set");
    assert_string_equal(pod->owner_api_version, "apps/v1");
    assert_string_equal(pod->owner_uid, "uid-of-set");
    assert_true(pod->meta.owner_controls);
    assert_string_equal(pod->scheduler, "volcano");
    assert_string_equal(pod->priority_class, "low");
    assert_int_equal(pod->priority, -5);
    assert_int_equal(pod->created_s, 1772368215);
    assert_int_equal(pod->gpus, 8);
    assert_int_equal(pod->meta.containers, 1);
    assert_string_equal(pod->container_names[0], "main");
    assert_int_equal(pod->state, GT_CACHE_GATED);
    assert_true(pod->other_gates);
    assert_false(pod->deleting);
    assert_null(pod->node_name);
    assert_int_equal(pod->node, GT_NONE);
    assert_string_equal(gt_pod_annotation(&pod->meta, GT_KEY_GROUP), "32");
    assert_string_equal(gt_pod_label(&pod->meta, GT_KEY_STATEFUL_SET_INDEX), "3");
    assert_int_equal(pod->meta.label_count, 1); /* nobody reads the others */
    assert_string_equal(pod->job->key, "ns/Owned/ReplicaSet/set");
    assert_ptr_equal(gt_cache_find_job(cache, "ns/Owned/ReplicaSet/set"), pod->job);
    assert_null(gt_cache_find_job(cache, "ns/Owned/ReplicaSet/other"));
    assert_null(gt_cache_find_pod(cache, "other", "a"));
}

static void test_changed_in_place(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    struct gt_cache_counters counters;
    give_pod(cache, POD(.name = "a", .gpus = 8, .gated = true));
    struct gt_cache_pod *pod = pod_of(cache, "a");
    give_pod(cache, POD(.name = "a", .gpus = 8));
    assert_ptr_equal(pod_of(cache, "a"), pod);
    assert_int_equal(pod->state, GT_CACHE_WAITING);
    give_pod(cache, POD(.name = "a", .gpus = 8, .node = "n1"));
    assert_int_equal(pod->state, GT_CACHE_BOUND);
    assert_string_equal(pod->node_name, "n1");
    assert_int_equal(pod->node, GT_NONE); /* not known */
    give_plain_node(cache, "n1");
    assert_int_equal(pod->node, gt_cluster_find_node(gt_cache_cluster(cache), "n1"));
    assert_int_equal(cluster_node(cache, "n1").available, 0);
    gt_cache_counters(cache, &counters);
    assert_int_equal(counters.pods[GT_CACHE_BOUND], 1);
    assert_int_equal(counters.pods[GT_CACHE_WAITING] + counters.pods[GT_CACHE_GATED], 0);
    uint64_t number = pod->job->number;
    give_pod(cache, POD(.name = "a", .uid = "another", .gpus = 2)); /* gone and new */
    assert_int_equal(pod_of(cache, "a")->state, GT_CACHE_WAITING);
    assert_int_not_equal(pod_of(cache, "a")->job->number, number);
    assert_int_equal(cluster_node(cache, "n1").available, 0xff);
    give_pod(cache, POD(.name = "a", .uid = "another", .gpus = 2, .phase = "Succeeded"));
    assert_null(gt_cache_find_pod(cache, "ns", "a"));
    gt_cache_counters(cache, &counters);
    assert_int_equal(counters.pods[GT_CACHE_WAITING], 0);
    assert_int_equal(counters.jobs, 0);
    gt_cache_pod_deleted(cache, "ns", "a");
}

static void give_containers(struct gt_cache *cache, const char *name, const char *spec)
{
    char text[4096];
    snprintf(text, sizeof(text),
             "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"u\"},\"spec\":{%s}}", name, spec);
    cJSON *object = cJSON_Parse(text);
    if (!object)
        fail_msg("no JSON: %s", text);
    give_json_pod(cache, object);
    cJSON_Delete(object);
}

#define ASKS(name, number)                                                                                   \
    "{\"name\":\"" name "\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":" number "}}}"
#define SIDECAR(name, number)                                                                                \
    "{\"name\":\"" name "\",\"restartPolicy\":\"Always\",\"resources\":{\"limits\":{\"metax-tech.com/"       \
    "gpu\":" number "}}}"

/* Kubernetes' rule: what a pod needs at most at one time. */
static void test_gpus_of_containers(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static const struct {
        const char *spec;
        unsigned gpus, containers;
        const char *last;
    } cases[] = {
        {"\"containers\":[" ASKS("a", "\"2\"") "," ASKS("b", "3") ",{\"name\":\"c\"}]", 5, 2, "b"},
        {"\"initContainers\":[" ASKS("i", "4") "],\"containers\":[" ASKS("a", "5") "]", 5, 1, "a"},
        {"\"initContainers\":[" ASKS("i", "8") "," ASKS("j", "7") "],\"containers\":[" ASKS("a", "5") "]", 8,
         2, "i"},
        {"\"initContainers\":[" SIDECAR("s", "2") "],\"containers\":[" ASKS("a", "5") "]", 7, 2, "a"},
        {"\"initContainers\":[" SIDECAR("s", "2") "," ASKS("i", "6") "],\"containers\":[" ASKS("a", "5") "]",
         8, 3, "i"},
        {"\"initContainers\":[" ASKS("i", "6") "," SIDECAR("s", "2") "],\"containers\":[" ASKS("a", "5") "]",
         7, 2, "a"},
        {"\"initContainers\":[" ASKS("i", "1") "],\"containers\":[{\"name\":\"a\"}]", 1, 1, "i"},
        {"\"containers\":[{\"name\":\"a\",\"resources\":{\"requests\":{\"metax-tech.com/gpu\":\"1\"}}}]", 1,
         1, "a"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        char name[16];
        snprintf(name, sizeof(name), "p%u", i);
        give_containers(cache, name, cases[i].spec);
        struct gt_cache_pod *pod = pod_of(cache, name);
        unsigned sum = 0;
        for (unsigned c = 0; c < pod->meta.containers; c++)
            sum += pod->meta.gpus[c];
        assert_int_equal(pod->gpus, cases[i].gpus);
        assert_int_equal(sum, cases[i].gpus);
        assert_int_equal(pod->meta.containers, cases[i].containers);
        assert_string_equal(pod->container_names[cases[i].containers - 1], cases[i].last);
    }
    assert_int_equal(refused(cache), 0);
}

static void test_refused(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static const char *const numbers[] = {
        "-1",     "1.5",   "\"1.5\"", "\"-8\"", "1e30", "\"\"", "true", "[]", "\"99999999999999999999\"",
        "100000", "\" 8\""};
    give_containers(cache, "p", "\"containers\":[" ASKS("a", "2") "]");
    for (unsigned i = 0; i < GT_COUNT(numbers); i++) {
        char spec[512];
        snprintf(spec, sizeof(spec),
                 "\"containers\":[{\"name\":\"a\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":%s}}}]",
                 numbers[i]);
        give_containers(cache, "p", spec);
        if (refused(cache) != i + 1)
            fail_msg("%s GPUs were not refused", numbers[i]);
        assert_int_equal(pod_of(cache, "p")->gpus, 2); /* as it was */
    }
    uint64_t before = refused(cache);
    give_containers(cache, "p", "\"containers\":{}");
    give_containers(cache, "p", "\"containers\":[" ASKS("a", "2") "],\"priority\":\"high\"");
    give_containers(cache, "p", "\"containers\":[" ASKS("a", "2") "],\"nodeSelector\":[]");
    give_containers(cache, "p", "\"containers\":[" ASKS("a", "2") "],\"nodeName\":5");
    give_json_pod(cache, NULL);
    assert_int_equal(refused(cache), before + 5);
    give_containers(cache, "q", "\"containers\":[" ASKS("a", "0") ",{\"name\":\"b\"}]"); /* asks for none */
    assert_null(gt_cache_find_pod(cache, "ns", "q"));
    assert_int_equal(refused(cache), before + 5);
}

/* Whatever jobs/ reads must be kept: the identity of the pod as the cache has it is that of all its labels.
 */
static void test_identities(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static const struct {
        const char *labels, *annotations, *job, *key, *role;
        enum gt_job_kind kind;
        uint32_t index;
    } cases[] = {
        {"\"training.kubeflow.org/job-name\":\"t\",\"training.kubeflow.org/replica-type\":\"worker\","
         "\"training.kubeflow.org/replica-index\":\"4\"",
         NULL, NULL, "ns/PyTorchJob/t", "worker", GT_JOB_PYTORCH, 4},
        {"\"volcano.sh/job-name\":\"v\"",
         "\"volcano.sh/task-spec\":\"master\",\"volcano.sh/task-index\":\"2\",", NULL, "ns/VolcanoJob/v",
         "master", GT_JOB_VOLCANO, 2},
        {"\"volcano.sh/task-spec\":\"w\",\"volcano.sh/task-index\":\"1\"", "\"volcano.sh/job-name\":\"v\",",
         NULL, "ns/VolcanoJob/v", "w", GT_JOB_VOLCANO, 1},
        {"\"elasticjob.dlrover/name\":\"e\",\"elasticjob.dlrover/replica-type\":\"worker\","
         "\"elasticjob.dlrover/rank-index\":\"7\"",
         NULL, NULL, "ns/ElasticJob/e", "worker", GT_JOB_ELASTIC, 7},
        {"\"batch.kubernetes.io/job-name\":\"b\"", "\"batch.kubernetes.io/job-completion-index\":\"6\",",
         NULL, "ns/Job/b", "", GT_JOB_INDEXED, 6},
        {"\"job-name\":\"b\",\"batch.kubernetes.io/job-completion-index\":\"5\"", NULL, NULL, "ns/Job/b", "",
         GT_JOB_INDEXED, 5},
        {"\"x\":\"y\"", NULL, "r", "ns/Owned/ReplicaSet/r", "", GT_JOB_OWNED, 0},
        {"\"x\":\"y\"", NULL, NULL, "ns/Pod/p7", "", GT_JOB_POD, 0},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        char name[16];
        snprintf(name, sizeof(name), "p%u", i);
        give_pod(cache, POD(.name = name, .gpus = 1, .labels = cases[i].labels,
                            .annotations = cases[i].annotations, .job = cases[i].job));
        struct gt_cache_pod *pod = pod_of(cache, name);
        assert_null(pod->identity_error);
        assert_int_equal(pod->identity.kind, cases[i].kind);
        assert_string_equal(pod->identity.role, cases[i].role);
        assert_int_equal(pod->identity.index, cases[i].index);
        assert_string_equal(pod->job->key, cases[i].key);
    }
    assert_int_equal(gt_cache_find_job(cache, "ns/VolcanoJob/v")->pod_count, 2);
    assert_int_equal(gt_cache_find_job(cache, "ns/Job/b")->pod_count, 2);
}

static void test_identity_refused(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_pod(cache, POD(.name = "a", .gpus = 1,
                        .labels = "\"volcano.sh/job-name\":\"v\",\"volcano.sh/task-spec\":\"w\","
                                  "\"volcano.sh/task-index\":\"x\""));
    struct gt_cache_pod *pod = pod_of(cache, "a");
    assert_non_null(strstr(pod->identity_error, "volcano.sh/task-index"));
    assert_string_equal(pod->job->key, "ns/Pod/a");
    give_pod(cache, POD(.name = "a", .gpus = 1,
                        .labels = "\"volcano.sh/job-name\":\"v\",\"volcano.sh/task-spec\":\"w\","
                                  "\"volcano.sh/task-index\":\"0\""));
    assert_null(pod_of(cache, "a")->identity_error);
    assert_string_equal(pod_of(cache, "a")->job->key, "ns/VolcanoJob/v");
    assert_null(gt_cache_find_job(cache, "ns/Pod/a"));
}

/* Invalid texts: a size is reported, and what cannot be a name is left out. */
static void test_long_texts(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static char text[20000];
    int at = snprintf(text, sizeof(text), "\"" GT_ANNOTATION_GROUP "\":\"");
    memset(text + at, '9', 10000);
    memcpy(text + at + 10000, "\",", 3);
    give_pod(cache, POD(.name = "a", .gpus = 1, .annotations = text));
    struct gt_cache_pod *pod = pod_of(cache, "a");
    struct gt_job_texts said = {.where = "pod a", .of = {gt_pod_annotation(&pod->meta, GT_KEY_GROUP)}};
    struct gt_job_sizes sizes;
    assert_true(gt_job_sizes_read(&said, 1, &sizes, NULL) < 0);
    at = snprintf(text, sizeof(text), "\"volcano.sh/job-name\":\"");
    memset(text + at, 'v', 10000);
    memcpy(text + at + 10000, "\",", 3);
    give_pod(cache, POD(.name = "b", .gpus = 1, .annotations = text));
    assert_int_equal(pod_of(cache, "b")->identity.kind, GT_JOB_POD);
}

static void test_walks(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    size_t empty = heap_bytes();
    for (unsigned i = 0; i < 1000; i++) {
        char name[16], job[16];
        snprintf(name, sizeof(name), "p%u", i);
        snprintf(job, sizeof(job), "j%u", i % 10);
        give_pod(cache, POD(.name = name, .gpus = 1, .job = job, .node = i % 2 ? "n1" : NULL));
    }
    unsigned pods = 0, jobs = 0, of_jobs = 0;
    for (struct gt_cache_pod *pod = gt_cache_next_pod(cache, NULL); pod; pod = gt_cache_next_pod(cache, pod))
        pods++;
    for (struct gt_cache_job *job = gt_cache_next_job(cache, NULL); job;
         job = gt_cache_next_job(cache, job)) {
        jobs++;
        uint32_t counted = 0;
        for (struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
            assert_ptr_equal(pod->job, job);
            counted++;
        }
        assert_int_equal(counted, job->pod_count);
        of_jobs += counted;
    }
    assert_int_equal(pods, 1000);
    assert_int_equal(jobs, 10);
    assert_int_equal(of_jobs, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "p%u", (i * 7) % 1000);
        gt_cache_pod_deleted(cache, "ns", name);
    }
    assert_null(gt_cache_next_pod(cache, NULL));
    assert_null(gt_cache_next_job(cache, NULL));
    assert_true(heap_bytes() < empty + 250000); /* what is left are tables */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_changed_in_place),
        cmocka_unit_test(test_gpus_of_containers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_identity_refused),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
