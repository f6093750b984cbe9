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
#include "api/resource_claim.h"
#include "api/resource_slice.h"
#include "base/err.h"

static int read_claim(const char *text, struct gt_resource_claim *ret, cJSON **keep, struct gt_err **err)
{
    *keep = cJSON_Parse(text);
    assert_non_null(*keep);
    return gt_resource_claim_read(*keep, ret, err);
}

static void claims_are_read(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":\"u\",\"deletionTimestamp\":\"x\"},"
        "\"status\":{"
        "\"reservedFor\":[{\"resource\":\"jobs\",\"name\":\"j\"},{\"resource\":\"pods\",\"name\":\"p\","
        "\"uid\":\"v\"}],"
        "\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r/"
        "s\",\"driver\":\"d\",\"pool\":\"n\",\"device\":\"g\"},"
        "{\"request\":\"r\",\"driver\":\"d\",\"pool\":\"n\",\"device\":\"h\",\"adminAccess\":true}]}}}}";
    struct gt_resource_claim claim;
    cJSON *object;
    (void)state;
    assert_int_equal(read_claim(text, &claim, &object, NULL), 0);
    assert_string_equal(claim.uid, "u");
    assert_true(claim.deleting && claim.allocated);
    assert_int_equal(claim.result_count, 2);
    assert_string_equal(claim.results[0].request, "r/s");
    assert_false(claim.results[0].admin);
    assert_true(claim.results[1].admin);
    assert_int_equal(claim.pod_count, 1);
    assert_string_equal(claim.pods[0], "p");
    cJSON_Delete(object);
}

/* What pods of a ResourceClaimTemplate have, and why nothing can be planned for others. */
static void templates_are_read(void **state)
{
#define REQUEST(more) "{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"gpu.metax-tech.com\"" more "}}"
    static const struct {
        const char *devices;
        bool asks;
        unsigned gpus;
        const char *unfit;
    } cases[] = {
        {"", false, 0, NULL},
        {"\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"x\"}}]", false, 0, NULL},
        {"\"requests\":[" REQUEST("") "]", true, 1, NULL},
        {"\"requests\":[" REQUEST(
             ",\"count\":32,\"allocationMode\":\"ExactCount\",\"adminAccess\":false") "]",
         true, 32, NULL},
        {"\"requests\":[" REQUEST(",\"count\":0") "]", true, 0, "a claim may have"},
        {"\"requests\":[" REQUEST(",\"count\":33") "]", true, 0, "a claim may have"},
        {"\"requests\":[" REQUEST(",\"allocationMode\":\"All\"") "]", true, 0, "all GPUs"},
        {"\"requests\":[" REQUEST(",\"adminAccess\":true") "]", true, 0, "adminAccess"},
        {"\"requests\":[" REQUEST(",\"selectors\":[{}]") "]", true, 0, "selectors"},
        {"\"requests\":[" REQUEST("") "],\"constraints\":[{}]", true, 0, "constraints"},
        {"\"requests\":[" REQUEST("") "],\"config\":[{}]", true, 0, "configuration"},
        {"\"requests\":[{\"name\":\"n\"}," REQUEST("") "]", true, 0, "several requests"},
        {"\"requests\":[{\"name\":\"n\",\"firstAvailable\":[{\"deviceClassName\":\"gpu.metax-tech.com\"}]}]",
         true, 0, "alternatives"},
    };
#undef REQUEST
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024];
        struct gt_claim_template read;
        snprintf(
            text, sizeof(text),
            "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t\"},\"spec\":{\"spec\":{\"devices\":{%s}}}}",
            cases[i].devices);
        cJSON *object = cJSON_Parse(text);
        assert_non_null(object);
        assert_int_equal(gt_claim_template_read(object, &read, NULL), 0);
        assert_int_equal(read.asks, cases[i].asks);
        assert_int_equal(read.gpus, cases[i].gpus);
        if (cases[i].unfit)
            assert_non_null(strstr(read.unfit, cases[i].unfit));
        else
            assert_null(read.unfit);
        cJSON_Delete(object);
    }
}

static void nonsense_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"{}", "metadata.name: is missing"},
        {"{\"metadata\":{\"name\":\"c\"}}", "metadata.uid: is missing"},
        {"{\"metadata\":{\"name\":\"c\",\"uid\":\"u\"},\"status\":{\"reservedFor\":{}}}",
         "status.reservedFor"},
        {"{\"metadata\":{\"name\":\"c\",\"uid\":\"u\"},\"status\":{\"allocation\":{\"devices\":{\"results\":["
         "{\"request\":\"r\"}]}}}}",
         "results[0].device"},
        {"{\"metadata\":{\"name\":\"c\",\"uid\":\"u\"},\"status\":{\"allocation\":{\"devices\":{\"results\":["
         "{\"request\":1}]}}}}",
         "results[0].request"},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        gt_auto_err struct gt_err *err = NULL;
        struct gt_resource_claim claim;
        cJSON *object;
        assert_int_equal(read_claim(wrong[i].text, &claim, &object, &err), -EINVAL);
        if (!strstr(gt_err_text(err), wrong[i].why))
            fail_msg("\"%s\" lacks \"%s\"", gt_err_text(err), wrong[i].why);
        cJSON_Delete(object);
    }
}

static void slices_are_written(void **state)
{
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    (void)state;
    assert_int_equal(gt_node_new(2, 0, &node, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:1%u:00.0", i);
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
        snprintf(gpu->pci.path.root, sizeof(gpu->pci.path.root), "pci0000:10");
        memset(gpu->product, 'x', sizeof(gpu->product) - 1);
        gpu->memory_bytes = i ? 64ULL << 30 : 1000;
        gpu->numa_node = (int)i - 1;
    }
    assert_int_equal(gt_node_finish(node, NULL), 0);
    const struct gt_resource_slice slice = {
        .node_name = "n1",
        .node_uid = "u",
        .node = node,
        .supernode = "rack",
        .taint_effect = "NoSchedule",
        .device_count = 2,
        .devices = {{.name = "gpu-b", .gpus = 2}, {.name = "gpu-a", .gpus = 1, .taint = "xid"}},
    };
    gt_resource_slice_write(&slice, &text);
    assert_false(text.failed);
    cJSON *json = cJSON_Parse(text.data);
    assert_non_null(json);
    struct gt_resource_slice_head head;
    assert_int_equal(gt_resource_slice_read(json, &head, NULL), 0);
    assert_string_equal(head.name, "n1-" GT_DRA_DRIVER);
    assert_string_equal(head.driver, GT_DRA_DRIVER);
    assert_string_equal(head.node_name, "n1");
    assert_string_equal(head.pool, "n1");
    assert_int_equal(head.device_count, 2);
    cJSON_Delete(json);
    static const char *const parts[] = {
        "\"devices\":[{\"name\":\"gpu-b\"",
        "\"memory\":{\"value\":\"65536Mi\"}",
        "\"memory\":{\"value\":\"1000\"}",
        "\"resource.kubernetes.io/numaNode\":{\"int\":0}",
        "\"resource.kubernetes.io/pcieRoot\":{\"string\":\"pci0000:10\"}",
        "\"supernode\":{\"string\":\"rack\"}",
        "\"taints\":[{\"key\":\"gpu.metax-tech.com/unhealthy\",\"value\":\"xid\",\"effect\":\"NoSchedule\"}]",
    };
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!strstr(text.data, parts[i]))
            fail_msg("%s lacks %s", text.data, parts[i]);
    assert_null(strstr(text.data, "linkZone")); /* neither has a direct link */
    assert_null(strstr(text.data, ":-1"));
    assert_null(strstr(text.data, "ounters"));
    assert_non_null(strstr(text.data, "\"resourceSliceCount\":1}"));
}

static void composites_are_written(void **state)
{
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20), counters = GT_BUF(1 << 20);
    struct gt_resource_slice_head head;
    (void)state;
    assert_int_equal(gt_node_new(3, 0, &node, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:1%u:00.0", i);
        snprintf(gpu->pci.path.root, sizeof(gpu->pci.path.root), "pci0000:1%u", i);
        snprintf(gpu->product, sizeof(gpu->product), "C500");
        gpu->memory_bytes = 64ULL << 30;
        gpu->numa_node = i / 2;
    }
    gt_node_link(node, 0, 1)->kind = GT_LINK_MX;
    assert_int_equal(gt_node_finish(node, NULL), 0);
    const struct gt_resource_slice slice = {
        .node_name = "n1",
        .node_uid = "u",
        .node = node,
        .supernode = "",
        .has_counters = true,
        .device_count = 3,
        .devices = {{.name = "gpu", .gpus = 4},
                    {.name = "pair", .gpus = 3, .type = GT_COMPOSITE_PAIR, .weight = 50},
                    {.name = "node", .gpus = 7, .type = GT_COMPOSITE_NODE, .weight = 60}},
    };
    gt_resource_slice_write(&slice, &text);
    static const char *const parts[] = {
        ("{\"name\":\"pair\",\"attributes\":{\"type\":{\"string\":\"pair\"},\"gpus\":{\"int\":2},"
         "\"links\":{\"int\":1},\"weight\":{\"int\":50},\"product\":{\"string\":\"C500\"},\"linkZone\":{"
         "\"int\":1},"
         "\"resource.kubernetes.io/"
         "numaNode\":{\"int\":0}},\"capacity\":{\"memory\":{\"value\":\"131072Mi\"}},"
         "\"consumesCounters\":[{\"counterSet\":\"gpus\",\"counters\":{\"gpu-0\":{\"value\":\"1\"},\"gpu-1\":"
         "{"
         "\"value\":\"1\"}}}]}"),
        ("{\"name\":\"node\",\"attributes\":{\"type\":{\"string\":\"node\"},\"gpus\":{\"int\":3},"
         "\"links\":{\"int\":1},\"weight\":{\"int\":60},\"product\":{\"string\":\"C500\"}},\"capacity\""),
        "\"counters\":{\"gpu-2\":{\"value\":\"1\"}}",
        "\"resourceSliceCount\":2}",
    };
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!strstr(text.data, parts[i]))
            fail_msg("%s lacks %s", text.data, parts[i]);
    gt_resource_slice_write_counters("n1", "u", &counters);
    cJSON *json = cJSON_Parse(counters.data);
    assert_non_null(json);
    assert_int_equal(gt_resource_slice_read(json, &head, NULL), 0);
    assert_string_equal(head.name, "n1-" GT_DRA_DRIVER "-counters");
    assert_int_equal(head.device_count, 0);
    assert_int_equal(head.counter_set_count, 1);
    cJSON_Delete(json);
    assert_non_null(strstr(counters.data, "\"gpu-31\":{\"value\":\"1\"}"));
    assert_null(strstr(counters.data, "\"gpu-32\""));
}

static void long_names_fit(void **state)
{
    char node[254], name[GT_SLICE_NAME_SIZE], other[GT_SLICE_NAME_SIZE];
    (void)state;
    memset(node, 'a', sizeof(node) - 1);
    node[sizeof(node) - 1] = '\0';
    gt_resource_slice_name(node, name);
    node[100] = 'b';
    gt_resource_slice_name(node, other);
    assert_true(strlen(name) < 64);
    assert_string_not_equal(name, other);
    node[253 - strlen(GT_DRA_DRIVER) - 1] = '\0';
    gt_resource_slice_name(node, name);
    assert_int_equal(strlen(name), 253);
}

static void requests_are_read(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":\"u\",\"resourceVersion\":\"7\","
        "\"finalizers\":[\"x\"],\"ownerReferences\":[{\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"v\","
        "\"controller\":true}]},"
        "\"spec\":{\"devices\":{\"requests\":["
        "{\"name\":\"a\",\"exactly\":{\"deviceClassName\":\"gpu.metax-tech.com\",\"count\":4}},"
        "{\"name\":\"b\",\"exactly\":{\"deviceClassName\":\"c\"}},"
        "{\"name\":\"d\",\"exactly\":{\"deviceClassName\":\"c\",\"allocationMode\":\"All\"}},"
        "{\"name\":\"e\",\"firstAvailable\":[{\"name\":\"f\"}]}]}}}";
    struct gt_resource_claim claim;
    cJSON *object;
    (void)state;
    assert_int_equal(read_claim(text, &claim, &object, NULL), 0);
    assert_string_equal(claim.resource_version, "7");
    assert_string_equal(claim.pod, "p");
    assert_string_equal(claim.pod_uid, "v");
    assert_true(claim.is_protected);
    assert_int_equal(claim.request_count, 4);
    assert_string_equal(claim.requests[0].device_class, GT_DRA_CLASS);
    static const unsigned counts[] = {4, 1, 0, 0};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(claim.requests[i].count, counts[i]);
    cJSON_Delete(object);
}

static void allocations_are_written(void **state)
{
    const struct gt_claim_version of = {"u", "7"};
    const struct gt_claim_result results[] = {{"gpus-0", GT_DRA_DRIVER, "n1", "gpu-a", false},
                                              {"gpus-0", GT_DRA_DRIVER, "n1", "gpu-b", false}};
    const struct gt_claim_allocation allocation = {"n1", results, 2, 0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16), gone = GT_BUF(1 << 16);
    struct gt_resource_claim claim;
    (void)state;
    gt_claim_write_allocation(&of, &allocation, &text);
    cJSON *json = cJSON_Parse(text.data);
    assert_non_null(json);
    cJSON_AddStringToObject(cJSON_GetObjectItem(json, "metadata"), "name", "c");
    assert_int_equal(gt_resource_claim_read(json, &claim, NULL), 0);
    assert_true(claim.allocated);
    assert_int_equal(claim.result_count, 2);
    assert_string_equal(claim.results[1].device, "gpu-b");
    assert_non_null(strstr(text.data, "\"allocationTimestamp\":\"1970-01-01T00:00:00Z\""));
    assert_non_null(strstr(text.data, "{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n1\"]}"));
    cJSON_Delete(json);
    gt_claim_write_no_allocation(&of, &gone);
    assert_string_equal(gone.data, "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"7\"},"
                                   "\"status\":{\"allocation\":null,\"reservedFor\":null}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_are_read),         cmocka_unit_test(templates_are_read),
        cmocka_unit_test(requests_are_read),       cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(allocations_are_written), cmocka_unit_test(slices_are_written),
        cmocka_unit_test(composites_are_written),  cmocka_unit_test(long_names_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
