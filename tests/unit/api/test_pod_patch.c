/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/pod_patch.h"
#include "base/json.h"
#include "tests/unit/api/apply_patch.h"

/* What is written on a pod is read again, and the data of others stays. */

#define GPUS "\"resources\":{\"limits\":{\"" GT_RESOURCE_GPU "\":\"4\",\"cpu\":\"1\"}}"
#define POD(metadata, spec)                                                                                  \
    "{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"resourceVersion\":\"7\"" metadata "},\"spec\":{" spec     \
    "\"containers\":[{\"name\":\"c\"},{\"name\":\"main\"," GPUS "}]}}"

static cJSON *parsed(const char *text)
{
    cJSON *json = cJSON_Parse(text);
    if (!json)
        fail_msg("no JSON: %s", text);
    return json;
}

static const struct gt_pair plan[] = {
    {GT_PLAN_ANNOTATION_GPUS, "{}"}, {GT_PLAN_ANNOTATION_NODE, "n\"1"}, {GT_PLAN_ANNOTATION_RANK, "3"}};

static void check_plan(const struct gt_pod *pod)
{
    assert_null(pod->invalid);
    assert_string_equal(pod->plan_node, "n\"1");
    assert_string_equal(pod->plan_gpus, "{}");
    assert_string_equal(gt_pod_annotation(&pod->meta, GT_KEY_PLAN_RANK), "3");
    const cJSON *field = cJSON_GetArrayItem(cJSON_GetObjectItem(pod->where.terms->child, "matchFields"), 0);
    assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(field, "values"), 0)->valuestring, "n\"1");
}

/* ---- on one that is there ---- */

static void a_merge_patch_keeps_what_is_not_ours(void **state)
{
    (void)state;
    gt_auto_json cJSON *object =
        parsed(POD(",\"annotations\":{\"mine\":\"1\"}",
                   "\"schedulingGates\":[{\"name\":\"a\"},{\"name\":\"" GT_GATE "\"},{\"name\":\"b\"}],"));
    cJSON_AddItemToObject(object, "status",
                          parsed("{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"Ready\",\"x\":1},"
                                 "{\"type\":\"" GT_CONDITION_PLACEMENT "\",\"reason\":\"Old\"}]}"));
    const struct gt_condition condition = {GT_CONDITION_TRUE, "Planned", "on \"n\"", "2026-01-01T00:00:00Z"};
    gt_auto_buf struct gt_buf body = GT_BUF(1 << 16);
    struct gt_pod_lists lists;
    struct gt_pod pod;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    assert_true(pod.gated && pod.other_gates);
    assert_int_equal(gt_pod_lists_read(&pod, &lists, NULL), 0);
    gt_pod_patch_write(&(struct gt_pod_patch){.uid = "u",
                                              .resource_version = "7",
                                              .annotations = plan,
                                              .annotation_count = GT_COUNT(plan),
                                              .lists = &lists,
                                              .ungate = true,
                                              .node = "n\"1",
                                              .placement = &condition,
                                              .nominates = true,
                                              .nominated_node = "n2"},
                       &body);
    gt_pod_lists_done(&lists);
    gt_auto_json cJSON *patch = parsed(body.data);
    apply_merge_patch(object, patch);
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    check_plan(&pod);
    assert_non_null(cJSON_GetObjectItem(pod.annotations, "mine"));
    assert_false(pod.gated);
    assert_int_equal(pod.gate_count, 2);
    assert_string_equal(pod.nominated_node, "n2");
    assert_int_equal(cJSON_GetArraySize(pod.condition_list), 2);
    assert_non_null(cJSON_GetObjectItem(pod.condition_list->child, "x"));
    assert_int_equal(pod.conditions[GT_POD_PLACEMENT].status, GT_CONDITION_TRUE);
    assert_string_equal(pod.conditions[GT_POD_PLACEMENT].message, condition.message);
    assert_string_equal(pod.conditions[GT_POD_PLACEMENT].since, condition.since);
}

static void a_patch_says_no_more_than_it_has_to(void **state)
{
    (void)state;
    const struct gt_pair pair = {"k", "v"};
    const struct gt_pod_lists none = {0};
    const struct {
        struct gt_pod_patch patch;
        const char *text;
    } cases[] = {
        {{.uid = "u", .annotations = &pair, .annotation_count = 1},
         "{\"metadata\":{\"uid\":\"u\",\"annotations\":{\"k\":\"v\"}}}"},
        {{.resource_version = "7", .lists = &none, .ungate = true},
         "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"schedulingGates\":null}}"},
        {{.nominates = true}, "{\"metadata\":{},\"status\":{\"nominatedNodeName\":null}}"},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_buf struct gt_buf body = GT_BUF(4096);
        gt_pod_patch_write(&cases[i].patch, &body);
        assert_string_equal(body.data, cases[i].text);
    }
}

/* If a text is too long, what the user wrote must not be lost. */
static void long_lists_are_refused(void **state)
{
    (void)state;
    static char name[GT_POD_LISTS_MAX + 1];
    struct gt_pod_lists lists;
    struct gt_pod pod;
    memset(name, 'x', sizeof(name) - 1);
    gt_auto_json cJSON *object = parsed(POD("", "\"schedulingGates\":[{\"name\":\"" GT_GATE "\"},{}],"));
    cJSON *gate =
        cJSON_GetArrayItem(cJSON_GetObjectItem(cJSON_GetObjectItem(object, "spec"), "schedulingGates"), 1);
    cJSON_AddStringToObject(gate, "name", name);
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    assert_true(gt_pod_lists_read(&pod, &lists, NULL) < 0);
}

static void what_is_removed_is_named(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf body = GT_BUF(4096);
    gt_delete_options_write("u", "7", &body);
    assert_string_equal(body.data, "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"preconditions\":{"
                                   "\"uid\":\"u\",\"resourceVersion\":\"7\"}}");
    gt_buf_done(&body);
    gt_eviction_write("ns", "p", "u", &body);
    assert_string_equal(
        body.data, "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"namespace\":\"ns\","
                   "\"name\":\"p\"},\"deleteOptions\":{\"preconditions\":{\"uid\":\"u\"}}}");
}

/* ---- on a new one ---- */

/* Applies the operations, each of which has to be possible. */
static void apply(cJSON *object, struct gt_buf *operations)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    const cJSON *operation;
    gt_buf_printf(&text, "[%s]", operations->data ? operations->data : "");
    gt_auto_json cJSON *list = parsed(text.data);
    cJSON_ArrayForEach(operation, list)
    {
        if (!apply_operation(object, operation))
            fail_msg("an operation is not possible: %s", text.data);
    }
    gt_buf_done(operations);
}

static void a_json_patch_makes_a_planned_pod(void **state)
{
    (void)state;
    static const struct {
        const char *metadata, *spec;
    } cases[] = {
        {"", ""},
        {",\"annotations\":{ }", "\"affinity\":{\"podAffinity\":{}},"},
        {",\"annotations\":{\"mine\":\"1\"}", ""},
        {",\"annotations\":{\"mine\":\"1\",\"" GT_PLAN_PREFIX "a~b/c\":\"x\"}", ""},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(4096), operations = GT_BUF(1 << 16);
        struct gt_pod pod;
        gt_buf_printf(&text, POD("%s", "%s"), cases[i].metadata, cases[i].spec);
        gt_auto_json cJSON *object = parsed(text.data);
        gt_pod_read(object, GT_RESOURCE_GPU, &pod);
        gt_pod_json_remove_plan(&pod, &operations);
        gt_pod_json_add_annotations(&pod, plan, GT_COUNT(plan), &operations);
        gt_pod_json_add_node(&pod, "n\"1", &operations);
        gt_pod_json_add_gate(&pod, &operations);
        apply(object, &operations);
        gt_pod_read(object, GT_RESOURCE_GPU, &pod);
        check_plan(&pod);
        assert_true(pod.gated);
        assert_int_equal(cJSON_GetArraySize(pod.annotations), GT_COUNT(plan) + (i > 1));
        assert_int_equal(cJSON_HasObjectItem(pod.affinity, "podAffinity"), i == 1);
        gt_pod_json_add_gate(&pod, &operations); /* to those that are there */
        apply(object, &operations);
        gt_pod_read(object, GT_RESOURCE_GPU, &pod);
        assert_int_equal(pod.gate_count, 2);
    }
}

/* A part of its path would name another value, and an empty one the whole pod. */
static void a_path_that_does_not_fit_is_no_operation(void **state)
{
    (void)state;
    static char key[(1 << 20) + 64];
    gt_auto_buf struct gt_buf operations = GT_BUF(4 << 20);
    struct gt_pod pod;
    memset(key, 'x', sizeof(key) - 1);
    memcpy(key, GT_PLAN_PREFIX, strlen(GT_PLAN_PREFIX));
    gt_auto_json cJSON *object = parsed("{\"metadata\":{\"annotations\":{}}}");
    cJSON_AddStringToObject(cJSON_GetObjectItem(cJSON_GetObjectItem(object, "metadata"), "annotations"), key,
                            "");
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    gt_pod_json_remove_plan(&pod, &operations);
    assert_true(operations.failed);
}

/* Whatever it names already: its GPUs are those that it asked for. */
static void limits_become_a_claim(void **state)
{
    (void)state;
    static const char *const claims[] = {"", "\"resourceClaims\":[{\"name\":\"nic\"}],"};
    for (size_t i = 0; i < GT_COUNT(claims); i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(4096), operations = GT_BUF(1 << 16);
        struct gt_pod before, pod;
        gt_buf_printf(&text, POD("", "%s"), claims[i]);
        gt_auto_json cJSON *object = parsed(text.data);
        cJSON *spec = cJSON_GetObjectItem(object, "spec"),
              *main = cJSON_GetArrayItem(cJSON_GetObjectItem(spec, "containers"), 1);
        if (i)
            cJSON_AddItemToObject(cJSON_GetObjectItem(main, "resources"), "claims",
                                  parsed("[{\"name\":\"nic\"}]"));
        gt_pod_read(object, GT_RESOURCE_GPU, &before);
        assert_true(gt_pod_json_add_claim(object, GT_RESOURCE_GPU, &operations));
        apply(object, &operations);
        gt_pod_read(object, GT_RESOURCE_GPU, &pod);
        assert_string_equal(pod.claim_template, "gputopo-gpus-4");
        assert_int_equal(pod.gpus.total, before.gpus.total);
        assert_string_equal(pod.gpus.names[0], "main");
        assert_true(gt_pod_json_add_claim(object, GT_RESOURCE_GPU, &operations)); /* it has one */
        assert_int_equal(operations.len, 0);
    }
}

static void a_claim_of_the_user_becomes_ours(void **state)
{
    (void)state;
    static const char text[] =
        "{\"spec\":{\"resourceClaims\":[{\"name\":\"nic\",\"resourceClaimName\":\"x\"},"
        "{\"name\":\"gpus\",\"resourceClaimTemplateName\":\"mine\"}],\"containers\":["
        "{\"name\":\"main\",\"resources\":{\"claims\":[{\"name\":\"nic\"},{\"name\":"
        "\"gpus\",\"request\":\"r\"}]}}]}}";
    gt_auto_json cJSON *object = parsed(text), *patched = parsed(text);
    gt_auto_buf struct gt_buf operations = GT_BUF(4096);
    cJSON *spec = cJSON_GetObjectItem(object, "spec");
    struct gt_claim_entry entry = {0};
    struct gt_pod_gpus gpus;
    assert_true(gt_claim_entry_next(spec, &entry));
    assert_string_equal(entry.claim, "x");
    assert_true(gt_claim_entry_next(spec, &entry));
    assert_string_equal(entry.template_, "mine");
    assert_int_equal(entry.at, 1);
    assert_int_equal(gt_claim_uses(spec, entry.name), 1);
    gt_pod_json_replace_claim(spec, &entry, &(struct gt_claim_sizes){1, {8}}, &operations);
    assert_int_equal(gt_pod_gpus_read(spec, GT_RESOURCE_GPU, &gpus, NULL), 0);
    assert_int_equal(gpus.total, 8);
    apply(patched, &operations);
    assert_true(cJSON_Compare(object, patched, true));
    assert_false(gt_claim_entry_next(spec, &entry));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merge_patch_keeps_what_is_not_ours),
        cmocka_unit_test(a_patch_says_no_more_than_it_has_to),
        cmocka_unit_test(long_lists_are_refused),
        cmocka_unit_test(what_is_removed_is_named),
        cmocka_unit_test(a_json_patch_makes_a_planned_pod),
        cmocka_unit_test(a_path_that_does_not_fit_is_no_operation),
        cmocka_unit_test(limits_become_a_claim),
        cmocka_unit_test(a_claim_of_the_user_becomes_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
