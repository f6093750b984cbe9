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
#include "api/resource_quota.h"
#include "base/buf.h"

#define METADATA     "\"metadata\":{\"namespace\":\"ns\",\"name\":\"q\"},"
#define HARD(amount) "\"hard\":{\"requests.metax-tech.com/gpu\":" amount "}"
#define USED(amount) "\"used\":{\"requests.metax-tech.com/gpu\":" amount "}"

static int read_text(const char *text, struct gt_resource_quota **ret, struct gt_err **err)
{
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    int r = gt_resource_quota_read(json, GT_RESOURCE_GPU, ret, err);
    cJSON_Delete(json);
    return r;
}

static struct gt_resource_quota *get(const char *text)
{
    struct gt_resource_quota *quota = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (read_text(text, &quota, &err) < 0)
        fail_msg("%s: %s", text, gt_err_text(err));
    return quota;
}

static void test_amounts(void **state)
{
    static const struct {
        const char *text;
        uint64_t hard, used;
    } cases[] = {
        {"{" METADATA "\"spec\":{" HARD("\"64\"") "}}", 64, 0}, /* the status is not written yet */
        {"{" METADATA "\"spec\":{" HARD("\"1k\"") "},\"status\":{" HARD("\"64\"") "," USED("\"40\"") "}}", 64,
         40},
        {"{" METADATA "\"spec\":{" HARD("\"8\"") "},\"status\":{" HARD("\"64\"") "," USED("\"40\"") "}}", 8,
         40},
        {"{" METADATA "\"spec\":{" HARD("\"1E\"") "}}", UINT64_C(10000000000000000), 0},
        {"{" METADATA "\"spec\":{" HARD("\"0\"") "},\"status\":{" USED("\"-1\"") "}}", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_free struct gt_resource_quota *quota = get(cases[i].text);
        assert_non_null(quota);
        assert_string_equal(quota->namespace_, "ns");
        assert_string_equal(quota->name, "q");
        assert_int_equal(quota->hard, cases[i].hard);
        assert_int_equal(quota->used, cases[i].used);
    }
}

/* The API server lets the bare name are in a quota, and goes by "requests." alone. */
static void test_others(void **state)
{
    (void)state;
    assert_null(get("{" METADATA "\"spec\":{\"hard\":{\"pods\":\"3\",\"metax-tech.com/gpu\":\"8\","
                    "\"limits.metax-tech.com/gpu\":\"8\",\"requests.nvidia.com/gpu\":\"8\"}}}"));
    assert_null(get("{" METADATA "\"status\":{" HARD("\"8\"") "}}")); /* it was taken out */
    assert_null(get("{" METADATA "\"spec\":{}}"));
}

static void test_nonsense(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{}", "metadata.name"},
        {"{" METADATA "\"spec\":{" HARD("8") "}}",
         "spec.hard.requests.metax-tech.com/gpu: expected a quantity"},
        {"{" METADATA "\"spec\":{" HARD("\"8x\"") "}}", "is no whole number"},
        {"{" METADATA "\"spec\":{" HARD("\"500m\"") "}}", "is no whole number"},
        {"{" METADATA "\"spec\":{" HARD("\"8\"") ",\"scopes\":\"x\"}}", "scopes"},
        {"{" METADATA "\"spec\":{" HARD("\"8\"") ",\"scopeSelector\":{\"matchExpressions\":[{\"scopeName\":"
                                                 "\"PriorityClass\"}]}}}",
         "scopeSelector.operator"},
        {"{" METADATA "\"spec\":{" HARD("\"8\"") ",\"scopeSelector\":{\"matchExpressions\":[{\"scopeName\":"
                                                 "\"PriorityClass\",\"operator\":\"In\",\"values\":[1]}]}}}",
         "values"},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct gt_resource_quota *quota = NULL;
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(read_text(cases[i].text, &quota, &err), -EINVAL);
        assert_null(quota);
        if (!strstr(gt_err_text(err), cases[i].says))
            fail_msg("%s", gt_err_text(err));
    }
}

/* As the API server's evaluator of pods has it. */
static void test_scopes(void **state)
{
    const struct gt_quota_pod plain = {.priority_class = NULL}, high = {.priority_class = "high"},
                              low = {.priority_class = "low", .has_deadline = true, .best_effort = true};
    static const struct {
        const char *spec;
        bool plain, high, low;
    } cases[] = {
        {"\"scopes\":[]", true, true, true},
        {"\"scopes\":[\"Terminating\"]", false, false, true},
        {"\"scopes\":[\"NotTerminating\"]", true, true, false},
        {"\"scopes\":[\"BestEffort\"]", false, false, true},
        {"\"scopes\":[\"NotBestEffort\"]", true, true, false},
        {"\"scopes\":[\"PriorityClass\"]", false, true, true},
        {"\"scopes\":[\"PriorityClass\",\"NotTerminating\"]", false, true, false},
        {"\"scopes\":[\"CrossNamespacePodAffinity\"]", false, false, false},
        {"\"scopes\":[\"OfTomorrow\"]", false, false, false},
#define CLASS(operator, values)                                                                              \
    "\"scopeSelector\":{\"matchExpressions\":[{\"scopeName\":\"PriorityClass\",\"operator\":\""              \
    operator"\"" values "}]}"
        {CLASS("In", ",\"values\":[\"high\",\"top\"]"), false, true, false},
        {CLASS("NotIn", ",\"values\":[\"high\"]"), true, false, true},
        {CLASS("Exists", ""), false, true, true},
        {CLASS("DoesNotExist", ""), true, false, false},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        char text[512];
        snprintf(text, sizeof(text), "{" METADATA "\"spec\":{" HARD("\"8\"") ",%s}}", cases[i].spec);
        gt_auto_free struct gt_resource_quota *quota = get(text);
        assert_non_null(quota);
        assert_int_equal(gt_resource_quota_matches(quota, &plain), cases[i].plain);
        assert_int_equal(gt_resource_quota_matches(quota, &high), cases[i].high);
        assert_int_equal(gt_resource_quota_matches(quota, &low), cases[i].low);
    }
}

static void test_too_many_values(void **state)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_resource_quota *quota = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    (void)state;
    gt_buf_puts(&text, "{" METADATA "\"spec\":{" HARD(
                           "\"8\"") ",\"scopeSelector\":{\"matchExpressions\":[{"
                                    "\"scopeName\":\"PriorityClass\",\"operator\":\"In\",\"values\":[\"a\"");
    for (unsigned i = 0; i < GT_QUOTA_VALUES_MAX; i++)
        gt_buf_puts(&text, ",\"a\"");
    gt_buf_puts(&text, "]}]}}}");
    assert_int_equal(read_text(text.data, &quota, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amounts),         cmocka_unit_test(test_others),
        cmocka_unit_test(test_nonsense),        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_too_many_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
