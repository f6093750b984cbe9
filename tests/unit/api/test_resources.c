/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/resources.h"
#include "base/cleanup.h"

static void test_rounded_up(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int ten;
        uint64_t value;
    } cases[] = {
        {"16", 3, 16000},
        {"500m", 3, 500},
        {"0.5", 3, 500},
        {"1u", 3, 1},
        {"0", 3, 0},
        {"-0", 3, 0},
        {"1500m", 0, 2},
        {"0.5Gi", 0, 1 << 29},
        {"128974848000m", 0, 128974848},
        {"1Ki", 0, 1024},
        {"3n", 0, 1},
        {"0.0000001e-200", 0, 1},
        {"1e3", 0, 1000},
        {"2Ti", 0, UINT64_C(2) << 40},
        {"100Ei", 0, GT_AMOUNT_MAX},
        {"9e99", 0, GT_AMOUNT_MAX},
        {"12345678901234567890123", 0, GT_AMOUNT_MAX},
        {"1.00000000000000000000000001", 0, 2},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        uint64_t value = 77;
        if (!gt_quantity_ceil(cases[i].text, strlen(cases[i].text), cases[i].ten, GT_AMOUNT_MAX, &value) ||
            value != cases[i].value)
            fail_msg("%s: %llu", cases[i].text, (unsigned long long)value);
    }
    static const char *const bad[] = {"", "-1", "x", "1x", "1 ", "m", "Ki", "--1"};
    for (unsigned i = 0; i < GT_COUNT(bad); i++) {
        uint64_t value = 77;
        assert_false(gt_quantity_ceil(bad[i], strlen(bad[i]), 0, GT_AMOUNT_MAX, &value));
        assert_int_equal(value, 77);
    }
}

static uint64_t amount_of(const struct gt_resources *resources, const char *name)
{
    uint64_t amount = 0;
    gt_resources_get(resources, name, &amount);
    return amount;
}

static void read_pod(const char *text, struct gt_resources *ret)
{
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    gt_pod_resources_read(json, ret);
    /* Names are the object's: only those that live longer are compared afterwards. */
    for (unsigned i = 0; i < ret->count; i++) {
        static char names[GT_RESOURCES_MAX][64];
        snprintf(names[i], sizeof(names[i]), "%s", ret->list[i].name);
        ret->list[i].name = names[i];
    }
    cJSON_Delete(json);
}

static void expect(const char *pod, uint64_t cpu, uint64_t memory, uint64_t nics)
{
    struct gt_resources asked;
    read_pod(pod, &asked);
    if (amount_of(&asked, GT_RESOURCE_CPU) != cpu || amount_of(&asked, GT_RESOURCE_MEMORY) != memory ||
        amount_of(&asked, "example.com/nic") != nics || amount_of(&asked, GT_RESOURCE_PODS) != 1 ||
        amount_of(&asked, "metax-tech.com/gpu") != (strstr(pod, "metax-tech.com/gpu") ? 8 : 0))
        fail_msg("%s: cpu %llu, memory %llu, nics %llu", pod,
                 (unsigned long long)amount_of(&asked, GT_RESOURCE_CPU),
                 (unsigned long long)amount_of(&asked, GT_RESOURCE_MEMORY),
                 (unsigned long long)amount_of(&asked, "example.com/nic"));
}

static void test_pods(void **state)
{
    (void)state;
    expect("{}", 0, 0, 0);
    expect("{\"containers\":7,\"initContainers\":\"x\",\"overhead\":[]}", 0, 0, 0);
    expect("{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1Ki\"},\"limits\":{"
           "\"cpu\":"
           "\"4\",\"example.com/nic\":2,\"metax-tech.com/gpu\":8}}},{\"resources\":{\"requests\":{\"cpu\":"
           "\"500m\",\"memory\":\"x\"}}}]}",
           1500, 1024, 2);
    /* An ordinary init container runs beside the sidecars before it, not beside those after it. */
    expect("{\"initContainers\":[{\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"1\"}}},"
           "{\"resources\":{\"requests\":{\"cpu\":\"5\",\"memory\":\"9\"}}},{\"restartPolicy\":\"Always\","
           "\"resources\":{\"requests\":{\"cpu\":\"2\",\"memory\":\"2\"}}}],\"containers\":[{\"resources\":{"
           "\"requests\":{\"cpu\":\"1\",\"memory\":\"8\"}}}]}",
           6000, 10, 0);
    expect("{\"overhead\":{\"cpu\":\"250m\",\"memory\":\"10\"},\"resources\":{\"requests\":{\"cpu\":\"2\"}},"
           "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"7\",\"memory\":\"5\"}}}]}",
           2250, 15, 0);
}

static void test_many(void **state)
{
    (void)state;
    char text[16384];
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"a\":\"1\"");
    for (unsigned i = 0; i < 2 * GT_RESOURCES_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, ",\"r%u\":%u", i, i);
    snprintf(text + len, sizeof(text) - len, ",\"a\":\"7\"}");
    cJSON *json = cJSON_Parse(text);
    struct gt_resources read;
    gt_resources_read(json, &read);
    assert_int_equal(read.count, GT_RESOURCES_MAX);
    assert_int_equal(amount_of(&read, "a"), 1); /* the first of two */
    assert_int_equal(amount_of(&read, "r5"), 5);
    cJSON_Delete(json);
    gt_resources_read(NULL, &read);
    assert_int_equal(read.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounded_up),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
