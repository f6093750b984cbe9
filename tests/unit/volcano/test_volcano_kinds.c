/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/names.h"
#include "tests/unit/volcano/volcano_world.h"

/* Jobs of other kinds in Volcano's sessions, with the PodGroups that Volcano's controller makes for them: one
 * for each object that owns pods, each with a minimum of 1. */

enum { PODS = 8 };

/* Members of templates: pods of 8 GPUs, in units of that size. */
#define PODS_OF_8   "\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"metax-tech.com/gpu\":8}}}]}"
#define SIZED(size) "\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":\"" size "\"}},"
static const char units_of_16[] = SIZED("16") PODS_OF_8, units_of_32[] = SIZED("32") PODS_OF_8,
                  units_of_group[] = SIZED("group") PODS_OF_8;

/* An object of the namespace "ns" with that spec. */
__attribute__((format(printf, 4, 5))) static void put_owner(struct gt_volcano *volcano, const char *plural,
                                                            const char *metadata, const char *spec, ...)
{
    char text[2048], object[3072];
    va_list list;
    va_start(list, spec);
    vsnprintf(text, sizeof(text), spec, list);
    va_end(list);
    snprintf(object, sizeof(object), "{\"metadata\":{\"namespace\":\"ns\",%s},\"spec\":{%s}}", metadata,
             text);
    put(volcano, plural, cJSON_Parse(object));
}

/* A pod of 8 GPUs, whose owner is `of`; a pod on a node was placed there. */
struct kind_pod {
    const char *name, *api, *kind, *of, *labels, *size;
    uint32_t node;
};

static void put_kind_pod(struct gt_volcano *volcano, const struct kind_pod *pod)
{
    char owner[256], size[128] = "";
    snprintf(owner, sizeof(owner),
             "{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\",\"controller\":true}",
             pod->api, pod->kind, pod->of, pod->of);
    if (pod->size)
        snprintf(size, sizeof(size), "\"metax-tech.com/gpu-group-size\":\"%s\",", pod->size);
    const char *node = pod->node == GT_VOLCANO_NO_NODE ? NULL : node_name(pod->node);
    put(volcano, "pods",
        world_pod(POD(.name = pod->name, .gpus = 8, .owner = owner, .labels = pod->labels,
                      .annotations = size, .node = node, .plan_node = node, .plan_mask = node ? 0xff : 0)));
}

static void check_ranks(struct gt_volcano *volcano, uint32_t first, unsigned count, uint32_t rank)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t got;
        if (gt_volcano_check(volcano, first + i, &got, volcano_error) != 1)
            fail_msg("task %u is in no unit: %s", first + i, volcano_error);
        assert_int_equal(got, rank + i);
    }
}

/* ---- a JobSet of two Jobs, each with a PodGroup ---- */

static void put_jobset_pod(struct gt_volcano *volcano, unsigned job, unsigned index, uint32_t node)
{
    char name[32], of[32], labels[512];
    snprintf(of, sizeof(of), "set-node-%u", job);
    snprintf(name, sizeof(name), "%s-%u", of, index);
    snprintf(labels, sizeof(labels),
             "\"jobset.sigs.k8s.io/jobset-name\":\"set\",\"jobset.sigs.k8s.io/replicatedjob-name\":\"node\","
             "\"jobset.sigs.k8s.io/job-index\":\"%u\",\"batch.kubernetes.io/job-completion-index\":\"%u\","
             "\"batch.kubernetes.io/job-name\":\"%s\"",
             job, index, of);
    put_kind_pod(
        volcano,
        &(struct kind_pod){
            .name = name, .api = "batch/v1", .kind = "Job", .of = of, .labels = labels, .node = node});
}

/* Of two Jobs of two pods; the annotation stands on the set. */
static void put_jobset(struct gt_volcano *volcano)
{
    put_owner(volcano, "jobsets",
              "\"name\":\"set\",\"annotations\":{\"metax-tech.com/gpu-group-size\":\"32\"}",
              "\"replicatedJobs\":[{\"name\":\"node\",\"replicas\":2,\"template\":{\"spec\":{"
              "\"parallelism\":2,\"completions\":2,\"template\":{%s}}}}]",
              PODS_OF_8);
    for (unsigned i = 0; i < 4; i++)
        put_jobset_pod(volcano, i / 2, i % 2, GT_VOLCANO_NO_NODE);
}

static uint32_t add_child(struct session *session, unsigned job)
{
    char name[32];
    snprintf(name, sizeof(name), "podgroup-%u", job);
    new_group(session, name, 1);
    uint32_t first = session->task_count;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "set-node-%u-%u", job, i);
        add_task(session, name, GT_VOLCANO_NO_NODE);
    }
    return first;
}

static void test_a_jobset(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[4];
    put_jobset(volcano);
    begin(&session);
    uint32_t second = add_child(&session, 1), first = add_child(&session, 0);
    open_session(volcano, &session);
    check_ranks(volcano, first, 2, 0);
    check_ranks(volcano, second, 2, 2);
    place_all(volcano, first, 1, nodes);
    assert_false(gt_volcano_is_ready(volcano, first));
    place_all(volcano, first + 1, 1, nodes + 1);
    assert_true(gt_volcano_is_ready(volcano, first));
    place_all(volcano, second, 2, nodes + 2);
    assert_true(gt_volcano_is_ready(volcano, second));
    check_units(nodes, 4, 4, 8);
    gt_volcano_free(volcano);
}

/* Nothing begins before the PodGroup of the other Job is there and admitted, and no other job comes between:
 * in the first rack two nodes would be left, which suit it best. */
static void test_a_late_pod_group(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[4], node;
    put_jobset(volcano);
    for (unsigned late = 0; late < 2; late++) {
        begin(&session);
        uint32_t first = add_child(&session, 0);
        if (late) {
            add_child(&session, 1);
            session.groups[1].waits = true;
        }
        open_session(volcano, &session);
        assert_int_equal(gt_volcano_place(volcano, first, &node, volcano_error), -EAGAIN);
        assert_string_equal(volcano_error, "the PodGroup of pod set-node-1-0 of the same job is not there "
                                           "yet, or its queue has not admitted it");
        assert_false(gt_volcano_wants_room(volcano, first));
    }
    gt_volcano_admitted(volcano, 2);
    assert_true(gt_volcano_wants_room(volcano, 0));
    place_all(volcano, 0, 4, nodes);
    check_units(nodes, 4, 4, 8);
    gt_volcano_free(volcano);
}

/* ---- a StatefulSet of two units that was made smaller by two pods ---- */

static void test_a_smaller_job(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t rank;
    put_owner(volcano, "statefulsets", "\"name\":\"s\"", "\"replicas\":6,\"template\":{%s}", units_of_32);
    for (unsigned i = 0; i < 6; i++) {
        char name[8], size[96];
        snprintf(name, sizeof(name), "s-%u", i);
        snprintf(size, sizeof(size), "32\",\"" GT_PLAN_ANNOTATION_RANK "\":\"%u", i);
        put_kind_pod(volcano, &(struct kind_pod){.name = name,
                                                 .api = "apps/v1",
                                                 .kind = "StatefulSet",
                                                 .of = "s",
                                                 .labels = "",
                                                 .size = i == 1 || i == 4 ? "32" : size,
                                                 .node = i == 1 || i == 4 ? GT_VOLCANO_NO_NODE : i});
    }
    begin(&session);
    new_group(&session, "s", 1);
    uint32_t goes_on = add_task(&session, "s-1", GT_VOLCANO_NO_NODE),
             rest = add_task(&session, "s-4", GT_VOLCANO_NO_NODE);
    open_session(volcano, &session);
    check_ranks(volcano, goes_on, 1, 1);
    assert_int_equal(place(volcano, goes_on), 1); /* where its unit is */
    assert_int_equal(gt_volcano_check(volcano, rest, &rank, volcano_error), -EINVAL);
    assert_non_null(
        strstr(volcano_error, "48 GPUs are not a multiple of gpu-group-size 32; its whole units"));
    gt_volcano_free(volcano);
}

/* ---- a LeaderWorkerSet of two groups, whose leaders come first ---- */

static void put_worker(struct gt_volcano *volcano, unsigned group, unsigned index, uint32_t node)
{
    char name[32], of[32] = "vllm", labels[256];
    snprintf(labels, sizeof(labels),
             "\"leaderworkerset.sigs.k8s.io/name\":\"vllm\",\"leaderworkerset.sigs.k8s.io/"
             "worker-index\":\"%u\",\"leaderworkerset.sigs.k8s.io/group-index\":\"%u\"",
             index, group);
    if (index)
        snprintf(of, sizeof(of), "vllm-%u", group);
    snprintf(name, sizeof(name), "%s-%u", of, index ? index : group);
    put_kind_pod(volcano, &(struct kind_pod){.name = name,
                                             .api = "apps/v1",
                                             .kind = "StatefulSet",
                                             .of = of,
                                             .labels = labels,
                                             .size = "group",
                                             .node = node});
}

static uint32_t add_workers(struct session *session, unsigned group)
{
    char name[32];
    snprintf(name, sizeof(name), "podgroup-vllm-%u", group);
    new_group(session, name, 1);
    uint32_t first = session->task_count;
    for (unsigned i = 1; i < 4; i++) {
        snprintf(name, sizeof(name), "vllm-%u-%u", group, i);
        add_task(session, name, GT_VOLCANO_NO_NODE);
    }
    return first;
}

static void test_a_leader_worker_set(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[2][4], node;
    put_owner(volcano, "leaderworkersets", "\"name\":\"vllm\"",
              "\"replicas\":2,\"leaderWorkerTemplate\":{\"size\":4,\"workerTemplate\":{%s}}", units_of_group);
    for (unsigned group = 0; group < 2; group++)
        put_worker(volcano, group, 0, GT_VOLCANO_NO_NODE);
    put_job(volcano, "rival", 2, 8, "16");
    begin(&session);
    new_group(&session, "podgroup-leaders", 1);
    uint32_t leaders = add_task(&session, "vllm-0", GT_VOLCANO_NO_NODE);
    add_task(&session, "vllm-1", GT_VOLCANO_NO_NODE);
    open_session(volcano, &session);
    for (unsigned group = 0; group < 2; group++) {
        check_ranks(volcano, leaders + group, 1, 0);
        place_all(volcano, leaders + group, 1, nodes[group]);
        assert_true(gt_volcano_is_ready(volcano, leaders + group));
    }
    gt_volcano_close(volcano);
    /* The workers' places are kept, also against a job that comes before them. */
    for (unsigned group = 0; group < 2; group++)
        for (unsigned i = 0; i < 4; i++)
            put_worker(volcano, group, i, i ? GT_VOLCANO_NO_NODE : nodes[group][0]);
    begin(&session);
    new_group(&session, "podgroup-leaders", 1);
    for (unsigned group = 0; group < 2; group++)
        add_task(&session, group ? "vllm-1" : "vllm-0", nodes[group][0]);
    uint32_t workers[] = {add_workers(&session, 0), add_workers(&session, 1)};
    uint32_t rival = add_group(&session, "rival", 2, 2, NULL);
    open_session(volcano, &session);
    node = place(volcano, rival);
    assert_true(node / NODES_EACH != nodes[0][0] / NODES_EACH &&
                node / NODES_EACH != nodes[1][0] / NODES_EACH);
    for (unsigned group = 0; group < 2; group++) {
        check_ranks(volcano, workers[group], 3, 1);
        place_all(volcano, workers[group], 2, nodes[group] + 1);
        assert_false(gt_volcano_is_ready(volcano, workers[group]));
        place_all(volcano, workers[group] + 2, 1, nodes[group] + 3);
        assert_true(gt_volcano_is_ready(volcano, workers[group]));
        check_units(nodes[group], 4, 4, 8);
    }
    gt_volcano_free(volcano);
}

/* ---- a RayCluster, whose groups are jobs of one PodGroup ---- */

static const char *const ray_names[] = {"demo-big-worker-k2", "demo-big-worker-a7",   "demo-big-worker-x1",
                                        "demo-big-worker-b9", "demo-small-worker-z3", "demo-small-worker-c4"};

static void put_ray(struct gt_volcano *volcano)
{
    put_owner(volcano, "rayclusters", "\"name\":\"demo\"",
              "\"headGroupSpec\":{\"template\":{\"spec\":{\"containers\":[{}]}}},\"workerGroupSpecs\":["
              "{\"groupName\":\"big\",\"replicas\":4,\"template\":{%s}},"
              "{\"groupName\":\"small\",\"replicas\":2,\"template\":{%s}}]",
              units_of_32, units_of_16);
    for (unsigned i = 0; i < 6; i++) {
        char labels[128];
        snprintf(labels, sizeof(labels), "\"ray.io/cluster\":\"demo\",\"ray.io/group\":\"%s\"",
                 i < 4 ? "big" : "small");
        put_kind_pod(volcano, &(struct kind_pod){.name = ray_names[i],
                                                 .api = "ray.io/v1",
                                                 .kind = "RayCluster",
                                                 .of = "demo",
                                                 .labels = labels,
                                                 .size = i < 4 ? "32" : "16",
                                                 .node = GT_VOLCANO_NO_NODE});
    }
}

/* `minimum`: KubeRay's own PodGroups have one over all groups and the head. */
static void check_ray(const char *group, unsigned minimum)
{
    struct gt_volcano *volcano = new_world();
    struct session session;
    static const unsigned by_rank[] = {1, 3, 0, 2, 5, 4}; /* by their names */
    uint32_t nodes[6], first;
    put_ray(volcano);
    begin(&session);
    new_group(&session, group, minimum);
    first = session.task_count;
    for (unsigned i = 0; i < 6; i++)
        add_task(&session, ray_names[by_rank[i]], GT_VOLCANO_NO_NODE);
    open_session(volcano, &session);
    check_ranks(volcano, first, 4, 0);
    check_ranks(volcano, first + 4, 2, 0);
    place_all(volcano, first, 4, nodes);
    assert_true(gt_volcano_is_whole(volcano, first));
    place_all(volcano, first + 4, 1, nodes + 4);
    assert_false(gt_volcano_is_whole(volcano, first)); /* half of the other group's unit */
    assert_false(gt_volcano_is_ready(volcano, first + 4));
    place_all(volcano, first + 5, 1, nodes + 5);
    assert_true(gt_volcano_is_whole(volcano, first));
    assert_true(gt_volcano_is_ready(volcano, first + 4));
    check_units(nodes, 4, 4, 8);
    check_units(nodes + 4, 2, 2, 8);
    gt_volcano_free(volcano);
}

static void test_a_ray_cluster(void **state)
{
    (void)state;
    check_ray("podgroup-demo", 1);
    check_ray("ray-demo-pg", 7);
}

/* ---- a kind that a file describes ---- */

static const char description[] =
    "kinds:\n"
    "- apiVersion: example.com/v1\n"
    "  kind: Training\n"
    "  resource: trainings\n"
    "  labels: {job: example.com/training, role: example.com/role, index: batch.kubernetes.io/"
    "job-completion-index}\n"
    "  child: Job\n"
    "  templates:\n"
    "  - {path: .spec.driver.template, role: driver}\n"
    "  - {each: .spec.groups, path: .template, role: .name, replicas: .size}\n";

static int new_volcano_of(const char *text, struct gt_volcano **ret)
{
    char path[32];
    int file = memfd_create("kinds", MFD_CLOEXEC);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    int r = gt_volcano_new(ret, "", path, volcano_error);
    close(file);
    return r;
}

static void test_a_described_kind(void **state)
{
    (void)state;
    static const char *const groups[] = {"zeta", "alpha"}; /* in the order of the object */
    struct gt_volcano *volcano = NULL;
    struct session session;
    uint32_t nodes[PODS], first = 0;
    char name[32], of[32], labels[256];
    assert_int_equal(new_volcano_of("kinds: [{}]", &volcano), -EINVAL);
    assert_non_null(strstr(volcano_error, "kinds[0].templates: expected a list of 1 to 16 templates"));
    assert_int_equal(new_volcano_of(description, &volcano), 0);
    fill_world(volcano);
    put_owner(volcano, "trainings", "\"name\":\"x\"",
              "\"driver\":{\"template\":{\"spec\":{\"containers\":[{}]}}},\"groups\":["
              "{\"name\":\"zeta\",\"size\":2,\"template\":{%s}},"
              "{\"name\":\"alpha\",\"size\":6,\"template\":{%s}}]",
              units_of_32, units_of_32);
    begin(&session);
    for (unsigned i = 0; i < PODS; i++) {
        const char *role = groups[i >= 2];
        snprintf(of, sizeof(of), "x-%s", role);
        snprintf(name, sizeof(name), "%s-%u", of, i < 2 ? i : i - 2);
        snprintf(labels, sizeof(labels),
                 "\"example.com/training\":\"x\",\"example.com/role\":\"%s\",\"batch.kubernetes.io/"
                 "job-name\":\"%s\",\"batch.kubernetes.io/job-completion-index\":\"%u\"",
                 role, of, i < 2 ? i : i - 2);
        put_kind_pod(volcano, &(struct kind_pod){.name = name,
                                                 .api = "batch/v1",
                                                 .kind = "Job",
                                                 .of = of,
                                                 .labels = labels,
                                                 .size = "32",
                                                 .node = GT_VOLCANO_NO_NODE});
        if (!i || i == 2)
            new_group(&session, i ? "podgroup-alpha" : "podgroup-zeta", 1);
        add_task(&session, name, GT_VOLCANO_NO_NODE);
    }
    open_session(volcano, &session);
    check_ranks(volcano, first, PODS, 0);
    place_all(volcano, first, PODS, nodes);
    check_units(nodes, PODS, 4, 8);
    assert_true(gt_volcano_is_ready(volcano, first) && gt_volcano_is_ready(volcano, first + 2));
    gt_volcano_free(volcano);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_jobset),      cmocka_unit_test(test_a_late_pod_group),
        cmocka_unit_test(test_a_smaller_job), cmocka_unit_test(test_a_leader_worker_set),
        cmocka_unit_test(test_a_ray_cluster), cmocka_unit_test(test_a_described_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
