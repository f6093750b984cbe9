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
#include "api/node.h"
#include "base/err.h"

static int read_text(const char *text, struct gt_node_object *ret, cJSON **ret_json, struct gt_err **err)
{
    *ret_json = cJSON_Parse(text);
    return gt_node_object_read(*ret_json, GT_RESOURCE_GPU, ret, err);
}

static void a_whole_node(void **state)
{
    gt_auto_node_object struct gt_node_object got = {0};
    gt_auto_err struct gt_err *err = NULL;
    cJSON *json;
    (void)state;
    if (read_text("{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":\"7\","
                  "\"labels\":{\"b\":\"2\",\"a\":\"\"},"
                  "\"annotations\":{\"metax-tech.com/node-gpu-devices\":\"[]\"}},"
                  "\"spec\":{\"unschedulable\":true,\"taints\":[{\"key\":\"k\",\"effect\":\"NoSchedule\"},"
                  "{\"key\":\"k2\",\"value\":\"v\",\"effect\":\"PreferNoSchedule\"}]},"
                  "\"status\":{\"capacity\":{\"metax-tech.com/gpu\":\"8\"},"
                  "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"KubeletReady\"}]}}",
                  &got, &json, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    assert_string_equal(got.name, "n1");
    assert_string_equal(got.uid, "u");
    assert_string_equal(got.resource_version, "7");
    assert_int_equal(got.label_count, 2);
    assert_string_equal(gt_node_object_label(&got, "b"), "2");
    assert_string_equal(gt_node_object_label(&got, "a"), "");
    assert_null(gt_node_object_label(&got, "c"));
    assert_string_equal(got.vendor_gpus, "[]");
    assert_true(got.cordoned && got.ready);
    assert_int_equal(got.taint_count, 2);
    assert_string_equal(got.taints[0].value, "");
    assert_string_equal(got.taints[1].value, "v");
    assert_int_equal(got.gpus, 8);
    cJSON_Delete(json);
}

static void metadata_alone(void **state)
{
    gt_auto_node_object struct gt_node_object got = {0};
    cJSON *json;
    (void)state;
    assert_int_equal(read_text("{\"metadata\":{\"name\":\"n1\"}}", &got, &json, NULL), 0);
    assert_false(got.ready || got.cordoned || got.gpus || got.label_count || got.taint_count);
    assert_string_equal(got.uid, "");
    assert_null(got.vendor_gpus);
    cJSON_Delete(json);
}

static void capacity_is_a_quantity(void **state)
{
    static const struct {
        const char *capacity;
        unsigned gpus;
    } cases[] = {{"\"8\"", 8},  {"8", 8},     {"\"1e1\"", 10}, {"\"8000m\"", 8},
                 {"\"-8\"", 0}, {"\"x\"", 0}, {"8.5", 0}};
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_node_object struct gt_node_object got = {0};
        char text[160];
        cJSON *json;
        snprintf(text, sizeof(text),
                 "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"capacity\":{\"metax-tech.com/gpu\":%s}}}",
                 cases[i].capacity);
        assert_int_equal(read_text(text, &got, &json, NULL), 0);
        assert_int_equal(got.gpus, cases[i].gpus);
        cJSON_Delete(json);
    }
}

static void nonsense_is_refused_with_its_path(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{}", "nodes: metadata.name: is missing"},
        {"{\"metadata\":{\"name\":\"n\",\"uid\":7}}",
         "nodes/n: metadata.uid: expected a string, is a number"},
        {"{\"metadata\":{\"name\":\"n\",\"labels\":[]}}",
         "nodes/n: metadata.labels: expected an object, is an array"},
        {"{\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":7}}}",
         "nodes/n: metadata.labels.a: expected a string, is a number"},
        {"{\"metadata\":{\"name\":\"n\"},\"spec\":{\"taints\":{}}}",
         "nodes/n: spec.taints: expected an array, is an object"},
        {"{\"metadata\":{\"name\":\"n\"},\"spec\":{\"taints\":[{\"key\":\"a\",\"effect\":\"b\"},7]}}",
         "nodes/n: spec.taints[1].key: is missing"},
        {"{\"metadata\":{\"name\":\"n\"},\"spec\":{\"taints\":[{\"key\":\"a\"}]}}",
         "nodes/n: spec.taints[0].effect: is missing"},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct gt_node_object got = {.gpus = 7};
        gt_auto_err struct gt_err *err = NULL;
        cJSON *json;
        assert_int_equal(read_text(cases[i].text, &got, &json, &err), -EINVAL);
        assert_string_equal(gt_err_text(err), cases[i].error);
        assert_int_equal(got.gpus, 7);
        cJSON_Delete(json);
    }
}

static void what_is_written(void **state)
{
    static const struct gt_pair pairs[] = {{"a", "1"}, {"b", "\"2\""}};
    static const struct {
        enum gt_node_part part;
        unsigned count;
        const char *text;
    } cases[] = {{GT_NODE_LABELS, 2, ",\"labels\":{\"a\":\"1\",\"b\":\"\\\"2\\\"\"}"},
                 {GT_NODE_ANNOTATIONS, 0, ",\"annotations\":{}"},
                 {GT_NODE_NOTHING, 0, ""}};
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(512), expected = GT_BUF(512);
        gt_auto_node_object struct gt_node_object got = {0};
        gt_buf_printf(&expected,
                      "{\"apiVersion\":\"v1\",\"kind\":\"Node\","
                      "\"metadata\":{\"name\":\"n1\",\"uid\":\"u-1\"%s}}",
                      cases[i].text);
        gt_node_object_write("n1", "u-1", cases[i].part, pairs, cases[i].count, &text);
        assert_string_equal(text.data, expected.data);
        cJSON *json;
        assert_int_equal(read_text(text.data, &got, &json, NULL), 0);
        assert_string_equal(got.name, "n1");
        assert_string_equal(got.uid, "u-1");
        assert_int_equal(got.label_count, cases[i].part == GT_NODE_LABELS ? 2 : 0);
        if (got.label_count)
            assert_string_equal(gt_node_object_label(&got, "b"), "\"2\"");
        cJSON_Delete(json);
    }
}

/* What the patch of a Node with these taints says; "": there is none. */
static void expect_taints(const char *taints, const char *effect, const char *wanted)
{
    gt_auto_buf struct gt_buf node = GT_BUF(1024), patch = GT_BUF(1024);
    gt_buf_printf(&node, "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"taints\":%s}}", taints);
    cJSON *json = cJSON_Parse(node.data);
    assert_non_null(json);
    bool changes = gt_node_taint_write(json, "own", effect, &patch);
    assert_string_equal(changes ? patch.data : "", wanted);
    cJSON_Delete(json);
}

static void one_taint_of_a_key(void **state)
{
    (void)state;
    expect_taints("null", NULL, "");
    expect_taints("[{\"key\":\"own\",\"effect\":\"NoSchedule\"}]", "NoSchedule", "");
    expect_taints("[{\"key\":\"a\"},{\"key\":\"own\",\"effect\":\"NoSchedule\"}]", NULL,
                  "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"taints\":[{\"key\":\"a\"}]}}");
    expect_taints("[{\"key\":\"own\",\"effect\":\"NoExecute\"},{\"key\":\"own\",\"effect\":\"NoSchedule\"}]",
                  "NoSchedule",
                  "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"taints\":[{\"key\":\"own\","
                  "\"effect\":\"NoSchedule\"}]}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_node),           cmocka_unit_test(metadata_alone),
        cmocka_unit_test(capacity_is_a_quantity), cmocka_unit_test(nonsense_is_refused_with_its_path),
        cmocka_unit_test(what_is_written),        cmocka_unit_test(one_taint_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
