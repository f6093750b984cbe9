/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/custom_kinds.h"
#include "kube/yaml.h"
#include "scheduler-ext/owners/owners.h"

/* Kinds of jobs that an administrator describes. */

#define RESOURCE "metax-tech.com/gpu"
#define TEMPLATE(gpus)                                                                                       \
    "{\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":\"32\"}},\"spec\":{\"containers\":["  \
    "{\"name\":\"m\",\"resources\":{\"limits\":{\"" RESOURCE "\":" gpus "}}}]}}"

static int load(const char *text, struct gt_err **err)
{
    cJSON *document = NULL;
    if (gt_yaml_read(text, strlen(text), &document, err) < 0)
        fail_msg("the test wrote no YAML: %s", text);
    int r = gt_custom_kinds_load(document, "kinds.yaml", err);
    cJSON_Delete(document);
    return r;
}

static const char training[] =
    "kinds:\n"
    "- apiVersion: example.com/v1\n"
    "  kind: Training\n"
    "  resource: trainings\n"
    "  labels: {job: example.com/training, role: example.com/role,\n"
    "           index: batch.kubernetes.io/job-completion-index}\n"
    "  child: Job\n"
    "  templates:\n"
    "  - {path: .spec.driver.pod, role: driver}\n"
    "  - {each: .spec.groups, path: .pod, role: .name, replicas: .size}\n"
    "  minimum: .spec.least\n"
    "  suspend: .spec.paused\n"
    "  ended: {conditions: [Done, Failed], path: .status.state, values: [COMPLETED]}\n"
    "- apiVersion: example.com/v1\n"
    "  kind: Serving\n"
    "  resource: servings\n"
    "  labels: {role: example.com/role}\n"
    "  templates: [{each: .spec.roles, path: .template, replicas: .replicas}]\n";

static struct gt_owner *read_custom_owner(unsigned number, const char *text)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_owner *owner = NULL;
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    if (gt_owner_read((enum gt_job_kind)(GT_JOB_CUSTOM + number), json, RESOURCE, &owner, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    cJSON_Delete(json);
    return owner;
}

#define TRAINING(spec, status)                                                                               \
    "{\"metadata\":{\"name\":\"x\"},\"spec\":{" spec "\"driver\":{\"pod\":" TEMPLATE(                        \
        "0") "},\"groups\":["                                                                                \
             "{\"name\":\"a\",\"size\":4,\"pod\":" TEMPLATE(                                                 \
                 "8") "},{\"name\":\"b\",\"size\":2,\"pod\":" TEMPLATE("16") "}]},\"status\":{" status "}}"

static void test_an_object(void **state)
{
    (void)state;
    gt_auto_owner struct gt_owner *owner = read_custom_owner(0, TRAINING("", ""));
    gt_auto_job struct gt_job *job = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(owner->spec.count, 3);
    assert_string_equal(owner->spec.templates[0].role, "driver");
    assert_string_equal(owner->spec.templates[2].role, "b");
    if (gt_owner_check(owner, &job, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    assert_int_equal(job->member_count, 6);
    assert_int_equal(job->units.count, 2);
    assert_int_equal(job->units.units[1].pods, 2);
    assert_false(owner->stopped);
    static const char *const stopped[] = {
        TRAINING("\"paused\":true,", ""), TRAINING("", "\"state\":\"COMPLETED\""),
        TRAINING("", "\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\"}]")};
    for (unsigned i = 0; i < GT_COUNT(stopped); i++) {
        gt_auto_owner struct gt_owner *over = read_custom_owner(0, stopped[i]);
        assert_true(over->stopped);
    }
    gt_auto_owner struct gt_owner *least =
        read_custom_owner(0, TRAINING("\"least\":5,", "\"state\":\"RUNNING\""));
    assert_int_equal(least->spec.minimum, 5);
    assert_false(least->stopped);
    /* Entries of a map: the role is the key. */
    gt_auto_owner struct gt_owner *map = read_custom_owner(
        1, "{\"spec\":{\"roles\":{\"prefill\":{\"replicas\":4,\"template\":" TEMPLATE("8") "}}}}");
    assert_string_equal(map->spec.templates[0].role, "prefill");
    assert_int_equal(map->spec.templates[0].replicas, 4);
}

static void see_template(void *arg, cJSON *spec)
{
    assert_non_null(cJSON_GetObjectItem(spec, "containers"));
    ++*(unsigned *)arg;
}

/* Whatever their member is called. */
static void test_each_template(void **state)
{
    (void)state;
    unsigned seen = 0;
    cJSON *json = cJSON_Parse(TRAINING("", ""));
    gt_owner_each_template(json, see_template, &seen);
    cJSON_Delete(json);
    assert_int_equal(seen, 3);
}

static void check_identity(const struct gt_pod_meta *pod, const char *key, const char *role, int index)
{
    struct gt_pod_identity identity;
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(256);
    if (gt_pod_identify(pod, &identity, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    gt_job_key(pod, &identity, &text);
    assert_string_equal(text.data, key);
    assert_string_equal(identity.role, role);
    assert_int_equal(identity.has_index ? (int)identity.index : -1, index);
}

/* Its pods are made by Jobs, which have a kind of their own: the described kind comes first. */
static void test_a_pod(void **state)
{
    (void)state;
    const struct gt_pair labels[] = {{gt_pod_key_text(gt_pod_key_of("example.com/training")), "x"},
                                     {gt_pod_key_text(gt_pod_key_of("example.com/role")), "a"},
                                     {gt_pod_key_text(GT_KEY_JOB_INDEX), "3"},
                                     {gt_pod_key_text(GT_KEY_JOB), "x-a"}};
    struct gt_pod_meta pod = {.namespace_ = "ns",
                              .name = "x-a-3",
                              .labels = labels,
                              .label_count = 4,
                              .owner_kind = "Job",
                              .owner_name = "x-a",
                              .owner_controls = true};
    check_identity(&pod, "ns/Training/x", "a", 3);
    pod = (struct gt_pod_meta){.namespace_ = "ns",
                               .name = "y-7f",
                               .labels = labels + 1,
                               .label_count = 1,
                               .owner_kind = "Serving",
                               .owner_name = "y",
                               .owner_controls = true};
    check_identity(&pod, "ns/Serving/y", "a", -1);
    assert_true(gt_job_kind_is_nameless((enum gt_job_kind)(GT_JOB_CUSTOM + 1)));
    assert_int_equal(gt_owner_kind_of("example.com/v1", "Serving"), GT_JOB_CUSTOM + 1);
}

#define KIND(more) "kinds: [{apiVersion: e.com/v1, kind: K, resource: ks, " more "}]"
#define PATHS      "templates: [{path: .spec.template}]"

static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"kinds: 1", "kinds.yaml: kinds: expected a list of at most 8 kinds"},
        {"kind: []", "kinds.yaml: kind: there is no such member, did you mean kinds?"},
        {"kinds: [{}]", "kinds.yaml: kinds[0].templates: expected a list of 1 to 16 templates"},
        {KIND("template: x"),
         "kinds.yaml: kinds[0].template: there is no such member, did you mean templates?"},
        {KIND("templates: [{}]"),
         "kinds.yaml: kinds[0].templates[0].path: it is missing: the path of a pod's template"},
        {KIND("templates: [{path: spec.template}]"),
         "kinds.yaml: kinds[0].templates[0].path: expected a path such as .spec.worker.replicas"},
        {KIND("templates: [{path: .status.template}]"),
         "kinds.yaml: kinds[0].templates[0].path: expected a path such as .spec.worker.replicas"},
        {KIND("templates: [{path: .spec..template}]"),
         "kinds.yaml: kinds[0].templates[0].path: expected a path such as .spec.worker.replicas"},
        {KIND("templates: [{path: .spec.template, role: [a]}]"),
         "kinds.yaml: kinds[0].templates[0].role: it is an array, expected a text"},
        {KIND(PATHS ", child: [Job]"), "kinds.yaml: kinds[0].child: it is an array, expected a text"},
        {KIND(PATHS ", labels: {name: a}"), "kinds.yaml: kinds[0].labels.name: there is no such member"},
        {KIND(PATHS ", labels: {job: []}"), "kinds.yaml: kinds[0].labels: job is no name of a label"},
        {KIND(PATHS ", child: Job"),
         "kinds.yaml: kinds[0].child: labels.job is missing, by which its objects and pods are known"},
        {KIND(PATHS ", ended: {path: .status.state}"),
         "kinds.yaml: kinds[0].ended.values: path and values go together"},
        {KIND(PATHS ", ended: {conditions: Done}"),
         "kinds.yaml: kinds[0].ended.conditions: expected a list of 1 to 16 texts"},
        {"kinds: [{apiVersion: v1, kind: K, resource: ks, " PATHS "}]",
         "kinds.yaml: kinds[0].apiVersion: expected GROUP/VERSION"},
        {"kinds: [{apiVersion: e.com/v1, kind: K, " PATHS "}]",
         "kinds.yaml: kinds[0].resource: expected the name of the resource, for instance trainings"},
        {"kinds: [{apiVersion: kubeflow.org/v2, kind: PyTorchJob, resource: x, " PATHS "}]",
         "kinds.yaml: kinds[0].kind: PyTorchJob of kubeflow.org/v2 is known already"},
        {"kinds: [{apiVersion: e.com/v1, kind: K, resource: ks, " PATHS
         "}, {apiVersion: e.com/v1, kind: K, resource: ks, " PATHS "}]",
         "kinds.yaml: kinds[1].kind: K of e.com/v1 is known already"},
        {"kinds: [{apiVersion: e.com/v1/ks, kind: K, resource: ks, " PATHS "}]",
         "kinds.yaml: kinds[0].apiVersion: expected GROUP/VERSION"},
        {"kinds: [{apiVersion: E.com/v1, kind: K, resource: ks, " PATHS "}]",
         "kinds.yaml: kinds[0].apiVersion: expected GROUP/VERSION"},
        {"kinds: [{apiVersion: e.com/v1, kind: ks.e.com, resource: ks, " PATHS "}]",
         "kinds.yaml: kinds[0].kind: expected a kind, for instance Training"},
        {"kinds: [{apiVersion: e.com/v1, kind: K, resource: Ks, " PATHS "}]",
         "kinds.yaml: kinds[0].resource: expected the name of the resource, for instance trainings"},
        {"kinds: [{apiVersion: e.com/v1, kind: K, resource: ks.e.com, " PATHS "}]",
         "kinds.yaml: kinds[0].resource: expected the name of the resource, for instance trainings"},
        {KIND("templates: [{path: '.spec.groups[*].template'}]"),
         "kinds.yaml: kinds[0].templates[0].path: expected a path such as .spec.worker.replicas"},
        {KIND(PATHS ", labels: {job: e.com/my job}"),
         "kinds.yaml: kinds[0].labels: job is no name of a label"},
        {KIND(PATHS ", labels: {job: e.com/x/job}"),
         "kinds.yaml: kinds[0].labels: job is no name of a label"},
        {KIND(PATHS ", labels: {job: e.com/job, index: e.com/job}"),
         "kinds.yaml: kinds[0].labels: job and index are the same label"},
        {KIND(PATHS ", labels: {job: e.com/job}, child: batch/v1/Job"),
         "kinds.yaml: kinds[0].child: expected a kind, for instance Job"},
        {KIND(PATHS ", ended: {}"), "kinds.yaml: kinds[0].ended: expected conditions, or path and values"},
        {KIND("templates: [{path: .spec.a}, {path: .spec.b}]"),
         "kinds.yaml: kinds[0].labels.role: it is missing, by which the pods of several templates are known"},
        {KIND("templates: [{each: .spec.a, path: .b}]"),
         "kinds.yaml: kinds[0].labels.role: it is missing, by which the pods of several templates are known"},
        {KIND("labels: {role: r}, templates: [{path: .spec.a, role: x}, {path: .spec.b}]"),
         "kinds.yaml: kinds[0].templates[1].role: it is missing: pods have one in the label r"},
        {KIND("labels: {role: r}, templates: [{path: .spec.a, role: x}, {path: .spec.b, role: x}]"),
         "kinds.yaml: kinds[0].templates[1].role: templates[0] has x, too"},
        {"kinds: [{apiVersion: e.com/v1, kind: K, resource: ks, labels: {job: j}, " PATHS
         "}, {apiVersion: e.com/v1, kind: L, resource: ls, labels: {job: j}, " PATHS "}]",
         "kinds.yaml: kinds[1].labels.job: the pods of kinds[0] have j, too"},
        {KIND(PATHS ", child: Job, labels: {job: batch.kubernetes.io/job-name}"),
         "kinds.yaml: kinds[0].labels.job: pods of other kinds have batch.kubernetes.io/job-name, too"},
    };
    for (unsigned i = 0; i < GT_COUNT(bad); i++) {
        gt_auto_err struct gt_err *err = NULL;
        assert_true(load(bad[i].text, &err) < 0);
        assert_string_equal(gt_err_text(err), bad[i].says);
        assert_int_equal(gt_owner_kind_of("e.com/v1", "K"), GT_JOB_KINDS);
    }
}

static int load_training(void **state)
{
    (void)state;
    gt_auto_err struct gt_err *err = NULL;
    if (load(training, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_an_object, load_training),
        cmocka_unit_test_setup(test_each_template, load_training),
        cmocka_unit_test_setup(test_a_pod, load_training),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
