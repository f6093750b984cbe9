/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/names.h"
#include "base/err.h"
#include "scheduler-ext/jobs/job.h"

static const unsigned eight[] = {8};

enum { LABELS_MAX = 8 };

/* A pod that owns its texts. */
struct pod {
    char name[128], texts[2 * LABELS_MAX][128];
    struct gt_pair labels[LABELS_MAX], annotations[LABELS_MAX];
    unsigned text_count;
    struct gt_pod_meta meta;
};

static const char *keep(struct pod *pod, const char *text)
{
    char *to = pod->texts[pod->text_count++];
    assert_true(pod->text_count <= GT_COUNT(pod->texts) && strlen(text) < sizeof(pod->texts[0]));
    memcpy(to, text, strlen(text) + 1);
    return to;
}

__attribute__((format(printf, 2, 3))) static void pod_new(struct pod *pod, const char *format, ...)
{
    *pod = (struct pod){0};
    va_list args;
    va_start(args, format);
    vsnprintf(pod->name, sizeof(pod->name), format, args);
    va_end(args);
    pod->meta = (struct gt_pod_meta){.namespace_ = "ns",
                                     .name = pod->name,
                                     .labels = pod->labels,
                                     .annotations = pod->annotations,
                                     .gpus = eight,
                                     .containers = 1};
}

static void label(struct pod *pod, const char *key, const char *value)
{
    pod->labels[pod->meta.label_count++] = (struct gt_pair){key, keep(pod, value)};
}

static void annotate(struct pod *pod, const char *key, const char *value)
{
    pod->annotations[pod->meta.annotation_count++] = (struct gt_pair){key, keep(pod, value)};
}

static void label_number(struct pod *pod, const char *key, unsigned number)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", number);
    label(pod, key, text);
}

static void pytorch_pod(struct pod *pod, const char *type, unsigned index)
{
    pod_new(pod, "demo-%s-%u", type, index);
    label(pod, "training.kubeflow.org/job-name", "demo");
    label(pod, "training.kubeflow.org/replica-type", type);
    label_number(pod, "training.kubeflow.org/replica-index", index);
    pod->meta.owner_kind = "PyTorchJob";
    pod->meta.owner_name = "demo";
    pod->meta.owner_controls = true;
    if (strcasecmp(type, "master") == 0)
        annotate(pod, GT_ANNOTATION_GROUP, "32"); /* on one template only */
}

static void volcano_pod(struct pod *pod, const char *task, unsigned index)
{
    pod_new(pod, "demo-%s-%u", task, index);
    annotate(pod, "volcano.sh/job-name", "demo");
    label(pod, "volcano.sh/task-spec", task);
    label_number(pod, "volcano.sh/task-index", index);
    annotate(pod, "scheduling.k8s.io/group-name", "demo-1234");
    pod->meta.owner_kind = "Job";
    pod->meta.owner_name = "demo";
    pod->meta.owner_controls = true;
    if (strcmp(task, "master") == 0)
        annotate(pod, GT_ANNOTATION_GROUP, "32");
}

static void elastic_pod(struct pod *pod, unsigned rank, unsigned node_id)
{
    pod_new(pod, "demo-edljob-worker-%u", node_id);
    label(pod, "elasticjob.dlrover/name", "demo");
    label(pod, "elasticjob.dlrover/replica-type", "worker");
    label_number(pod, "elasticjob.dlrover/rank-index", rank);
    label_number(pod, "elasticjob.dlrover/replica-index", node_id);
    char group[64]; /* one PodGroup for each pod */
    snprintf(group, sizeof(group), "podgroup-%u", node_id);
    annotate(pod, "scheduling.k8s.io/group-name", group);
    annotate(pod, GT_ANNOTATION_GROUP, "32");
    pod->meta.owner_kind = "ElasticJob";
    pod->meta.owner_name = "demo";
}

static struct gt_job *make(const struct pod *pods, uint32_t count, const struct gt_job_spec *spec)
{
    struct gt_pod_meta metas[32];
    struct gt_err *err = NULL;
    struct gt_job *job = NULL;
    for (uint32_t i = 0; i < count; i++)
        metas[i] = pods[i].meta;
    if (gt_job_make(metas, count, spec, &job, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return job;
}

static void refused(const struct pod *pods, uint32_t count, const struct gt_job_spec *spec, const char *says)
{
    struct gt_pod_meta metas[32];
    gt_auto_err struct gt_err *err = NULL;
    struct gt_job *job = NULL;
    for (uint32_t i = 0; i < count; i++)
        metas[i] = pods[i].meta;
    int r = gt_job_make(metas, count, spec, &job, &err);
    if (r != -EINVAL || !strstr(gt_err_text(err), says))
        fail_msg("%d, \"%s\", expected \"%s\"", r, gt_err_text(err), says);
}

/* The pods are in the order of the array `pods`, whose pod i has the rank ranks[i]. */
static void check_two_units(const struct gt_job *job, enum gt_job_kind kind, const uint32_t *ranks)
{
    assert_int_equal(job->kind, kind);
    assert_int_equal(job->member_count, 8);
    assert_int_equal(job->sizes.group, 32);
    assert_int_equal(job->units.count, 2);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(job->members[i].rank, i);
        assert_int_equal(ranks[job->members[i].pod], i);
    }
    assert_int_equal(job->units.units[1].first, 4);
    assert_int_equal(job->units.units[1].pods, 4);
}

static void test_pytorch(void **state)
{
    (void)state;
    struct pod pods[8];
    uint32_t ranks[8];
    for (unsigned i = 0; i < 7; i++) {
        pytorch_pod(&pods[i], "worker", 6 - i);
        ranks[i] = 7 - i;
    }
    pytorch_pod(&pods[7], "master", 0);
    ranks[7] = 0;
    gt_auto_job struct gt_job *job = make(pods, 8, NULL);
    check_two_units(job, GT_JOB_PYTORCH, ranks);

    for (unsigned i = 0; i < 8; i++) /* without a Master, i */
        pytorch_pod(&pods[i], "Worker", i);
    annotate(&pods[3], GT_ANNOTATION_GROUP, "32");
    gt_auto_job struct gt_job *workers = make(pods, 8, NULL);
    check_two_units(workers, GT_JOB_PYTORCH, (const uint32_t[]){0, 1, 2, 3, 4, 5, 6, 7});
}

static void test_volcano(void **state)
{
    (void)state;
    struct pod pods[8];
    uint32_t ranks[8] = {0};
    volcano_pod(&pods[0], "master", 0);
    for (unsigned i = 0; i < 7; i++) {
        volcano_pod(&pods[i + 1], "worker", i);
        ranks[i + 1] = i + 1;
    }
    gt_auto_job struct gt_job *job = make(pods, 8, NULL);
    check_two_units(job, GT_JOB_VOLCANO, ranks);

    for (unsigned i = 0; i < 8; i++) { /* before v1.9 the name alone has the index */
        for (unsigned l = 0; l < pods[i].meta.label_count; l++)
            if (strcmp(pods[i].labels[l].key, "volcano.sh/task-index") == 0)
                pods[i].labels[l].key = "other";
    }
    gt_auto_job struct gt_job *old = make(pods, 8, NULL);
    check_two_units(old, GT_JOB_VOLCANO, ranks);

    /* --master=chief: the spec says which task is first; "a" is before it by name. */
    struct pod named[3];
    volcano_pod(&named[0], "a", 0);
    volcano_pod(&named[1], "a", 1);
    volcano_pod(&named[2], "chief", 0);
    const struct gt_job_template templates[] = {
        {.role = "a", .replicas = 2, .gpus = eight, .containers = 1},
        {.role = "chief", .replicas = 1, .gpus = eight, .containers = 1}};
    const struct gt_job_spec spec = {.templates = templates, .count = 2, .master = "chief"};
    gt_auto_job struct gt_job *chief = make(named, 3, &spec);
    assert_int_equal(chief->members[0].pod, 2);
    assert_int_equal(chief->members[1].pod, 0);
    assert_int_equal(chief->members[2].pod, 1);
}

static void test_elastic(void **state)
{
    (void)state;
    struct pod pods[9];
    uint32_t ranks[9] = {0};
    for (unsigned i = 0; i < 8; i++) {
        elastic_pod(&pods[i], i, i == 2 ? 17 : i); /* worker 2 was started again: new name, same rank */
        ranks[i] = i;
    }
    pod_new(&pods[8], "elasticjob-demo-dlrover-master-0");
    label(&pods[8], "elasticjob.dlrover/name", "demo");
    label(&pods[8], "elasticjob.dlrover/replica-type", "dlrover-master");
    annotate(&pods[8], GT_ANNOTATION_GROUP, "7"); /* ignored like the pod */
    gt_auto_job struct gt_job *job = make(pods, 9, NULL);
    check_two_units(job, GT_JOB_ELASTIC, ranks);
    gt_auto_buf struct gt_buf first = GT_BUF(256), second = GT_BUF(256);
    struct gt_pod_identity identity;
    assert_int_equal(gt_pod_identify(&pods[0].meta, &identity, NULL), 0);
    gt_job_key(&pods[0].meta, &identity, &first);
    assert_int_equal(gt_pod_identify(&pods[8].meta, &identity, NULL), 0);
    assert_true(identity.ignored);
    gt_job_key(&pods[8].meta, &identity, &second);
    assert_string_equal(first.data, "ns/ElasticJob/demo");
    assert_string_equal(second.data, first.data);
}

static void test_indexed_and_stateful(void **state)
{
    (void)state;
    struct pod pods[4];
    for (unsigned i = 0; i < 4; i++) {
        pod_new(&pods[i], "train-%u-x%uz", 3 - i, i);
        char index[8];
        snprintf(index, sizeof(index), "%u", 3 - i);
        annotate(&pods[i], "batch.kubernetes.io/job-completion-index", index);
        pods[i].meta.owner_kind = "Job";
        pods[i].meta.owner_name = "train";
        pods[i].meta.owner_controls = true;
        annotate(&pods[i], GT_ANNOTATION_GROUP, "16");
    }
    gt_auto_job struct gt_job *indexed = make(pods, 4, NULL);
    assert_int_equal(indexed->kind, GT_JOB_INDEXED);
    assert_int_equal(indexed->members[0].pod, 3);
    assert_int_equal(indexed->units.count, 2);

    for (unsigned i = 0; i < 4; i++) {
        pod_new(&pods[i], "infer-%u", 3 - i);
        pods[i].meta.owner_kind = "StatefulSet";
        pods[i].meta.owner_name = "infer";
        pods[i].meta.owner_controls = true;
        if (i % 2)
            label_number(&pods[i], "apps.kubernetes.io/pod-index", 3 - i);
    }
    gt_auto_job struct gt_job *stateful = make(pods, 4, NULL);
    assert_int_equal(stateful->kind, GT_JOB_STATEFULSET);
    assert_int_equal(stateful->members[3].pod, 0);
    assert_null(stateful->units.units);
}

static void test_plain(void **state)
{
    (void)state;
    struct pod pods[3];
    const char *names[] = {"run-10", "run-9", "run-010"};
    for (unsigned i = 0; i < 3; i++) {
        pod_new(&pods[i], "%s", names[i]);
        pods[i].meta.owner_kind = "ReplicaSet";
        pods[i].meta.owner_name = "run";
        pods[i].meta.owner_controls = true;
    }
    gt_auto_job struct gt_job *job = make(pods, 3, NULL);
    assert_int_equal(job->kind, GT_JOB_OWNED);
    assert_int_equal(job->members[0].pod, 1);
    gt_auto_buf struct gt_buf key = GT_BUF(256);
    struct gt_pod_identity identity;
    assert_int_equal(gt_pod_identify(&pods[0].meta, &identity, NULL), 0);
    gt_job_key(&pods[0].meta, &identity, &key);
    assert_string_equal(key.data, "ns/Owned/ReplicaSet/run");

    pods[0].meta.owner_controls = false; /* that names no owner for sure */
    assert_int_equal(gt_pod_identify(&pods[0].meta, &identity, NULL), 0);
    assert_int_equal(identity.kind, GT_JOB_POD);
    assert_string_equal(identity.job, "run-10");
}

static void check_identity(const struct pod *pod, const char *key, const char *role, uint32_t index)
{
    gt_auto_buf struct gt_buf text = GT_BUF(256);
    struct gt_pod_identity identity;
    assert_int_equal(gt_pod_identify(&pod->meta, &identity, NULL), 0);
    gt_job_key(&pod->meta, &identity, &text);
    assert_string_equal(text.data, key);
    assert_string_equal(identity.role, role);
    assert_int_equal(identity.index, index);
}

/* The other kinds of Kubeflow's training operator, and MPIJob of both operators. */
static void test_kubeflow(void **state)
{
    (void)state;
    static const char *const kinds[] = {"TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"};
    gt_auto_err struct gt_err *err = NULL;
    struct gt_pod_identity identity;
    struct pod pod;
    char key[64];
    for (size_t i = 0; i < GT_COUNT(kinds); i++) {
        pytorch_pod(&pod, "Worker", 5);
        pod.meta.owner_kind = kinds[i];
        snprintf(key, sizeof(key), "ns/%s/demo", kinds[i]);
        check_identity(&pod, key, "worker", 5);
    }
    pod_new(&pod, "demo-%s-%u", "worker", 2);
    label(&pod, "training.kubeflow.org/job-name", "demo");
    label(&pod, "training.kubeflow.org/job-role", "worker");
    label_number(&pod, "training.kubeflow.org/replica-index", 2);
    pod.meta.owner_kind = "MPIJob";
    pod.meta.owner_name = "demo";
    pod.meta.owner_controls = true;
    check_identity(&pod, "ns/MPIJob/demo", "worker", 2);
    pod_new(&pod, "demo-%s-%u", "worker", 2);
    label(&pod, "training.kubeflow.org/job-name", "demo");
    label(&pod, "training.kubeflow.org/job-role", "worker");
    pod.meta.owner_kind = "MPIJob";
    assert_true(gt_pod_identify(&pod.meta, &identity, &err) < 0);
    assert_non_null(strstr(gt_err_text(err), "replica-index is missing"));
    pod_new(&pod, "demo-%s-%u", "launcher", 7);
    label(&pod, "training.kubeflow.org/job-name", "demo");
    label(&pod, "training.kubeflow.org/job-role", "launcher");
    pod.meta.owner_kind = "Job";
    pod.meta.owner_name = "demo-launcher";
    pod.meta.owner_controls = true;
    check_identity(&pod, "ns/Owned/Job/demo-launcher", "", 0);
    label_number(&pod, "training.kubeflow.org/replica-index", 0); /* it is a worker, too */
    check_identity(&pod, "ns/MPIJob/demo", "launcher", 0);
}

static void jobset_pod(struct pod *pod, const char *role, unsigned job, unsigned index)
{
    pod_new(pod, "set-%s-%u-%u-x", role, job, index);
    label(pod, "jobset.sigs.k8s.io/jobset-name", "set");
    label(pod, "jobset.sigs.k8s.io/replicatedjob-name", role);
    label_number(pod, "jobset.sigs.k8s.io/job-index", job);
    annotate(pod, "jobset.sigs.k8s.io/jobset-name", "set");
    label_number(pod, "batch.kubernetes.io/job-completion-index", index);
    label(pod, "batch.kubernetes.io/job-name", "set-job");
    pod->meta.owner_kind = "Job";
    pod->meta.owner_name = "set-job";
    pod->meta.owner_controls = true;
}

/* The rank counts over the Jobs of a set, with its object and without. */
static void test_jobset(void **state)
{
    (void)state;
    struct pod pods[4];
    jobset_pod(&pods[0], "node", 1, 1);
    jobset_pod(&pods[1], "node", 0, 1);
    jobset_pod(&pods[2], "node", 1, 0);
    jobset_pod(&pods[3], "node", 0, 0);
    check_identity(&pods[0], "ns/JobSet/set", "node", 1);
    const struct gt_job_template templates[] = {
        {.role = "zero", .replicas = 1, .gpus = eight, .containers = 1, .per_child = 1},
        {.role = "node", .replicas = 6, .gpus = eight, .containers = 1, .per_child = 2}};
    const struct gt_job_spec spec = {.templates = templates, .count = 2, .in_order = true};
    gt_auto_job struct gt_job *known = make(pods, 4, &spec), *unknown = make(pods, 4, NULL);
    static const uint32_t order[] = {3, 1, 2, 0};
    assert_int_equal(known->member_count, 7);
    assert_int_equal(known->members[0].pod, GT_NONE);
    assert_int_equal(known->members[1].rank, 1);
    assert_int_equal(unknown->member_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(known->members[i + 1].pod, order[i]);
        assert_int_equal(unknown->members[i].pod, order[i]);
    }
    const struct gt_job_template loads[] = {{.role = "zero", .replicas = 1, .per_child = 1}, templates[1]};
    const struct gt_job_spec loading = {.templates = loads, .count = 2, .in_order = true};
    gt_auto_job struct gt_job *nodes = make(pods, 4, &loading); /* the first Job has no GPUs */
    assert_int_equal(nodes->member_count, 6);
    assert_int_equal(nodes->members[0].pod, 3);
    assert_int_equal(nodes->members[0].rank, 0);
    assert_int_equal(nodes->members[5].rank, 5);
    jobset_pod(&pods[1], "node", 0, 2); /* a Job that has fewer pods now */
    gt_auto_job struct gt_job *fewer = make(pods, 4, &spec);
    assert_int_equal(fewer->members[2].pod, GT_NONE);
    gt_auto_err struct gt_err *err = NULL;
    struct gt_pod_identity identity;
    pods[0].meta.label_count = 2;
    assert_true(gt_pod_identify(&pods[0].meta, &identity, &err) < 0);
    assert_non_null(strstr(gt_err_text(err), "job-index is missing"));
}

/* Before the set's own webhook has labelled a worker its name has the number. */
static void test_leader_worker_set(void **state)
{
    (void)state;
    struct gt_pod_identity identity;
    struct pod pod;
    pod_new(&pod, "vllm-%u", 1U);
    label(&pod, "leaderworkerset.sigs.k8s.io/name", "vllm");
    pod.meta.owner_kind = "StatefulSet";
    pod.meta.owner_name = "vllm";
    pod.meta.owner_controls = true;
    check_identity(&pod, "ns/LeaderWorkerSet/vllm-1", "leader", 0);
    label(&pod, "leaderworkerset.sigs.k8s.io/worker-index", "0");
    check_identity(&pod, "ns/LeaderWorkerSet/vllm-1", "leader", 0);
    pod_new(&pod, "vllm-1-%u", 3U);
    label(&pod, "leaderworkerset.sigs.k8s.io/name", "vllm");
    label(&pod, "apps.kubernetes.io/pod-index", "3");
    pod.meta.owner_kind = "StatefulSet";
    pod.meta.owner_name = "vllm-1";
    pod.meta.owner_controls = true;
    check_identity(&pod, "ns/LeaderWorkerSet/vllm-1", "worker", 3);
    label(&pod, "leaderworkerset.sigs.k8s.io/worker-index", "3");
    check_identity(&pod, "ns/LeaderWorkerSet/vllm-1", "worker", 3);
    assert_int_equal(gt_pod_identify(&pod.meta, &identity, NULL), 0);
    assert_string_equal(identity.owner, "vllm");
}

/* What pods say of themselves, as syncers of virtual clusters and scripts write it. */
static void test_pods(void **state)
{
    (void)state;
    static const struct {
        const char *name, *keys[3][2], *key;
        uint32_t index, pods;
        const char *says;
    } want[] = {{"a-7",
                 {{"metax-tech.com/job-name", "run"},
                  {"metax-tech.com/job-pods", "8"},
                  {"metax-tech.com/rank", "3"}}, //
                 "ns/Pods/run",
                 3,
                 8,
                 NULL},
                {"a-7-x-team-x-v1", {{"metax-tech.com/job-name", "run"}}, "ns/Pods/run", 7, 0, NULL},
                {"a-7",
                 {{"metax-tech.com/job-name", "run"}, {"batch.kubernetes.io/job-completion-index", "2"}}, //
                 "ns/Pods/run",
                 2,
                 0,
                 NULL},
                {"a-7",
                 {{"kueue.x-k8s.io/pod-group-name", "g"}, {"kueue.x-k8s.io/pod-group-total-count", "4"}}, //
                 "ns/Pods/g",
                 7,
                 4,
                 NULL},
                {"a-7", {{"scheduling.x-k8s.io/pod-group", "g"}}, "ns/Pods/g", 7, 0, NULL},
                {"a-x",
                 {{"metax-tech.com/job-name", "run"}},
                 NULL,
                 0,
                 0,
                 "metax-tech.com/rank is missing, its rank is not known"},
                {"a-7",
                 {{"metax-tech.com/job-name", "run"}, {"metax-tech.com/job-pods", "0"}},
                 NULL,
                 0,
                 0, //
                 "metax-tech.com/job-pods is \"0\", expected a number of pods from 1 to "},
                {"a-7",
                 {{"metax-tech.com/job-name", "run"}, {"metax-tech.com/rank", "x"}},
                 NULL,
                 0,
                 0, //
                 "metax-tech.com/rank is \"x\", expected a number from 0 to "}};
    for (size_t i = 0; i < GT_COUNT(want); i++) {
        gt_auto_err struct gt_err *err = NULL;
        struct gt_pod_identity identity;
        struct pod pod;
        pod_new(&pod, "%s", want[i].name);
        for (unsigned k = 0; k < 3 && want[i].keys[k][0]; k++)
            annotate(&pod, want[i].keys[k][0], want[i].keys[k][1]);
        pod.meta.owner_kind = "Service";
        pod.meta.owner_name = "syncer";
        int r = gt_pod_identify(&pod.meta, &identity, &err);
        if (want[i].says) {
            assert_int_equal(r, -EINVAL);
            assert_non_null(strstr(gt_err_text(err), want[i].says));
            continue;
        }
        check_identity(&pod, want[i].key, "", want[i].index);
        assert_int_equal(identity.pods, want[i].pods);
    }
    struct pod pods[2];
    for (unsigned i = 0; i < 2; i++) { /* a PodGroup of Volcano, and one that it has made for the pod */
        pod_new(&pods[i], "a-7");
        annotate(&pods[i], "scheduling.k8s.io/group-name", i ? "podgroup-g" : "g");
        check_identity(&pods[i], i ? "ns/Pod/a-7" : "ns/PodGroup/g", "", 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        pod_new(&pods[i], "a-%u", i);
        annotate(&pods[i], "metax-tech.com/job-name", "run");
        annotate(&pods[i], "metax-tech.com/job-pods", i ? "2" : "9");
    }
    refused(pods, 2, NULL, "pods a-0 and a-1 say that the job has 9 and 2 pods");
    pods[1].meta.annotation_count--;
    refused(pods, 2, NULL, "pod a-0 says that the job has 9 pods, and pod a-1 does not say it");
    annotate(&pods[1], "metax-tech.com/job-pods", "1");
    pods[0].meta.annotation_count--;
    refused(pods, 2, NULL, "pod a-1 says that the job has 1 pods, and pod a-0 does not say it");
    annotate(&pods[0], "metax-tech.com/job-pods", "1");
    refused(pods, 2, NULL, "2 pods are there, and they say that the job has 1");
}

/* A group that its controller has not replaced yet keeps the size that it was made with. */
static void test_group_before_a_change(void **state)
{
    (void)state;
    const struct gt_job_template templates[] = {
        {.role = "leader", .replicas = 1, .gpus = eight, .containers = 1},
        {.role = "worker",
         .replicas = 3,
         .gpus = eight,
         .containers = 1,
         .texts.of[GT_KEY_GROUP] = "64",
         .first = 1}};
    struct gt_job_spec spec = {.templates = templates, .count = 2, .in_order = true};
    struct pod pods[4];
    for (unsigned i = 0; i < 4; i++) {
        pod_new(&pods[i], i ? "vllm-0-%u" : "vllm-%u", i);
        label(&pods[i], "leaderworkerset.sigs.k8s.io/name", "vllm");
        label_number(&pods[i], "leaderworkerset.sigs.k8s.io/worker-index", i);
        annotate(&pods[i], GT_ANNOTATION_GROUP, "16");
        pods[i].meta.owner_kind = "StatefulSet";
        pods[i].meta.owner_name = i ? "vllm-0" : "vllm";
    }
    refused(pods, 4, &spec, "gpu-group-size differs within the job: 64 on worker, 16 on vllm-0");
    spec.groups = true;
    gt_auto_job struct gt_job *job = make(pods, 4, &spec);
    assert_int_equal(job->units.count, 2);
    refused(pods, 0, &spec, "the group's 32 GPUs are not a multiple of gpu-group-size 64");
}

/* With the gang scheduler of Volcano, a PyTorchJob's pods have Volcano's task-spec: the job stays the same.
 */
static void test_pytorch_under_volcano(void **state)
{
    (void)state;
    struct pod pod;
    pytorch_pod(&pod, "worker", 3);
    annotate(&pod, "scheduling.k8s.io/group-name", "demo");
    annotate(&pod, "volcano.sh/task-spec", "worker");
    struct gt_pod_identity identity;
    assert_int_equal(gt_pod_identify(&pod.meta, &identity, NULL), 0);
    assert_int_equal(identity.kind, GT_JOB_PYTORCH);
    assert_int_equal(identity.index, 3);
}

static void test_partial(void **state)
{
    (void)state;
    struct pod pods[2];
    pytorch_pod(&pods[0], "worker", 4);
    pytorch_pod(&pods[1], "worker", 0);
    const struct gt_job_template templates[] = {
        {.role = "Master",
         .replicas = 1,
         .gpus = eight,
         .containers = 1,
         .texts.of[GT_KEY_GROUP] = "32",
         .texts.of[GT_KEY_ATOMIC] = "16"},
        {.role = "Worker", .replicas = 7, .gpus = eight, .containers = 1}};
    const struct gt_job_spec spec = {.templates = templates, .count = 2};
    gt_auto_job struct gt_job *job = make(pods, 2, &spec);
    assert_int_equal(job->member_count, 8);
    assert_int_equal(job->units.count, 2);
    assert_int_equal(job->units.units[0].atom, 2);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(job->members[i].rank, i);
        uint32_t expected = i == 5 ? 0 : i == 1 ? 1 : GT_NONE;
        assert_int_equal(job->members[i].pod, expected);
        assert_int_equal(gt_job_pod_gpus(&job->members[i].gpus), 8);
    }
    gt_auto_job struct gt_job *none = make(pods, 0, &spec); /* before the first pod */
    assert_int_equal(none->member_count, 8);

    /* A launcher without GPUs has a rank but no part in units. */
    static const unsigned zero[] = {0};
    const struct gt_job_template launcher[] = {
        {.role = "Master", .replicas = 1, .gpus = zero, .containers = 1},
        {.role = "Worker", .replicas = 4, .gpus = eight, .containers = 1, .texts.of[GT_KEY_GROUP] = "8"}};
    const struct gt_job_spec with_launcher = {.templates = launcher, .count = 2};
    gt_auto_job struct gt_job *four = make(pods, 1, &with_launcher);
    assert_int_equal(four->member_count, 4); /* pod 4 is beyond the replicas, and about to go */
    assert_int_equal(four->others, 1);
    assert_int_equal(four->members[0].rank, 1);
}

/* A StatefulSet may start at another number than 0. */
static void test_first_index(void **state)
{
    (void)state;
    struct pod pods[2];
    const struct gt_job_template templates[] = {{.role = "",
                                                 .replicas = 4,
                                                 .gpus = eight,
                                                 .containers = 1,
                                                 .texts.of[GT_KEY_GROUP] = "32",
                                                 .first = 5}};
    const struct gt_job_spec spec = {.templates = templates, .count = 1};
    for (unsigned i = 0; i < 2; i++) {
        pod_new(&pods[i], "set-%u", 8 - 2 * i);
        pods[i].meta.owner_kind = "StatefulSet";
        pods[i].meta.owner_name = "set";
    }
    gt_auto_job struct gt_job *job = make(pods, 2, &spec);
    assert_int_equal(job->member_count, 4);
    assert_int_equal(job->units.count, 1);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(job->members[rank].rank, rank);
        assert_int_equal(job->members[rank].pod, rank == 1 ? 1 : rank == 3 ? 0 : GT_NONE);
    }
    pods[1].meta.name = "set-4";
    refused(pods, 2, &spec, "pod set-4 has number 4, the job's first has 5");
}

/* Running pods keep their unit in their supernode; a replaced one returns there. */
static void test_partial_plan(void **state)
{
    (void)state;
    gt_auto_cluster struct gt_cluster *cluster = NULL;
    assert_int_equal(gt_cluster_new(&cluster, NULL), 0);
    struct gt_weights weights = {.n = 8};
    for (unsigned i = 0; i < 8; i++)
        for (unsigned j = 0; j < 8; j++)
            weights.w[i][j] = i != j;
    gt_auto_class struct gt_class *class = NULL;
    assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
    uint32_t class_id, supers[2], nodes[8];
    assert_int_equal(gt_cluster_add_class(cluster, class, &class_id, NULL), 0);
    assert_int_equal(gt_cluster_add_supernode(cluster, "s0", 1, GT_NONE, &supers[0], NULL), 0);
    assert_int_equal(gt_cluster_add_supernode(cluster, "s1", 1, GT_NONE, &supers[1], NULL), 0);
    for (unsigned i = 0; i < 8; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%u", i);
        assert_int_equal(gt_cluster_add_node(cluster, name, class_id, supers[i / 4], &nodes[i], NULL), 0);
    }
    struct pod pods[7];
    for (unsigned i = 0; i < 7; i++)
        pytorch_pod(&pods[i], "worker", i);
    const struct gt_job_template templates[] = {
        {.role = "Master", .replicas = 1, .gpus = eight, .containers = 1, .texts.of[GT_KEY_GROUP] = "32"},
        {.role = "Worker", .replicas = 7, .gpus = eight, .containers = 1}};
    const struct gt_job_spec spec = {.templates = templates, .count = 2};
    gt_auto_job struct gt_job *job = make(pods, 7, &spec);
    assert_int_equal(job->units.count, 2);
    /* Ranks 1 to 3 run in s1, ranks 4 to 7 in s0; the master, rank 0, was lost and comes again. */
    struct gt_plan_pod plan[8] = {{0}};
    for (uint32_t i = 0; i < 8; i++) {
        plan[i].running = job->members[i].pod != GT_NONE;
        plan[i].place.node = nodes[i < 4 ? 4 + i : i - 4];
        if (plan[i].running)
            gt_cluster_set_free(cluster, plan[i].place.node, 0);
    }
    struct gt_plan_failure failure;
    assert_true(gt_plan_job(
        cluster,
        &(struct gt_plan_request){
            .units = job->units.units, .unit_count = job->units.count, .pods = plan, .pod_count = 8},
        &failure));
    assert_int_equal(plan[0].place.node, nodes[4]);
    assert_int_equal(plan[0].place.mask, 0xff);
    assert_int_equal(job->units.units[0].supernode, supers[1]);
}

/* Six pods are left of eight: the first unit goes on, but only of a job that had a plan. */
static void test_smaller(void **state)
{
    (void)state;
    struct pod pods[6];
    for (unsigned i = 0; i < 6; i++) {
        pod_new(&pods[i], "set-%u", i);
        pods[i].meta.owner_kind = "StatefulSet";
        pods[i].meta.owner_name = "set";
    }
    const struct gt_job_template templates[] = {
        {.role = "", .replicas = 6, .gpus = eight, .containers = 1, .texts.of[GT_KEY_GROUP] = "32"}};
    const struct gt_job_spec spec = {.templates = templates, .count = 1};
    refused(pods, 6, &spec, "the job's 48 GPUs are not a multiple of gpu-group-size 32");
    annotate(&pods[5], GT_PLAN_ANNOTATION_RANK, "5");
    gt_auto_job struct gt_job *job = make(pods, 6, &spec);
    assert_int_equal(job->member_count, 4);
    assert_int_equal(job->units.count, 1);
    assert_int_equal(job->rest, 2);
    assert_non_null(
        strstr(job->rest_text, "48 GPUs are not a multiple of gpu-group-size 32; its whole units "));
    annotate(&pods[0], GT_ANNOTATION_GROUP, "32");
    refused(pods, 6, NULL, "not a multiple"); /* others of its pods may be about to come */
    const struct gt_job_template less[] = {
        {.role = "", .replicas = 3, .gpus = eight, .containers = 1, .texts.of[GT_KEY_GROUP] = "32"}};
    const struct gt_job_spec none = {.templates = less, .count = 1};
    annotate(&pods[1], GT_PLAN_ANNOTATION_RANK, "1");
    refused(pods, 3, &none, "the job's 24 GPUs");
}

static unsigned callocs_left; /* 0: none fails */

void *__wrap_calloc(size_t count, size_t size); /* NOLINT(bugprone-reserved-identifier) */
void *__real_calloc(size_t count, size_t size); /* NOLINT(bugprone-reserved-identifier) */

void *__wrap_calloc(size_t count, size_t size)
{
    return callocs_left && !--callocs_left ? NULL : __real_calloc(count, size);
}

/* Such a job breaks no rule because memory was lacking. */
static void test_smaller_without_memory(void **state)
{
    (void)state;
    struct pod pods[6];
    struct gt_pod_meta metas[6];
    for (unsigned i = 0; i < 6; i++) {
        pod_new(&pods[i], "set-%u", i);
        pods[i].meta.owner_kind = "StatefulSet";
        pods[i].meta.owner_name = "set";
    }
    annotate(&pods[5], GT_PLAN_ANNOTATION_RANK, "5");
    for (unsigned i = 0; i < 6; i++)
        metas[i] = pods[i].meta;
    const struct gt_job_template templates[] = {
        {.role = "", .replicas = 6, .gpus = eight, .containers = 1, .texts.of[GT_KEY_GROUP] = "32"}};
    const struct gt_job_spec spec = {.templates = templates, .count = 1};
    unsigned failed = 0;
    for (int r = -1; r < 0; failed += r < 0) {
        gt_auto_job struct gt_job *job = NULL;
        callocs_left = failed + 1;
        r = gt_job_make(metas, 6, &spec, &job, NULL);
        callocs_left = 0;
        if (r < 0)
            assert_int_equal(r, -ENOMEM);
    }
    assert_true(failed > 2);
}

static void test_malformed(void **state)
{
    (void)state;
    struct pod pods[3];
    pytorch_pod(&pods[0], "worker", 0);
    pytorch_pod(&pods[1], "worker", 0);
    refused(pods, 2, NULL, "are both number 0 of the job's worker");
    const char *wrong[] = {"", "x", "-1", "1.5", "0x1", "131072", "99999999999999999999", " 1"};
    for (size_t i = 0; i < GT_COUNT(wrong); i++) {
        pytorch_pod(&pods[0], "worker", 0);
        pods[0].labels[2].value = wrong[i];
        refused(pods, 1, NULL, "training.kubeflow.org/replica-index is \"");
    }
    pytorch_pod(&pods[0], "worker", 0);
    pods[0].meta.label_count = 2;
    refused(pods, 1, NULL, "training.kubeflow.org/replica-index is missing");
    pods[0].meta.label_count = 1;
    refused(pods, 1, NULL, "training.kubeflow.org/replica-type is missing");

    elastic_pod(&pods[0], 0, 3);
    pods[0].labels[2].key = "other";
    refused(pods, 1, NULL, "elasticjob.dlrover/rank-index is missing");
    pods[0].labels[1].key = "other";
    refused(pods, 1, NULL, "elasticjob.dlrover/replica-type is missing");

    volcano_pod(&pods[0], "worker", 0);
    pods[0].meta.label_count = 0;
    refused(pods, 1, NULL, "volcano.sh/task-spec is missing");
    volcano_pod(&pods[0], "worker", 0);
    pods[0].meta.label_count = 1;
    pods[0].meta.name = "renamed-worker-0";
    refused(pods, 1, NULL, "volcano.sh/task-index is missing");

    pod_new(&pods[0], "set-x");
    pods[0].meta.owner_kind = "StatefulSet";
    pods[0].meta.owner_name = "set";
    refused(pods, 1, NULL, "apps.kubernetes.io/pod-index is missing");
    pod_new(&pods[0], "i");
    annotate(&pods[0], "batch.kubernetes.io/job-completion-index", "many");
    label(&pods[0], "job-name", "i");
    refused(pods, 1, NULL, "job-completion-index is \"many\"");

    pytorch_pod(&pods[0], "worker", 0);
    elastic_pod(&pods[1], 1, 1);
    refused(pods, 2, NULL, "are not one job");

    pytorch_pod(&pods[0], "master", 0);
    pytorch_pod(&pods[1], "worker", 0);
    annotate(&pods[1], GT_ANNOTATION_GROUP, "16");
    refused(pods, 2, NULL, "gpu-group-size differs within the job: 32 on demo-master-0, 16 on demo-worker-0");
    const struct gt_job_template templates[] = {
        {.role = "worker", .replicas = 1, .gpus = eight, .containers = 1, .texts.of[GT_KEY_GROUP] = "32"},
        {.role = "Worker", .replicas = 7, .gpus = eight, .containers = 1}};
    const struct gt_job_spec twice = {.templates = templates, .count = 2};
    refused(pods, 1, &twice, "two templates have the name");
}

static void test_natural_order(void **state)
{
    (void)state;
    const char *sorted[] = {"",  "a", "a-", "a-1", "a-9", "a-10", "a-10-2", "a-99999999999999999999999",
                            "b", "b0"};
    for (size_t i = 0; i < GT_COUNT(sorted); i++)
        for (size_t j = 0; j < GT_COUNT(sorted); j++) {
            int order = gt_natural_order(sorted[i], sorted[j]);
            if ((order > 0) - (order < 0) != (i > j) - (i < j))
                fail_msg("\"%s\" and \"%s\": %d", sorted[i], sorted[j], order);
        }
    assert_int_equal(gt_natural_order("a-010", "a-10"), 0);
    assert_int_equal(gt_natural_order("a-000", "a-0"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch),
        cmocka_unit_test(test_volcano),
        cmocka_unit_test(test_elastic),
        cmocka_unit_test(test_indexed_and_stateful),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_kubeflow),
        cmocka_unit_test(test_jobset),
        cmocka_unit_test(test_leader_worker_set),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_group_before_a_change),
        cmocka_unit_test(test_pytorch_under_volcano),
        cmocka_unit_test(test_partial),
        cmocka_unit_test(test_partial_plan),
        cmocka_unit_test(test_smaller),
        cmocka_unit_test(test_smaller_without_memory),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_natural_order),
        cmocka_unit_test(test_first_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
