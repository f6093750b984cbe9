/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/names.h"
#include "scheduler-ext/kueue/admission.h"
#include "tests/unit/cache/cache_world.h"

/* What the object of a Workload says besides: two supernodes of four nodes of 8 GPUs. */

#define GROUP(size) "\"metax-tech.com/gpu-group-size\":\"" size "\""
#define TEMPLATE(annotations)                                                                                \
    "{\"metadata\":{\"annotations\":{" annotations                                                           \
    "}},\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\"}}}]}}"
#define JOB_SET(pods, annotations)                                                                           \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"x\",\"uid\":\"u\",\"annotations\":{" annotations         \
    "}},\"spec\":{\"suspend\":true,\"replicatedJobs\":[{\"name\":\"node\",\"replicas\":1,\"template\":{"     \
    "\"spec\":{\"parallelism\":" pods ",\"completions\":" pods ",\"template\":" TEMPLATE("") "}}}]}}"
#define WORKER_SET(group, more)                                                                              \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"x\",\"uid\":\"u\"},\"spec\":{\"replicas\":2,"            \
    "\"leaderWorkerTemplate\":{\"size\":4," more "\"workerTemplate\":" TEMPLATE(GROUP(group)) "}}}"

struct fixture {
    struct gt_cache *cache;
    struct gt_owners *owners;
    struct gt_admission *admission;
    char said[2048];
};

static bool decided(void *arg, const struct gt_workload *workload, const char *const checks[],
                    unsigned check_count, const struct gt_check_verdict *verdict)
{
    struct fixture *fixture = arg;
    (void)checks;
    assert_int_equal(check_count, 1);
    size_t len = strlen(fixture->said);
    snprintf(fixture->said + len, sizeof(fixture->said) - len, "%s %s: %s\n", workload->name,
             gt_check_state_name(verdict->state), verdict->message);
    return true;
}

static void setup(struct fixture *fixture)
{
    *fixture = (struct fixture){.cache = new_cache(NULL)};
    assert_int_equal(gt_owners_new(GT_RESOURCE_GPU, &fixture->owners, NULL), 0);
    const struct gt_admission_spec spec = {.cache = fixture->cache,
                                           .resource = GT_RESOURCE_GPU,
                                           .owners = fixture->owners,
                                           .decided = decided,
                                           .arg = fixture};
    for (unsigned n = 0; n < 8; n++) {
        char name[8];
        snprintf(name, sizeof(name), "s%u-n%u", n / 4, n % 4);
        give_plain_node(fixture->cache, name);
    }
    give_supernode(fixture->cache,
                   SUPERNODE(.name = "s0", .tier = 1, .members = {"s0-n0", "s0-n1", "s0-n2", "s0-n3"}));
    give_supernode(fixture->cache,
                   SUPERNODE(.name = "s1", .tier = 1, .members = {"s1-n0", "s1-n1", "s1-n2", "s1-n3"}));
    assert_int_equal(gt_admission_new(&spec, &fixture->admission, NULL), 0);
    gt_admission_add_check(fixture->admission, "ours");
}

static void teardown(struct fixture *fixture)
{
    gt_admission_free(fixture->admission);
    gt_owners_free(fixture->owners);
    gt_cache_free(fixture->cache);
}

static void give_object(struct fixture *fixture, enum gt_job_kind kind, const char *text)
{
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    gt_owners_put(fixture->owners, kind, json);
    cJSON_Delete(json);
}

/* Made from the object "x" of that kind, four pods. */
static void give_checked(struct fixture *fixture, const char *check, const char *name,
                         const char *api_version, const char *kind, const char *role, const char *template)
{
    char text[2048];
    snprintf(text, sizeof(text),
             "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"resourceVersion\":\"1\","
             "\"ownerReferences\":[{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"name\":\"x\"}]},\"spec\":{"
             "\"podSets\":[{\"name\":\"%s\",\"count\":4,\"template\":%s}]},\"status\":{\"conditions\":[{"
             "\"type\":\"QuotaReserved\",\"status\":\"True\",\"lastTransitionTime\":\"t\"}],"
             "\"admissionChecks\":[{\"name\":\"ours\",\"lastTransitionTime\":\"1970-01-01T00:00:00Z\","
             "\"state\":\"%s\"}]}}",
             name, api_version, kind, role, template, check);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    assert_int_equal(gt_admission_put(fixture->admission, json, true, NULL), 0);
    cJSON_Delete(json);
}

#define give_workload(fixture, ...) give_checked(fixture, "Pending", __VA_ARGS__)

static void decide(struct fixture *fixture, uint64_t now_ms, const char *says)
{
    gt_admission_decide(fixture->admission, now_ms, (int64_t)now_ms / 1000);
    assert_string_equal(fixture->said, says);
    fixture->said[0] = '\0';
}

static uint32_t held(const struct fixture *fixture)
{
    struct gt_admission_counters counters;
    gt_admission_counters(fixture->admission, &counters);
    return counters.held;
}

/* A size on the object itself is in no pod set; a TrainJob's is on the JobSet that it makes. */
static void test_sizes_of_the_object(void **state)
{
    static const char *const types[][2] = {{"jobset.x-k8s.io/v1alpha2", "JobSet"},
                                           {"trainer.kubeflow.org/v1alpha1", "TrainJob"}};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fixture fixture;
        setup(&fixture);
        give_object(&fixture, GT_JOB_JOBSET, JOB_SET("4", GROUP("32")));
        give_workload(&fixture, "a", types[i][0], types[i][1], "node", TEMPLATE(""));
        decide(&fixture, 1000, "a Ready: 1 unit of 32 GPUs fits: s1\n");
        assert_int_equal(held(&fixture), 1);
        give_object(&fixture, GT_JOB_JOBSET, JOB_SET("4", GROUP("24")));
        give_workload(&fixture, "b", types[i][0], types[i][1], "node", TEMPLATE(""));
        decide(&fixture, 2000, "b Rejected: the job's 32 GPUs are not a multiple of gpu-group-size 24\n");
        teardown(&fixture);
    }
}

/* Kueue 0.15 writes one pod into its Workload. */
static void test_pods_of_a_trainjob(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_object(&fixture, GT_JOB_JOBSET, JOB_SET("8", GROUP("32")));
    give_workload(&fixture, "a", "trainer.kubeflow.org/v1alpha1", "TrainJob", "node", TEMPLATE(""));
    decide(&fixture, 1000, "a Ready: 2 units of 32 GPUs fit: s1, s0\n");
    teardown(&fixture);
}

/* Kueue may have seen the object, or its JobSet may be made, a moment later. Then it is as it was. */
static void test_object_that_is_not_known(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_workload(&fixture, "a", "trainer.kubeflow.org/v1alpha1", "TrainJob", "node", TEMPLATE(""));
    decide(&fixture, 1000, "");
    give_object(&fixture, GT_JOB_JOBSET, JOB_SET("4", GROUP("32")));
    decide(&fixture, 2000, "a Ready: 1 unit of 32 GPUs fits: s1\n");
    gt_admission_remove(fixture.admission, "ns", "a");
    gt_owners_remove(fixture.owners, GT_JOB_JOBSET, "ns", "x");
    give_workload(&fixture, "b", "jobset.x-k8s.io/v1alpha2", "JobSet", "node", TEMPLATE(""));
    decide(&fixture, 3000, "");
    decide(&fixture, 8000, "b Ready: no gpu-group-size: there is nothing to check\n");
    give_workload(&fixture, "c", "jobset.x-k8s.io/v1alpha2", "JobSet", "node", TEMPLATE(GROUP("32")));
    decide(&fixture, 9000, "c Ready: 1 unit of 32 GPUs fits: s1\n");
    give_workload(&fixture, "d", "workload.codeflare.dev/v1beta2", "AppWrapper", "x-0", TEMPLATE(""));
    give_workload(&fixture, "e", "ray.io/v1", "RayJob", "head", TEMPLATE(""));
    decide(&fixture, 10000,
           "d Ready: no gpu-group-size: there is nothing to check\n"
           "e Ready: no gpu-group-size: there is nothing to check\n");
    teardown(&fixture);
}

/* A new leader finds it with its state, and holds its places. */
static void test_a_new_leader(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_object(&fixture, GT_JOB_JOBSET, JOB_SET("4", GROUP("32")));
    give_checked(&fixture, "Ready", "a", "jobset.x-k8s.io/v1alpha2", "JobSet", "node", TEMPLATE(""));
    decide(&fixture, 1000, "");
    assert_int_equal(held(&fixture), 1);
    teardown(&fixture);
}

static void test_subgroups(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_object(&fixture, GT_JOB_LEADER_WORKER_SET,
                WORKER_SET("subgroup", "\"subGroupPolicy\":{\"subGroupSize\":2},"));
    give_workload(&fixture, "a", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "main",
                  TEMPLATE(GROUP("subgroup")));
    decide(&fixture, 1000, "a Ready: 2 units of 16 GPUs fit: s1\n");
    teardown(&fixture);
}

static void give_planned(struct fixture *fixture, const char *name, const char *node, const char *labels)
{
    give_pod(fixture->cache, POD(.name = name, .gpus = 8, .labels = labels, .plan_node = node,
                                 .plan_mask = 0xff, .annotations = GROUP("32") ",", .job = "any"));
}

/* Places are held until the pods of that Workload have theirs, and no longer. */
static void test_holds_end(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_object(&fixture, GT_JOB_JOBSET, JOB_SET("4", GROUP("32")));
    give_workload(&fixture, "a", "trainer.kubeflow.org/v1alpha1", "TrainJob", "node", TEMPLATE(""));
    decide(&fixture, 1000, "a Ready: 1 unit of 32 GPUs fits: s1\n");
    for (unsigned n = 0; n < 4; n++) {
        char name[16], node[16], labels[512];
        snprintf(name, sizeof(name), "x-node-0-%u", n);
        snprintf(node, sizeof(node), "s1-n%u", n);
        snprintf(labels, sizeof(labels),
                 "\"jobset.sigs.k8s.io/jobset-name\":\"x\",\"jobset.sigs.k8s.io/replicatedjob-name\":"
                 "\"node\",\"jobset.sigs.k8s.io/job-index\":\"0\","
                 "\"batch.kubernetes.io/job-completion-index\":\"%u\"",
                 n);
        give_planned(&fixture, name, node, labels);
    }
    decide(&fixture, 2000, "");
    assert_int_equal(held(&fixture), 0);
    teardown(&fixture);
}

static void give_group(struct fixture *fixture, unsigned group, unsigned supernode, const char *workload)
{
    for (unsigned n = 0; n < 4; n++) {
        char text[2048];
        snprintf(
            text, sizeof(text),
            "{\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"ns\",\"name\":\"x-%u%s%s\",\"uid\":\"u-%u-%u\","
            "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"StatefulSet\",\"name\":\"x%s%s\","
            "\"uid\":\"s\",\"controller\":true}],\"labels\":{\"leaderworkerset.sigs.k8s.io/name\":\"x\","
            "\"leaderworkerset.sigs.k8s.io/worker-index\":\"%u\",\"kueue.x-k8s.io/pod-group-name\":\"%s\"},"
            "\"annotations\":{" GROUP(
                "group") "}},\"spec\":{\"nodeName\":\"s%u-n%u\",\"containers\":[{"
                         "\"name\":\"main\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\"}}}]},"
                         "\"status\":{\"phase\":\"Running\"}}",
            group, n ? "-" : "", n ? (const char *[]){"", "1", "2", "3"}[n] : "", group, n, n ? "-" : "",
            n ? (group ? "1" : "0") : "", n, workload, supernode, n);
        cJSON *json = cJSON_Parse(text);
        assert_non_null(json);
        give_json_pod(fixture->cache, json);
        cJSON_Delete(json);
    }
}

/* Each group of a LeaderWorkerSet is a Workload: one that runs ends its own hold only. */
static void test_holds_of_groups(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    give_object(&fixture, GT_JOB_LEADER_WORKER_SET, WORKER_SET("group", ""));
    for (unsigned group = 0; group < 2; group++) {
        give_workload(&fixture, group ? "b" : "a", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "main",
                      TEMPLATE(GROUP("group")));
        decide(&fixture, 1000,
               group ? "b Ready: 1 unit of 32 GPUs fits: s0\n" : "a Ready: 1 unit of 32 GPUs fits: s1\n");
    }
    assert_int_equal(held(&fixture), 2);
    give_group(&fixture, 0, 1, "a");
    decide(&fixture, 2000, "");
    assert_int_equal(held(&fixture), 1);
    give_group(&fixture, 1, 0, "b");
    decide(&fixture, 3000, "");
    assert_int_equal(held(&fixture), 0);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_the_object),
        cmocka_unit_test(test_pods_of_a_trainjob),
        cmocka_unit_test(test_object_that_is_not_known),
        cmocka_unit_test(test_a_new_leader),
        cmocka_unit_test(test_subgroups),
        cmocka_unit_test(test_holds_end),
        cmocka_unit_test(test_holds_of_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
