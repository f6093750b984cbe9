/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/kinds/kind.h"
#include "base/err.h"
#include "base/json.h"
#include "scheduler-ext/owners/owners.h"
#include "tests/unit/placement/example.h"

/* What the objects that make pods say of groups. */

#define RESOURCE "metax-tech.com/gpu"
#define POD(gpus, annotations)                                                                               \
    "{\"metadata\":{\"annotations\":{" annotations "}},\"spec\":{\"containers\":[{\"name\":\"m\","           \
    "\"resources\":{\"limits\":{\"" RESOURCE "\":" gpus "}}}]}}"
#define GROUP(value) "\"metax-tech.com/gpu-group-size\":" value

static cJSON *parse(const char *text)
{
    cJSON *json = cJSON_Parse(text);
    if (!json)
        fail_msg("the test wrote no JSON: %s", text);
    return json;
}

static struct gt_owner *read_owner(enum gt_job_kind kind, const char *text)
{
    struct gt_owner *owner = NULL;
    gt_auto_err struct gt_err *err = NULL;
    cJSON *json = parse(text);
    if (gt_owner_read(kind, json, RESOURCE, &owner, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    cJSON_Delete(json);
    return owner;
}

/* A replicated job of a JobSet: `jobs` Jobs of `pods` pods each. */
#define REPLICATED(name, jobs, pods, template)                                                               \
    "{\"name\":\"" name "\",\"replicas\":" jobs ",\"template\":{\"spec\":{\"parallelism\":" pods             \
    ",\"template\":" template "}}}"
#define JOBSET(more, jobs) "{\"spec\":{" more "\"replicatedJobs\":[" jobs "]}}"
#define LWS(more, size, leader)                                                                              \
    "{\"spec\":{" more "\"leaderWorkerTemplate\":{\"size\":" size "," leader                                 \
    "\"workerTemplate\":" POD("8", GROUP("\"32\"")) "}}}"

#define RAY_GROUP(name, more, template)                                                                      \
    "{\"groupName\":\"" name "\",\"minReplicas\":0," more "\"template\":" template "}"
#define RAY(more, head, groups)                                                                              \
    "{" more "\"headGroupSpec\":{\"template\":" POD(head, "") "},\"workerGroupSpecs\":[" groups "]}"

#define WORKERS(roles, count)                                                                                \
    "{\"spec\":{\"" roles "\":{\"Worker\":{\"replicas\":" count ",\"template\":" POD("8", GROUP("\"32\"")) "}"

/* Of kinds whose example is not as test_every_kind() wants it, or is another kind's. */
static const char *manual[GT_JOB_CUSTOM] = {
    [GT_JOB_TF] = WORKERS("tfReplicaSpecs", "7") ",\"Chief\":{\"template\":" POD(
        "8", "") "},\"PS\":{\"template\":" POD("0", "") "}}}}",
    [GT_JOB_XGBOOST] =
        WORKERS("xgbReplicaSpecs", "7") ",\"Master\":{\"replicas\":1,\"template\":" POD("8", "") "}}}}",
    [GT_JOB_PADDLE] = WORKERS("paddleReplicaSpecs", "8") "}}}",
    [GT_JOB_JAX] = WORKERS("jaxReplicaSpecs", "8") "}}}",
    [GT_JOB_MPI] = WORKERS("mpiReplicaSpecs", "8") ",\"Launcher\":{\"template\":" POD("0", "") "}}}}",
    [GT_JOB_MPI_V1] = WORKERS("mpiReplicaSpecs", "8") ",\"Launcher\":{\"template\":" POD("0", "") "}}}}",
    [GT_JOB_PYTORCH] = "{\"spec\":{\"pytorchReplicaSpecs\":{\"Master\":{\"replicas\":1,\"template\":" POD(
        "8", GROUP("\"32\"")) "},\"Worker\":{\"replicas\":7,\"template\":" POD("8", "") "}}}}",
    [GT_JOB_VOLCANO] =
        "{\"spec\":{\"plugins\":{\"pytorch\":[\"--master=master\",\"--worker=worker\",\"--port=23456\"]},"
        "\"tasks\":[{\"replicas\":1,\"name\":\"master\",\"template\":" POD("8", GROUP("\"32\"")) //
    "},{\"replicas\":7,\"name\":\"worker\",\"template\":" POD("8", "") "}]}}",
    [GT_JOB_JOBSET] = JOBSET("", REPLICATED("load", "1", "1", POD("0", "")) "," REPLICATED(
                                     "node", "2", "4", POD("8", GROUP("\"32\"")))),
    [GT_JOB_LEADER_WORKER_SET] = LWS("", "8", ""),
    [GT_JOB_RAY_JOB] = "{\"spec\":{\"rayClusterSpec\":" RAY(
        "\"enableInTreeAutoscaling\":true,", "0",
        RAY_GROUP("w", "\"replicas\":2,\"numOfHosts\":4,", POD("8", GROUP("\"32\"")))) "}}",
    [GT_JOB_RAY_SERVICE] = "{\"spec\":{\"rayClusterConfig\":" RAY(
        "", "0", RAY_GROUP("w", "\"replicas\":8,", POD("8", GROUP("\"32\"")))) "}}",
    [GT_JOB_INDEXED] = "{\"spec\":{\"completionMode\":\"Indexed\",\"parallelism\":8,\"completions\":8,"
                       "\"template\":" POD("8", GROUP("\"32\"")) "}}",
    [GT_JOB_STATEFULSET] = "{\"spec\":{\"replicas\":8,\"template\":" POD("8", GROUP("\"32\"")) "}}",
    [GT_JOB_REPLICASET] = "{\"spec\":{\"replicas\":8,\"template\":" POD("8", GROUP("32")) "}}",
};

static const char *object_of(int kind)
{
    if (manual[kind])
        return manual[kind];
    gt_auto_json cJSON *json = example_of(gt_owner_type((enum gt_job_kind)kind)->kind);
    cJSON_DeleteItemFromObject(json, "metadata"); /* tests write one */
    return manual[kind] = cJSON_PrintUnformatted(json);
}

/* Every kind of the manual, and the others: 8 pods of 8 GPUs, two units of 4 pods. */
static void test_every_kind(void **state)
{
    (void)state;
    for (int kind = 0; kind < GT_JOB_CUSTOM; kind++) {
        gt_auto_owner struct gt_owner *owner = read_owner((enum gt_job_kind)kind, object_of(kind));
        gt_auto_job struct gt_job *job = NULL;
        gt_auto_err struct gt_err *err = NULL;
        assert_non_null(owner);
        assert_true(gt_owner_is_grouped(owner));
        if (gt_owner_check(owner, &job, &err) < 0)
            fail_msg("%s: %s", gt_owner_type((enum gt_job_kind)kind)->kind, gt_err_text(err));
        assert_int_equal(job->member_count, 8);
        assert_int_equal(job->units.count, 2);
        assert_int_equal(job->units.units[1].pods, 4);
        assert_int_equal(owner->sequential, kind == GT_JOB_STATEFULSET);
    }
}

static void count_template(void *arg, cJSON *spec)
{
    struct gt_pod_gpus gpus;
    assert_int_equal(gt_pod_gpus_read(spec, RESOURCE, &gpus, NULL), 0);
    *(unsigned *)arg += gpus.total > 0;
}

/* Who looks at all templates of an object sees those from which its pods are made. */
static void test_each_template(void **state)
{
    (void)state;
    for (int kind = 0; kind < GT_JOB_CUSTOM; kind++) {
        gt_auto_owner struct gt_owner *owner = read_owner((enum gt_job_kind)kind, object_of(kind));
        unsigned have = 0, seen = 0;
        cJSON *json = parse(object_of(kind));
        for (const struct gt_owner *job = owner; job; job = job->next)
            for (unsigned i = 0; i < job->spec.count; i++)
                have += job->spec.templates[i].containers > 0;
        gt_owner_each_template(json, count_template, &seen);
        cJSON_Delete(json);
        if (kind == GT_JOB_LEADER_WORKER_SET)
            have--; /* without a leader's, its pods are made from that of the workers */
        if (seen != have)
            fail_msg("%s: %u templates with GPUs, %u seen", gt_owner_type((enum gt_job_kind)kind)->kind, have,
                     seen);
    }
}

/* The head and each group of workers are a job of their own, with a size of its own. */
static void test_ray(void **state)
{
    (void)state;
    struct gt_owner *owner =
        read_owner(GT_JOB_RAY_CLUSTER,
                   "{\"metadata\":{\"uid\":\"u\"},\"spec\":" RAY(
                       "\"enableInTreeAutoscaling\":true,", "2",
                       RAY_GROUP("big", "\"replicas\":9,\"maxReplicas\":1,\"numOfHosts\":4,",
                                 POD("8", GROUP("\"32\""))) ","                             //
                       RAY_GROUP("none", "\"replicas\":3,", POD("0", "")) ","               //
                       RAY_GROUP("small", "\"replicas\":1,", POD("8", GROUP("\"16\""))) "," //
                       RAY_GROUP("off", "\"suspend\":true,\"replicas\":3,", POD("8", GROUP("\"8\"")))) "}");
    static const struct {
        const char *role, *text;
        unsigned pods, units;
    } want[] = {{"headgroup", NULL, 1, 0},
                {"big", NULL, 4, 1},
                {"small", "the job's 8 GPUs are not a multiple of gpu-group-size 16", 1, 0},
                {"off", NULL, 0, 0}};
    const struct gt_owner *at = owner;
    for (unsigned i = 0; i < GT_COUNT(want); i++, at = at->next) {
        gt_auto_job struct gt_job *job = NULL;
        gt_auto_err struct gt_err *err = NULL;
        gt_auto_buf struct gt_buf key = GT_BUF(256), wanted = GT_BUF(256);
        assert_non_null(at);
        assert_string_equal(at->role, want[i].role);
        assert_int_equal(at->spec.templates[0].replicas, want[i].pods);
        if (gt_owner_check(at, &job, &err) < 0)
            assert_string_equal(gt_err_text(err), want[i].text ? want[i].text : "");
        else
            assert_int_equal(job->units.count, want[i].units);
        assert_int_equal(job == NULL, want[i].text != NULL);
        assert_true(gt_owner_job_key(GT_JOB_RAY_CLUSTER, owner, "ns", "x", i, &key));
        gt_buf_printf(&wanted, "ns/RayCluster/x.%s", want[i].role);
        assert_string_equal(key.data, wanted.data);
    }
    assert_null(at);
    gt_owner_free(owner);
}

/* Autoscaled one by one, most of the time a part of a unit would be there. */
static void test_ray_step(void **state)
{
    (void)state;
    gt_auto_owner struct gt_owner *owner =
        read_owner(GT_JOB_RAY_CLUSTER,
                   "{\"spec\":" RAY("\"enableInTreeAutoscaling\":true,", "0",
                                    RAY_GROUP("w", "\"replicas\":8,", POD("8", GROUP("\"32\"")))) "}");
    gt_auto_job struct gt_job *job = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_true(gt_owner_check(owner, &job, &err) < 0);
    assert_string_equal(gt_err_text(err),
                        "it is scaled by 1 pod at a time, which is not a multiple of the 4 pods of a unit");
}

/* Its launcher has rank 0, and the MPI operator numbers the workers from 1. The Job of the launcher is no
 * job. */
static void test_launcher_as_worker(void **state)
{
    (void)state;
    static const char workers[] = "\"mpiReplicaSpecs\":{\"Worker\":{\"replicas\":7,\"template\":" POD(
        "8", GROUP("\"32\"")) "},\"Launcher\":{\"template\":" POD("8", GROUP("\"32\"")) "}}";
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 12);
    gt_buf_printf(&text, "{\"spec\":{\"runLauncherAsWorker\":true,%s}}", workers);
    gt_auto_owner struct gt_owner *owner = read_owner(GT_JOB_MPI, text.data);
    gt_auto_job struct gt_job *job = NULL;
    assert_int_equal(gt_owner_check(owner, &job, NULL), 0);
    assert_int_equal(job->units.count, 2);
    assert_non_null(owner->spec.master);
    assert_string_equal(owner->spec.master, "launcher");
    assert_int_equal(owner->spec.templates[0].first, 1);
    assert_int_equal(owner->spec.templates[1].first, 0);

    static const char launcher[] =
        "{\"metadata\":{\"name\":\"demo-launcher\",\"labels\":{\"app\":\"demo\"}},\"spec\":{\"template\":{"
        "\"metadata\":{\"labels\":{%s},\"annotations\":{" GROUP(
            "\"32\"") "}},\"spec\":{\"containers\":[{"
                      "\"resources\":{\"limits\":{\"metax-tech.com/gpu\":8}}}]}}}}";
    gt_auto_buf struct gt_buf of_operator = GT_BUF(1 << 12), by_itself = GT_BUF(1 << 12);
    gt_buf_printf(&of_operator, launcher, "\"training.kubeflow.org/job-name\":\"demo\"");
    gt_buf_printf(&by_itself, launcher, "");
    assert_null(read_owner(GT_JOB_INDEXED, of_operator.data));
    gt_auto_owner struct gt_owner *single = read_owner(GT_JOB_INDEXED, by_itself.data);
    assert_non_null(single);
}

/* An annotation of the object itself counts for all templates, unless one of them says otherwise. */
static void test_own_metadata(void **state)
{
    (void)state;
    for (int kind = 0; kind < GT_JOB_CUSTOM; kind++) {
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
        static const char *const in_template[] = {GROUP("\"32\""), GROUP("32")};
        const char *from = object_of(kind);
        gt_buf_puts(&text,
                    "{\"metadata\":{\"uid\":\"u\",\"generation\":1,\"annotations\":{" GROUP("\"16\"") //
                    ",\"metax-tech.com/on-unplaced\":\"recreate\"}}");
        for (const char *at = from + 1; *at;) {
            size_t skip = 0;
            for (unsigned i = 0; i < 2 && !skip; i++)
                skip = strncmp(at, in_template[i], strlen(in_template[i])) == 0 ? strlen(in_template[i]) : 0;
            if (at == from + 1)
                gt_buf_puts(&text, ",");
            if (!skip)
                gt_buf_add(&text, at, 1);
            at += skip ? skip : 1;
        }
        gt_auto_owner struct gt_owner *owner = read_owner((enum gt_job_kind)kind, text.data);
        gt_auto_job struct gt_job *job = NULL;
        assert_true(gt_owner_is_grouped(owner));
        assert_int_equal(gt_owner_check(owner, &job, NULL), 0);
        assert_int_equal(job->units.count, 4);
        assert_true(job->sizes.recreate);
    }
    static const char both[] =
        "{\"metadata\":{\"annotations\":{" GROUP("\"16\"") "}},\"spec\":{\"replicas\":8,"
                                                           "\"template\":" POD("8", GROUP("\"32\"")) "}}";
    gt_auto_owner struct gt_owner *owner = read_owner(GT_JOB_STATEFULSET, both);
    assert_string_equal(owner->spec.templates[0].texts.of[GT_KEY_GROUP], "32");
}

/* It is not part of the object's generation, and its rules are checked again nevertheless. */
static void test_own_metadata_changes(void **state)
{
    (void)state;
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"set\",\"uid\":\"u\",\"generation\":1,"
        "\"annotations\":{%s}},\"spec\":{\"replicas\":8,\"template\":" POD("8", "") "}}";
    static const struct {
        const char *annotation, *broken;
    } steps[] = {{"", NULL},
                 {GROUP("\"24\""), "the job's 64 GPUs are not a multiple of gpu-group-size 24"},
                 {GROUP("\"16\""), NULL},
                 {"\"metax-tech.com/on-unplaced\":\"x\"",
                  "on-unplaced of the template: \"x\" is none of report, recreate"}};
    gt_auto_owners struct gt_owners *owners = NULL;
    assert_int_equal(gt_owners_new(RESOURCE, &owners, NULL), 0);
    for (size_t i = 0; i < GT_COUNT(steps); i++) {
        char object[1024];
        snprintf(object, sizeof(object), text, steps[i].annotation);
        cJSON *json = parse(object);
        gt_owners_put(owners, GT_JOB_STATEFULSET, json);
        cJSON_Delete(json);
        const struct gt_owner *owner = gt_owners_find(owners, GT_JOB_STATEFULSET, "ns", "set", NULL);
        const char *broken = owner ? owner->broken : NULL;
        if (!broken != !steps[i].broken || (broken && strcmp(broken, steps[i].broken) != 0))
            fail_msg("step %zu: %s", i, broken ? broken : "no rule is broken");
    }
}

static void test_volcano_master(void **state)
{
    (void)state;
    gt_auto_owner struct gt_owner *owner = read_owner(
        GT_JOB_VOLCANO, "{\"spec\":{\"plugins\":{\"pytorch\":[\"--master=chief\"]},\"tasks\":["
                        "{\"replicas\":3,\"name\":\"aux\",\"template\":" POD("8", GROUP("\"8\"")) //
        "},{\"replicas\":1,\"name\":\"chief\",\"template\":" POD("8", "") "}]}}");
    assert_string_equal(owner->spec.master, "chief");
    gt_auto_job struct gt_job *job = NULL;
    assert_int_equal(gt_owner_check(owner, &job, NULL), 0);
    assert_int_equal(job->member_count, 4);
}

static void check_broken(enum gt_job_kind kind, const char *text, const char *says)
{
    gt_auto_owner struct gt_owner *owner = read_owner(kind, text);
    gt_auto_job struct gt_job *job = NULL;
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_owner_check(owner, &job, &err);
    if (says ? r >= 0 || !strstr(gt_err_text(err), says) : r < 0)
        fail_msg("%s: %d, %s", text, r, r < 0 ? gt_err_text(err) : "no rule is broken");
}

/* Ranks in the order of its Jobs, whatever their names; a unit in one replicated job, unless the size is the
 * JobSet's own annotation. */
static void test_jobset(void **state)
{
    (void)state;
    static const char ordered[] = JOBSET("\"startupPolicy\":{\"startupPolicyOrder\":\"InOrder\"},",
                                         REPLICATED("driver", "1", "1", POD("8", "")) "," REPLICATED(
                                             "worker", "3", "1", POD("8", GROUP("8"))));
    gt_auto_owner struct gt_owner *owner = read_owner(GT_JOB_JOBSET, ordered);
    gt_auto_job struct gt_job *job = NULL;
    assert_int_equal(gt_owner_check(owner, &job, NULL), 0);
    assert_true(owner->sequential);
    assert_string_equal(job->members[0].template->role, "driver");
    assert_int_equal(job->units.count, 4);
    static const char jobs[] = REPLICATED("driver", "1", "1", POD("8", "")) "," //
        REPLICATED("node", "3", "1", POD("8", GROUP("\"32\"")));
    char text[2048];
    snprintf(text, sizeof(text), JOBSET("", "%s"), jobs);
    check_broken(GT_JOB_JOBSET, text, "the 8 GPUs of driver are not a multiple of gpu-group-size 32");
    static const char plain[] = REPLICATED("driver", "1", "1", POD("8", "")) "," //
        REPLICATED("node", "3", "1", POD("8", ""));
    snprintf(text, sizeof(text),
             "{\"metadata\":{\"annotations\":{" GROUP("\"32\"") "}},\"spec\":{\"replicatedJobs\":[%s]}}",
             plain);
    check_broken(GT_JOB_JOBSET, text, NULL);
    check_broken(
        GT_JOB_JOBSET,
        JOBSET(
            "",
            "{\"name\":\"n\",\"template\":{\"spec\":{\"parallelism\":2,\"completions\":4,\"template\":" POD(
                "8", GROUP("8")) "}}}"),
        "completions of n: 4 is more than its parallelism, 2");
    /* Its Jobs are no jobs by themselves. */
    cJSON *part = parse(
        "{\"metadata\":{\"labels\":{\"jobset.sigs.k8s.io/jobset-name\":\"x\"}},\"spec\":{\"template\":" //
        POD("8", GROUP("8")) "}}");
    struct gt_owner *none = NULL;
    assert_int_equal(gt_owner_read(GT_JOB_INDEXED, part, RESOURCE, &none, NULL), 0);
    assert_null(none);
    cJSON_Delete(part);
}

/* A group is a job: its leader, and workers from 1. "group": it is one unit. */
static void test_leader_worker_set(void **state)
{
    (void)state;
    gt_auto_owner struct gt_owner *owner = read_owner(
        GT_JOB_LEADER_WORKER_SET,
        "{\"spec\":{\"replicas\":3,\"startupPolicy\":\"LeaderReady\",\"leaderWorkerTemplate\":{\"size\":5,"
        "\"leaderTemplate\":" POD("0", "") ",\"workerTemplate\":" POD("8", GROUP("\"group\"")) "}}}");
    gt_auto_job struct gt_job *job = NULL;
    assert_int_equal(gt_owner_check(owner, &job, NULL), 0);
    assert_true(owner->sequential);
    assert_int_equal(owner->jobs, 6);
    assert_int_equal(owner->spec.templates[1].first, 1);
    assert_int_equal(job->member_count, 4);
    assert_int_equal(job->members[0].rank, 1);
    assert_int_equal(job->units.count, 1);
    assert_int_equal(job->sizes.group, 32);
    check_broken(GT_JOB_LEADER_WORKER_SET, LWS("", "5", ""),
                 "the group's 40 GPUs are not a multiple of gpu-group-size 32");
    check_broken(GT_JOB_LEADER_WORKER_SET,
                 LWS("", "4", "\"leaderTemplate\":" POD("8", GROUP("\"group\"")) ","),
                 "gpu-group-size differs within the job: group on leader, 32 on worker");
}

static void test_parallel_statefulset(void **state)
{
    (void)state;
    gt_auto_owner struct gt_owner *owner =
        read_owner(GT_JOB_STATEFULSET,
                   "{\"spec\":{\"podManagementPolicy\":\"Parallel\",\"template\":" POD("1", "") "}}");
    assert_false(owner->sequential);
    assert_int_equal(owner->spec.templates[0].replicas, 1);
}

static void test_statefulset_with_ordinals(void **state)
{
    (void)state;
    gt_auto_owner struct gt_owner *owner = read_owner(
        GT_JOB_STATEFULSET, "{\"spec\":{\"ordinals\":{\"start\":5},\"template\":" POD("1", "") "}}");
    assert_int_equal(owner->spec.templates[0].first, 5);
}

static void check_ended(enum gt_job_kind kind, const char *spec, const char *status, uint32_t count,
                        const char *ranks)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 12), which = GT_BUF(1 << 12);
    gt_buf_printf(&text, "{\"spec\":%s,\"status\":%s}", spec, status);
    gt_auto_owner struct gt_owner *owner = read_owner(kind, text.data);
    for (uint32_t rank = 0; rank < 200; rank++)
        if (gt_owner_has_ended(owner, rank))
            gt_buf_printf(&which, "%s%u", which.len ? " " : "", rank);
    assert_int_equal(owner->ended, count);
    assert_string_equal(which.data ? which.data : "", ranks ? ranks : "");
    assert_int_equal(owner->ended_at != NULL, ranks != NULL);
}

static void check_stopped(enum gt_job_kind kind, const char *members, bool stopped)
{
    char text[4096];
    snprintf(text, sizeof(text), "%.*s,%s}", (int)strlen(object_of(kind)) - 1, object_of(kind), members);
    gt_auto_owner struct gt_owner *owner = read_owner(kind, text);
    if (owner->stopped != stopped)
        fail_msg("%s: %d", members, owner->stopped);
}

static void test_owners_that_make_no_pods(void **state)
{
    static const char aborted[] = "\"status\":{\"state\":{\"phase\":\"Aborted\"}}";
    static const char failed[] = "\"status\":{\"conditions\":[{\"type\":\"Suspended\",\"status\":\"False\"},"
                                 "{\"type\":\"Failed\",\"status\":\"True\"}]}";
    (void)state;
    for (int i = 0; i < GT_JOB_CUSTOM; i++) {
        enum gt_job_kind kind = (enum gt_job_kind)i;
        check_stopped(kind, "\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}", true);
        check_stopped(kind, "\"metadata\":{}", false);
        check_stopped(kind, aborted, kind == GT_JOB_VOLCANO);
        check_stopped(kind, failed, gt_kind_of(kind)->ended);
    }
    static const struct {
        enum gt_job_kind kind;
        const char *succeeded;
    } ends[] = {{GT_JOB_INDEXED, "Complete"}, {GT_JOB_JOBSET, "Completed"}, {GT_JOB_PYTORCH, "Succeeded"}};
    for (size_t i = 0; i < GT_COUNT(ends); i++) {
        char status[128];
        snprintf(status, sizeof(status),
                 "\"status\":{\"conditions\":[{\"type\":\"%s\",\"status\":\"True\"}]}", ends[i].succeeded);
        check_stopped(ends[i].kind, status, true);
    }
    check_stopped(GT_JOB_VOLCANO, "\"status\":{\"state\":{\"phase\":\"Running\"}}", false);
    check_stopped(GT_JOB_INDEXED,
                  "\"status\":{\"conditions\":[{\"type\":\"Complete\",\"status\":\"False\"}]}", false);
    gt_auto_owner struct gt_owner *suspended =
        read_owner(GT_JOB_INDEXED, "{\"spec\":{\"suspend\":true,\"template\":" POD("8", "") "}}");
    gt_auto_owner struct gt_owner *pytorch = read_owner(
        GT_JOB_PYTORCH, "{\"spec\":{\"runPolicy\":{\"suspend\":true},\"pytorchReplicaSpecs\":{\"Worker\":"
                        "{\"template\":" POD("8", "") "}}}}");
    assert_true(suspended->stopped && pytorch->stopped);
}

static void test_pods_that_have_ended(void **state)
{
    (void)state;
    static const char job[] = "{\"parallelism\":100,\"completions\":100,\"template\":" POD("8", "") "}";
    static const char pytorch[] = "{\"pytorchReplicaSpecs\":{\"Worker\":{\"template\":" POD("8", "") "}}}";
    check_ended(GT_JOB_INDEXED, job, "{}", 0, NULL);
    check_ended(GT_JOB_INDEXED, job, "{\"succeeded\":3}", 3, NULL); /* not Indexed */
    check_ended(GT_JOB_INDEXED, job, "{\"succeeded\":6,\"completedIndexes\":\"0-2,5,63-64\"}", 6,
                "0 1 2 5 63 64");
    check_ended(GT_JOB_INDEXED, job,
                "{\"succeeded\":1,\"completedIndexes\":\"7\",\"failedIndexes\":\"3,99\"}", 1, "3 7 99");
    /* What is invalid ends the list. */
    check_ended(GT_JOB_INDEXED, job, "{\"completedIndexes\":\"1,100\"}", 0, "1");
    check_ended(GT_JOB_INDEXED, job, "{\"completedIndexes\":\"1,0-2\"}", 0, "1");
    check_ended(GT_JOB_INDEXED, job, "{\"completedIndexes\":\"1,4-2,6\"}", 0, "1");
    check_ended(GT_JOB_INDEXED, job, "{\"completedIndexes\":\"1-99999999999999999999\"}", 0, "");
    check_ended(GT_JOB_INDEXED, job, "{\"completedIndexes\":\"-1\"}", 0, "");
    check_ended(GT_JOB_INDEXED, job, "{\"succeeded\":-1,\"completedIndexes\":\"x\"}", 0, "");
    check_ended(
        GT_JOB_PYTORCH, pytorch,
        "{\"replicaStatuses\":{\"Master\":{\"succeeded\":1},\"Worker\":{\"active\":3,\"succeeded\":2}}}", 3,
        NULL);
    check_ended(GT_JOB_VOLCANO, "{\"tasks\":[{\"template\":" POD("8", "") "}]}",
                "{\"running\":1,\"succeeded\":2}", 2, NULL);
    check_ended(GT_JOB_JOBSET,
                "{\"replicatedJobs\":[" REPLICATED("load", "1", "1", POD("0", "")) "," REPLICATED(
                    "node", "3", "4", POD("8", "")) "]}",
                "{\"replicatedJobsStatus\":[{\"name\":\"load\",\"succeeded\":1},{\"name\":\"node\","
                "\"succeeded\":2}]}",
                8, NULL);
}

static void test_owner_without_gpus_is_none(void **state)
{
    (void)state;
    assert_null(read_owner(GT_JOB_REPLICASET, "{\"spec\":{\"template\":" POD("0", GROUP("\"8\"")) "}}"));
    assert_null(read_owner(GT_JOB_VOLCANO, "{\"spec\":{}}"));
}

static void check_refused(enum gt_job_kind kind, const char *text, const char *sentence)
{
    gt_auto_owner struct gt_owner *owner = read_owner(kind, text);
    gt_auto_err struct gt_err *err = NULL;
    struct gt_job *job = NULL;
    assert_non_null(owner);
    assert_true(gt_owner_check(owner, &job, &err) < 0);
    if (strcmp(gt_err_text(err), sentence) != 0)
        fail_msg("'%s', expected '%s'", gt_err_text(err), sentence);
}

static void test_rules(void **state)
{
    (void)state;
    check_refused(GT_JOB_STATEFULSET,
                  "{\"spec\":{\"replicas\":4,\"template\":" POD("8", GROUP("\"20\"")) "}}",
                  "gpu-group-size 20 is not a multiple of the pod's 8 GPUs");
    check_refused(GT_JOB_STATEFULSET,
                  "{\"spec\":{\"replicas\":5,\"template\":" POD("8", GROUP("\"32\"")) "}}",
                  "the job's 40 GPUs are not a multiple of gpu-group-size 32");
    check_refused(
        GT_JOB_STATEFULSET, "{\"spec\":{\"replicas\":4,\"template\":" POD("8", GROUP("1.5")) "}}",
        "gpu-group-size of the template: \"1.5\" is not a number of GPUs, nor the word group or subgroup");
    check_refused(
        GT_JOB_STATEFULSET, "{\"spec\":{\"replicas\":4,\"template\":" POD("8", GROUP("1e30")) "}}",
        "gpu-group-size of the template: \"1e+30\" is not a number of GPUs, nor the word group or subgroup");
    check_refused(GT_JOB_PYTORCH,
                  "{\"spec\":{\"pytorchReplicaSpecs\":{\"Master\":{\"template\":" POD("8", GROUP("\"32\"")) //
                  "},\"Worker\":{\"replicas\":7,\"template\":" POD("8", GROUP("\"16\"")) "}}}}",
                  "gpu-group-size differs within the job: 32 on Master, 16 on Worker");
    check_refused(
        GT_JOB_INDEXED,
        "{\"spec\":{\"parallelism\":4,\"completions\":8,\"template\":" POD("8", GROUP("\"32\"")) "}}",
        "parallelism 4 is less than completions 8: with gpu-group-size that needs completionMode Indexed");
    check_refused(
        GT_JOB_INDEXED,
        "{\"spec\":{\"completionMode\":\"Indexed\",\"parallelism\":6,\"completions\":8,\"template\":" POD(
            "8", GROUP("\"32\"")) "}}",
        "parallelism 6 is not a multiple of the 4 pods of a unit");
    check_refused(
        GT_JOB_PYTORCH,
        "{\"spec\":{\"elasticPolicy\":{\"minReplicas\":3,\"maxReplicas\":2},"
        "\"pytorchReplicaSpecs\":{\"Worker\":{\"replicas\":4,\"template\":" POD("8", GROUP("\"32\"")) "}}}}",
        "elasticPolicy.minReplicas: 3 is more than the maximum, 2");
    check_refused(GT_JOB_VOLCANO,
                  "{\"spec\":{\"tasks\":[{\"name\":\"w\",\"replicas\":4,\"minAvailable\":5,\"template\":" POD(
                      "8", GROUP("\"32\"")) "}]}}",
                  "minAvailable of w: 5 is more than its replicas, 4");
}

static void test_nonsense(void **state)
{
    (void)state;
    static const struct {
        enum gt_job_kind kind;
        const char *text;
    } bad[] = {
        {GT_JOB_INDEXED, "[]"},
        {GT_JOB_INDEXED, "{}"},
        {GT_JOB_INDEXED, "{\"spec\":{\"parallelism\":-1}}"},
        {GT_JOB_INDEXED, "{\"spec\":{\"parallelism\":1e30}}"},
        {GT_JOB_INDEXED, "{\"spec\":{\"parallelism\":\"4\"}}"},
        {GT_JOB_STATEFULSET, "{\"spec\":{\"replicas\":1.5}}"},
        {GT_JOB_STATEFULSET, "{\"spec\":{\"replicas\":1,\"template\":" POD("-8", "") "}}"},
        {GT_JOB_STATEFULSET, "{\"spec\":{\"replicas\":1,\"template\":" POD("\"80k\"", "") "}}"},
    };
    for (size_t i = 0; i < GT_COUNT(bad); i++) {
        struct gt_owner *owner = NULL;
        gt_auto_err struct gt_err *err = NULL;
        cJSON *json = parse(bad[i].text);
        if (gt_owner_read(bad[i].kind, json, RESOURCE, &owner, &err) >= 0)
            fail_msg("read: %s", bad[i].text);
        assert_string_not_equal(gt_err_text(err), "");
        assert_null(owner);
        cJSON_Delete(json);
    }
}

static void put(struct gt_owners *owners, const char *name, const char *spec)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    gt_buf_printf(&text, "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},\"spec\":%s}", name, spec);
    cJSON *json = parse(text.data);
    gt_owners_put(owners, GT_JOB_STATEFULSET, json);
    cJSON_Delete(json);
}

static void test_cache(void **state)
{
    (void)state;
    unsigned known = 0;
    char name[16];
    gt_auto_owners struct gt_owners *owners = NULL;
    assert_int_equal(gt_owners_new(RESOURCE, &owners, NULL), 0);
    for (unsigned i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "set-%u", i);
        put(owners, name, "{\"replicas\":4,\"template\":" POD("8", GROUP("\"32\"")) "}");
    }
    put(owners, "set-7", "{\"replicas\":2,\"template\":" POD("8", "") "}"); /* changed */
    put(owners, "set-8", "{\"replicas\":2,\"template\":" POD("0", "") "}"); /* asks for none any more */
    put(owners, "set-9", "{\"replicas\":-2}");                              /* is invalid */
    gt_owners_remove(owners, GT_JOB_STATEFULSET, "ns", "set-10");
    gt_owners_remove(owners, GT_JOB_STATEFULSET, "ns", "set-10");
    for (unsigned i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "set-%u", i);
        known += gt_owners_find(owners, GT_JOB_STATEFULSET, "ns", name, NULL) != NULL;
    }
    assert_int_equal(known, 197);
    assert_false(gt_owner_is_grouped(gt_owners_find(owners, GT_JOB_STATEFULSET, "ns", "set-7", NULL)));
    assert_null(gt_owners_find(owners, GT_JOB_STATEFULSET, "ns", "set-8", NULL));
    assert_null(gt_owners_find(owners, GT_JOB_STATEFULSET, "ns", "set-9", NULL));
    assert_null(gt_owners_find(owners, GT_JOB_STATEFULSET, "other", "set-7", NULL));
    assert_null(gt_owners_find(owners, GT_JOB_INDEXED, "ns", "set-7", NULL));
    put(owners, "new", "{\"template\":" POD("8", "") "}"); /* into a gap */
    assert_non_null(gt_owners_find(owners, GT_JOB_STATEFULSET, "ns", "new", NULL));
}

static void put_generation(struct gt_owners *owners, const char *uid, unsigned generation, const char *spec)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    gt_buf_printf(&text,
                  "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"set\",\"uid\":\"%s\",\"generation\":%u},"
                  "\"spec\":%s}",
                  uid, generation, spec);
    cJSON *json = parse(text.data);
    gt_owners_put(owners, GT_JOB_STATEFULSET, json);
    cJSON_Delete(json);
}

/* Rules are checked when the object comes, and again when its spec changes. */
static void test_broken_rule_is_kept(void **state)
{
    (void)state;
    static const char bad[] = "{\"replicas\":5,\"template\":" POD("8", GROUP("32")) "}",
                      good[] = "{\"replicas\":4,\"template\":" POD("8", GROUP("32")) "}",
                      says[] = "the job's 40 GPUs are not a multiple of gpu-group-size 32";
    const struct {
        const char *uid;
        unsigned generation;
        const char *spec, *says;
    } steps[] = {{"a", 1, bad, says}, {"a", 1, bad, says},  {"a", 2, good, NULL}, {"a", 2, good, NULL},
                 {"a", 3, bad, says}, {"b", 3, good, NULL}, {"b", 0, bad, says},  {"b", 0, good, NULL}};
    gt_auto_owners struct gt_owners *owners = NULL;
    assert_int_equal(gt_owners_new(RESOURCE, &owners, NULL), 0);
    for (size_t i = 0; i < GT_COUNT(steps); i++) {
        put_generation(owners, steps[i].uid, steps[i].generation, steps[i].spec);
        const struct gt_owner *owner = gt_owners_find(owners, GT_JOB_STATEFULSET, "ns", "set", NULL);
        const char *broken = owner ? owner->broken : NULL;
        assert_string_equal(broken ? broken : "", steps[i].says ? steps[i].says : "");
    }
}

static void test_kinds(void **state)
{
    (void)state;
    assert_int_equal(gt_owner_kind_of("batch/v1", "Job"), GT_JOB_INDEXED);
    assert_int_equal(gt_owner_kind_of("batch.volcano.sh/v1alpha1", "Job"), GT_JOB_VOLCANO);
    assert_int_equal(gt_owner_kind_of("kubeflow.org", "PyTorchJob"), GT_JOB_PYTORCH);
    assert_int_equal(gt_owner_kind_of("example.com/v1", "Job"), GT_JOB_KINDS);
    assert_int_equal(gt_owner_made_by("trainer.kubeflow.org/v1alpha1", "TrainJob"), GT_JOB_JOBSET);
    assert_int_equal(gt_owner_kind_of("trainer.kubeflow.org/v1alpha1", "TrainJob"), GT_JOB_KINDS);
    assert_int_equal(gt_owner_made_by("jobset.x-k8s.io/v1alpha2", "TrainJob"), GT_JOB_KINDS);
    assert_int_equal(gt_owner_kind_of("apps/v1", "DaemonSet"), GT_JOB_KINDS);
    assert_int_equal(gt_owner_kind_of("kubeflow.org/v1", "MPIJob"), GT_JOB_MPI_V1);
    assert_int_equal(gt_owner_kind_of("kubeflow.org/v2beta1", "MPIJob"), GT_JOB_MPI);
    assert_int_equal(gt_owner_kind_of("kubeflow.org", "MPIJob"), GT_JOB_MPI);
    assert_int_equal(gt_owner_kind_of(NULL, NULL), GT_JOB_KINDS);
    assert_true(gt_job_kind_is_gang(GT_JOB_JOBSET) && gt_job_kind_is_gang(GT_JOB_PODS));
    static const enum gt_job_kind apart[] = {GT_JOB_STATEFULSET, GT_JOB_REPLICASET, GT_JOB_OWNED, GT_JOB_POD};
    for (unsigned i = 0; i < GT_COUNT(apart); i++)
        assert_false(gt_job_kind_is_gang(apart[i]));
}

/* The keys under which the cache has the jobs of an owner. */
static void test_keys(void **state)
{
    (void)state;
    static const struct {
        enum gt_job_kind kind;
        const char *keys[2];
    } want[] = {{GT_JOB_PYTORCH, {"ns/PyTorchJob/x"}},      {GT_JOB_VOLCANO, {"ns/VolcanoJob/x"}},
                {GT_JOB_ELASTIC, {"ns/ElasticJob/x"}},      {GT_JOB_INDEXED, {"ns/Job/x", "ns/Owned/Job/x"}},
                {GT_JOB_STATEFULSET, {"ns/StatefulSet/x"}}, {GT_JOB_REPLICASET, {"ns/Owned/ReplicaSet/x"}}};
    for (size_t i = 0; i < GT_COUNT(want); i++)
        for (unsigned n = 0; n < 3; n++) {
            gt_auto_buf struct gt_buf key = GT_BUF(256);
            bool there = gt_owner_job_key(want[i].kind, NULL, "ns", "x", n, &key);
            assert_int_equal(there, n < 2 && want[i].keys[n]);
            if (there)
                assert_string_equal(key.data, want[i].keys[n]);
        }
    const struct gt_owner groups = {.jobs = 2};
    gt_auto_buf struct gt_buf key = GT_BUF(256);
    assert_true(gt_owner_job_key(GT_JOB_LEADER_WORKER_SET, &groups, "ns", "x", 1, &key));
    assert_string_equal(key.data, "ns/LeaderWorkerSet/x-1");
    assert_false(gt_owner_job_key(GT_JOB_LEADER_WORKER_SET, &groups, "ns", "x", 2, &key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_each_template),
        cmocka_unit_test(test_ray),
        cmocka_unit_test(test_ray_step),
        cmocka_unit_test(test_launcher_as_worker),
        cmocka_unit_test(test_own_metadata),
        cmocka_unit_test(test_own_metadata_changes),
        cmocka_unit_test(test_volcano_master),
        cmocka_unit_test(test_jobset),
        cmocka_unit_test(test_leader_worker_set),
        cmocka_unit_test(test_parallel_statefulset),
        cmocka_unit_test(test_statefulset_with_ordinals),
        cmocka_unit_test(test_pods_that_have_ended),
        cmocka_unit_test(test_owners_that_make_no_pods),
        cmocka_unit_test(test_owner_without_gpus_is_none),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_broken_rule_is_kept),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
