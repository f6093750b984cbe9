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
#include "api/workload.h"
#include "base/err.h"

#define METADATA                                                                                             \
    "\"metadata\":{\"namespace\":\"ns\",\"name\":\"w\",\"resourceVersion\":\"7\",\"ownerReferences\":["      \
    "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"name\":\"j\"}]}"
#define TEMPLATE                                                                                             \
    "\"template\":{\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":\"16\"}},\"spec\":{"     \
    "\"nodeSelector\":{\"a\":\"b\"},\"tolerations\":[{\"operator\":\"Exists\"}],\"containers\":[{"           \
    "\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\"}}}]}}"
#define SPEC "\"spec\":{\"priority\":-3,\"podSets\":[{\"name\":\"main\",\"count\":6," TEMPLATE "}]}"
#define RESERVED                                                                                             \
    "{\"type\":\"QuotaReserved\",\"status\":\"True\",\"reason\":\"R\",\"lastTransitionTime\":"               \
    "\"2026-01-01T00:00:00Z\"}"
#define CHECK(name, state)                                                                                   \
    "{\"name\":\"" name "\",\"state\":\"" state "\",\"lastTransitionTime\":\"1970-01-01T00:01:00Z\","        \
    "\"retryCount\":2}"

static int read_text(const char *text, struct gt_workload **ret, struct gt_err **err)
{
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    int r = gt_workload_read(json, GT_RESOURCE_GPU, ret, err);
    cJSON_Delete(json);
    return r;
}

static struct gt_workload *get(const char *text)
{
    struct gt_workload *workload = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (read_text(text, &workload, &err) < 0)
        fail_msg("%s: %s", text, gt_err_text(err));
    return workload;
}

static void test_all_of_it(void **state)
{
    (void)state;
    gt_auto_workload struct gt_workload *workload = get(
        "{" METADATA "," SPEC ",\"status\":{\"conditions\":[" RESERVED "],\"admission\":{"
        "\"podSetAssignments\":[{\"name\":\"main\",\"count\":4,\"flavors\":{\"metax-tech.com/gpu\":\"f\"}}]},"
        "\"admissionChecks\":[" CHECK("a", "Pending") "," CHECK("b", "Retry") "," CHECK("c", "New") "]}}");
    assert_string_equal(workload->namespace_, "ns");
    assert_string_equal(workload->name, "w");
    assert_string_equal(workload->version, "7");
    assert_string_equal(workload->owner_api_version, "batch/v1");
    assert_string_equal(workload->owner_kind, "Job");
    assert_string_equal(workload->owner_name, "j");
    assert_string_equal(workload->reserved_since, "2026-01-01T00:00:00Z");
    assert_true(workload->is_reserved);
    assert_int_equal(workload->priority, -3);
    assert_int_equal(workload->check_count, 3);
    assert_string_equal(workload->checks[1].name, "b");
    assert_int_equal(workload->checks[1].state, GT_CHECK_RETRY);
    assert_int_equal(workload->checks[2].state, GT_CHECK_PENDING);
    assert_int_equal(workload->checks[0].since_s, 60);
    assert_int_equal(workload->checks[0].retries, 2);
    assert_int_equal(workload->pod_set_count, 1);
    assert_non_null(workload->pod_sets[0].where.selector);
    assert_non_null(workload->pod_sets[0].where.tolerations);
    assert_false(workload->pod_sets[0].where.has_terms);
    assert_non_null(workload->pod_sets[0].flavors);
    assert_non_null(workload->job);
    assert_int_equal(workload->job->spec.count, 1);
    assert_int_equal(workload->job->spec.templates[0].replicas, 4); /* as many as are assigned */
    assert_string_equal(workload->job->spec.templates[0].texts.of[GT_KEY_GROUP], "16");
    assert_null(workload->refusal);
}

static void test_who_has_quota(void **state)
{
    static const struct {
        const char *more;
        bool reserved;
    } cases[] = {
        {"", false},
        {"," SPEC ",\"status\":{\"conditions\":[" RESERVED "]}", true},
        {",\"spec\":{\"active\":false},\"status\":{\"conditions\":[" RESERVED "]}", false},
        {",\"status\":{\"conditions\":[" RESERVED
         ",{\"type\":\"Evicted\",\"status\":\"True\",\"reason\":\"R\"}]}",
         false},
        {",\"status\":{\"conditions\":[" RESERVED
         ",{\"type\":\"Evicted\",\"status\":\"False\",\"reason\":\"R\"}]}",
         true},
        {",\"status\":{\"conditions\":[" RESERVED
         ",{\"type\":\"Finished\",\"status\":\"True\",\"reason\":\"R\"}]}",
         false},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        char text[2048];
        snprintf(text, sizeof(text), "{" METADATA "%s}", cases[i].more);
        gt_auto_workload struct gt_workload *workload = get(text);
        assert_int_equal(workload->is_reserved, cases[i].reserved);
    }
}

static void test_nonsense(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"metadata\":{\"name\":7}}",
        "{" METADATA ",\"spec\":{\"podSets\":{}}}",
        "{" METADATA ",\"status\":{\"admissionChecks\":{}}}",
        "{" METADATA ",\"status\":{\"admissionChecks\":[{\"name\":[]}]}}",
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(texts); i++) {
        struct gt_workload *workload = NULL;
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(read_text(texts[i], &workload, &err), -EINVAL);
        assert_null(workload);
        assert_non_null(err);
    }
    gt_auto_workload struct gt_workload *strange =
        get("{" METADATA ",\"spec\":{\"podSets\":[{\"name\":\"main\",\"count\":-1," TEMPLATE "}]}}");
    assert_null(strange->job);
    assert_non_null(strange->refusal);
}

static void test_what_is_written(void **state)
{
    static const char *const names[] = {"a", "b"};
    (void)state;
    gt_auto_workload struct gt_workload *workload = get("{" METADATA "}");
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_workload_write_checks("v1beta2", workload, names, 2,
                             &(struct gt_check_verdict){GT_CHECK_RETRY, "no \"room\"", 20}, 60, &text);
    assert_string_equal(text.data,
                        "{\"apiVersion\":\"kueue.x-k8s.io/"
                        "v1beta2\",\"kind\":\"Workload\",\"metadata\":{\"namespace\":\"ns\",\"name\":\"w\","
                        "\"resourceVersion\":\"7\"},\"status\":{\"admissionChecks\":["
                        "{\"name\":\"a\",\"state\":\"Retry\",\"lastTransitionTime\":\"1970-01-01T00:01:00Z\","
                        "\"message\":\"no \\\"room\\\"\","
                        "\"requeueAfterSeconds\":20},"
                        "{\"name\":\"b\",\"state\":\"Retry\",\"lastTransitionTime\":\"1970-01-01T00:01:00Z\","
                        "\"message\":\"no \\\"room\\\"\","
                        "\"requeueAfterSeconds\":20}]}}");
}

static void test_admission_check(void **state)
{
    (void)state;
    cJSON *json =
        cJSON_Parse("{\"metadata\":{\"name\":\"c\",\"generation\":3},\"spec\":{\"controllerName\":\"x/y\","
                    "\"parameters\":{}},\"status\":{\"conditions\":[{\"type\":\"Active\",\"status\":\"True\","
                    "\"reason\":\"R\",\"observedGeneration\":2}]}}");
    struct gt_admission_check check;
    assert_int_equal(gt_admission_check_read(json, &check, NULL), 0);
    assert_string_equal(check.controller, "x/y");
    assert_true(check.has_parameters);
    assert_int_equal(check.generation, 3);
    assert_int_equal(check.observed, 2);
    assert_int_equal(check.active.status, GT_CONDITION_TRUE);
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_admission_check_write("v1beta1", &check,
                             &(struct gt_condition){GT_CONDITION_FALSE, "No", "why", "when"}, &text);
    assert_string_equal(
        text.data, "{\"apiVersion\":\"kueue.x-k8s.io/v1beta1\",\"kind\":\"AdmissionCheck\",\"metadata\":{"
                   "\"name\":\"c\"},\"status\":{\"conditions\":[{\"type\":\"Active\",\"status\":\"False\","
                   "\"reason\":\"No\",\"message\":\"why\",\"lastTransitionTime\":\"when\","
                   "\"observedGeneration\":3}]}}");
    cJSON_Delete(json);
}

static void test_versions(void **state)
{
    static const struct {
        const char *group, *version;
    } cases[] = {
        {"{\"versions\":[{\"version\":\"v1beta1\"},{\"version\":\"v1beta2\"},{\"version\":\"v1\"}]}",
         "v1beta2"},
        {"{\"versions\":[{},{\"version\":\"v1beta1\"}]}", "v1beta1"},
        {"{\"versions\":[{\"version\":\"v1\"}]}", NULL},
        {"{\"versions\":\"v1beta2\"}", NULL},
        {"[]", NULL},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        cJSON *group = cJSON_Parse(cases[i].group);
        const char *version = gt_kueue_version(group);
        assert_string_equal(version ? version : "none", cases[i].version ? cases[i].version : "none");
        cJSON_Delete(group);
    }
    assert_null(gt_kueue_version(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it),       cmocka_unit_test(test_who_has_quota),
        cmocka_unit_test(test_nonsense),        cmocka_unit_test(test_what_is_written),
        cmocka_unit_test(test_admission_check), cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
