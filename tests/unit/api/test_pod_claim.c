/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "api/pod_claim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void names_say_the_sizes(void **state)
{
    static const char *const wrong[] = {
        "",
        "gputopo-gpus-",
        "gputopo-gpus-0",
        "gputopo-gpus-04",
        "gputopo-gpus-33",
        "gputopo-gpus-20-13",
        "gputopo-gpus-4-",
        "gputopo-gpus--4",
        "gputopo-gpus-4x",
        "gputopo-gpus-99999999999",
        "other-4",
    };
    struct gt_claim_sizes sizes, again;
    char name[GT_CLAIM_TEMPLATE_SIZE];
    (void)state;
    assert_true(gt_claim_template_sizes("gputopo-gpus-4-2-10", &sizes));
    assert_int_equal(sizes.count, 3);
    assert_int_equal(sizes.gpus[2], 10);
    gt_claim_template_name(&sizes, name);
    assert_string_equal(name, "gputopo-gpus-4-2-10");
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (gt_claim_template_sizes(wrong[i], &again))
            fail_msg("\"%s\" was read", wrong[i]);
    sizes.count = GT_CLAIM_GPUS_MAX;
    for (unsigned i = 0; i < sizes.count; i++)
        sizes.gpus[i] = 1;
    gt_claim_template_name(&sizes, name);
    assert_true(gt_claim_template_sizes(name, &again));
    assert_int_equal(again.count, GT_CLAIM_GPUS_MAX);
}

struct shape {
    struct gt_pod_container list[4];
    unsigned count;
    const char *name;
    struct gt_claim_span spans[4];
};

/* Each container has just the GPUs that it asks for, as Kubernetes counts those of the pod. */
static void containers_have_whole_requests(void **state)
{
    static const struct shape shapes[] = {
        {{{"main", 4, false, false, false, 0}}, 1, "gputopo-gpus-4", {{0, 1}}},
        {{{"a", 1, false, false, false, 0}, {"b", 2, false, false, false, 0}},
         2,
         "gputopo-gpus-1-2",
         {{0, 1}, {1, 1}}},
        /* an init container has some of those that come after it */
        {{{"init", 2, true, false, false, 0}, {"main", 4, false, false, false, 0}},
         2,
         "gputopo-gpus-2-2",
         {{0, 1}, {0, 2}}},
        /* or more than they have */
        {{{"init", 4, true, false, false, 0}, {"main", 1, false, false, false, 0}},
         2,
         "gputopo-gpus-1-3",
         {{0, 2}, {0, 1}}},
        /* a sidecar from before keeps its own, one that comes later takes over */
        {{{"side", 1, true, true, false, 0},
          {"init", 3, true, false, false, 0},
          {"late", 1, true, true, false, 0},
          {"main", 2, false, false, false, 0}},
         4,
         "gputopo-gpus-1-1-2",
         {{0, 1}, {1, 2}, {1, 1}, {2, 1}}},
    };
    (void)state;
    for (unsigned s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        struct gt_pod_containers containers = {.count = shapes[s].count};
        struct gt_pod_claim claim;
        struct gt_pod_gpus gpus;
        char name[GT_CLAIM_TEMPLATE_SIZE];
        memcpy(containers.list, shapes[s].list, sizeof(shapes[s].list));
        assert_true(gt_pod_claim_make(&containers, &claim));
        gt_claim_template_name(&claim.sizes, name);
        assert_string_equal(name, shapes[s].name);
        unsigned total = 0;
        for (unsigned i = 0; i < claim.sizes.count; i++)
            total += claim.sizes.gpus[i];
        assert_int_equal(gt_pod_gpus_count(&containers, &gpus, NULL), 0);
        assert_int_equal(total, gpus.total);
        for (unsigned c = 0; c < containers.count; c++) {
            unsigned has = 0;
            for (unsigned i = 0; i < claim.spans[c].count; i++)
                has += claim.sizes.gpus[claim.spans[c].first + i];
            assert_int_equal(has, containers.list[c].gpus);
            assert_int_equal(claim.spans[c].first, shapes[s].spans[c].first);
            assert_int_equal(claim.spans[c].count, shapes[s].spans[c].count);
        }
    }
}

static void too_much_for_a_claim(void **state)
{
    struct gt_pod_containers containers = {
        .count = 2, .list = {{"a", 31, false, false, false, 0}, {"b", 1, false, false, false, 0}}};
    struct gt_pod_claim claim;
    (void)state;
    assert_true(gt_pod_claim_make(&containers, &claim));
    containers.list[1].gpus = 2;
    assert_false(gt_pod_claim_make(&containers, &claim));
    containers.list[0].gpus = GT_POD_GPUS_MAX;
    assert_false(gt_pod_claim_make(&containers, &claim));
    containers.count = 0;
    assert_false(gt_pod_claim_make(&containers, &claim));
}

/* What the webhook writes is read as what it has replaced. */
static void pods_are_read(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"p\",\"uid\":\"u\"},\"spec\":{\"resourceClaims\":["
        "{\"name\":\"other\",\"resourceClaimTemplateName\":\"x\"},"
        "{\"name\":\"g\",\"resourceClaimTemplateName\":\"gputopo-gpus-2-2\"}],"
        "\"initContainers\":[{\"name\":\"i\",\"resources\":{\"claims\":[{\"name\":\"g\",\"request\":\"gpus-"
        "0\"}]}}],"
        "\"containers\":[{\"name\":\"m\",\"resources\":{\"claims\":[{\"name\":\"g\",\"request\":\"gpus-0\"},"
        "{\"name\":\"g\",\"request\":\"gpus-1\"},{\"name\":\"other\"},{\"name\":\"g\",\"request\":\"gpus-7\"}"
        "]}},"
        "{\"name\":\"none\"}]}}";
    cJSON *json = cJSON_Parse(text);
    struct gt_pod pod;
    (void)state;
    assert_non_null(json);
    gt_pod_read(json, GT_RESOURCE_GPU, &pod);
    assert_null(pod.invalid);
    assert_string_equal(pod.claim_template, "gputopo-gpus-2-2");
    assert_int_equal(pod.gpus.total, 4);
    assert_int_equal(pod.gpus.containers, 1);
    assert_int_equal(pod.gpus.inits, 1);
    assert_int_equal(pod.gpus.counts[1], 2);
    cJSON_Delete(json);
}

static void template_is_written(void **state)
{
    struct gt_claim_sizes sizes = {.count = 2, .gpus = {4, 2}};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    (void)state;
    gt_claim_template_write("gputopo-gpus-4-2", &sizes, &text);
    assert_string_equal(
        text.data,
        "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaimTemplate\",\"metadata\":{\"name\":"
        "\"gputopo-gpus-4-2\",\"labels\":{\"app.kubernetes.io/managed-by\":\"gputopo-scheduler\"}},"
        "\"spec\":{\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpus-0\",\"exactly\":{"
        "\"deviceClassName\":\"gpu.metax-tech.com\",\"allocationMode\":\"ExactCount\",\"count\":4}},{"
        "\"name\":"
        "\"gpus-1\",\"exactly\":{\"deviceClassName\":\"gpu.metax-tech.com\",\"allocationMode\":"
        "\"ExactCount\","
        "\"count\":2}}]}}}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_the_sizes),  cmocka_unit_test(containers_have_whole_requests),
        cmocka_unit_test(too_much_for_a_claim), cmocka_unit_test(pods_are_read),
        cmocka_unit_test(template_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
