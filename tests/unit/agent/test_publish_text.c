/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "agent/publish_text.h"
#include "api/meta.h"
#include "base/json.h"
#include "base/json_get.h"

enum { GPUS = 4, LOOK_US = 100 };

/* A clock that advances only when it is read. */
static uint64_t looks;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    (void)clock;
    uint64_t us = ++looks * LOOK_US;
    *ret = (struct timespec){(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
    return 0;
}

static struct gt_node *new_node(void)
{
    struct gt_node *node = NULL;
    assert_int_equal(gt_node_new(GPUS, 0, &node, NULL), 0);
    snprintf(node->name, sizeof(node->name), "recorded elsewhere");
    for (unsigned i = 0; i < GPUS; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:0%u:00.0", i + 1);
        snprintf(gpu->product, sizeof(gpu->product), "MXC500");
        gpu->memory_bytes = UINT64_C(68702699520); /* 63.98 GiB */
    }
    for (unsigned i = 0; i < node->link_count; i++) {
        node->links[i].kind = node->links[i].a / 2 == node->links[i].b / 2 ? GT_LINK_MX : GT_LINK_SYS;
        if (node->links[i].kind == GT_LINK_MX)
            node->links[i].state = GT_LINK_STATE_UP;
    }
    return node;
}

struct bench {
    struct gt_class_cache *classes;
    struct gt_inventory *inventory;
    struct gt_usage *usage;
    struct gt_publish_scores scores;
};

static struct bench *new_bench(struct gt_node *node)
{
    struct bench *b = calloc(1, sizeof(*b));
    b->usage = calloc(1, sizeof(*b->usage) + GPUS * sizeof(b->usage->owners[0]));
    assert_int_equal(gt_node_finish(node, NULL), 0);
    assert_int_equal(gt_class_cache_new(4, &b->classes, NULL), 0);
    assert_int_equal(gt_inventory_next(node, b->classes, NULL, NULL, 0, &b->inventory, NULL), 0);
    gt_node_unref(node);
    b->usage->gpu_count = GPUS;
    return b;
}

static void free_bench(struct bench *b)
{
    gt_publish_scores_done(&b->scores);
    gt_inventory_unref(b->inventory);
    gt_class_cache_free(b->classes);
    free(b->usage);
    free(b);
}

static void hold(struct gt_usage *usage, unsigned gpu, const char *pod)
{
    struct gt_usage_owner *owner = &usage->owners[gpu];
    snprintf(owner->namespace, sizeof(owner->namespace), "default");
    snprintf(owner->pod, sizeof(owner->pod), "%s", pod);
    snprintf(owner->container, sizeof(owner->container), "main");
    usage->used |= UINT64_C(1) << gpu;
}

static cJSON *parse(const struct gt_buf *text)
{
    cJSON *json = text->data ? cJSON_Parse(text->data) : NULL;
    if (!json)
        fail_msg("no JSON: %s", text->data);
    return json;
}

static void object(void **state)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    (void)state;
    gt_node_gpu_topology_write_object("n1", "u-1", &text);
    assert_string_equal(
        text.data,
        "{\"apiVersion\":\"topology.metax-tech.com/v1alpha1\",\"kind\":\"NodeGPUTopology\",\"metadata\":{"
        "\"name\":\"n1\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"n1\","
        "\"uid\":\"u-1\"}]}}");
}

static void usage(void **state)
{
    struct bench *b = new_bench(new_node());
    gt_auto_buf struct gt_buf text = GT_BUF(4096), unknown = GT_BUF(4096);
    (void)state;
    gt_publish_scores_update(&b->scores, b->inventory, b->usage);
    assert_false(gt_publish_write_usage("n1", b->usage, &b->scores, &unknown));
    assert_int_equal(unknown.len, 0);
    b->usage->known = true;
    b->usage->free = 0xc;
    hold(b->usage, 0, "a\"b"); /* what the kubelet says is quoted */
    hold(b->usage, 1, "");     /* what it does not say is left out */
    gt_publish_scores_update(&b->scores, b->inventory, b->usage);
    assert_true(gt_publish_write_usage("n1", b->usage, &b->scores, &text));
    assert_non_null(strstr(text.data, "\"status\":{\"free\":[2,3],\"freeCount\":2,\"owners\":[{\"gpu\":0,"
                                      "\"namespace\":\"default\",\"pod\":\"a\\\"b\",\"container\":\"main\"}],"
                                      "\"scoreByCount\":[0,64],\"lossByCount\":[64,0]}}"));
    cJSON_Delete(parse(&text));
    free_bench(b);
}

static void annotations(void **state)
{
    struct bench *b = new_bench(new_node());
    gt_auto_buf struct gt_buf text = GT_BUF(4096), none = GT_BUF(4096);
    (void)state;
    b->usage->known = true;
    b->usage->free = 0x7;
    gt_publish_scores_update(&b->scores, b->inventory, b->usage);
    gt_publish_write_annotations("n1", "u-1", &b->scores, GPUS + 1, &text);
    cJSON *body = parse(&text);
    assert_string_equal(gt_meta_uid(body), "u-1");
    const cJSON *map = cJSON_GetObjectItem(cJSON_GetObjectItem(body, "metadata"), "annotations");
    const char *names[] = {"metax-tech.com/gpu.topology.losses", "metax-tech.com/gpu.topology.scores"};
    for (unsigned i = 0; i < 2; i++) { /* decimal keys, integers, one for each count that can be asked */
        cJSON *values = cJSON_Parse(gt_get_string(map, names[i]));
        assert_int_equal(cJSON_GetArraySize(values), GPUS + 1);
        for (unsigned k = 1; k <= GPUS + 1; k++) {
            char key[8];
            snprintf(key, sizeof(key), "%u", k);
            const cJSON *value = cJSON_GetObjectItemCaseSensitive(values, key);
            assert_true(cJSON_IsNumber(value) && value->valuedouble == value->valueint);
            assert_in_range(value->valueint, 0, 1999);
            if (k > 3) /* more than are free: the worst */
                assert_int_equal(value->valueint, i ? 0 : 1999);
        }
        cJSON_Delete(values);
    }
    /* S of all is 2 x 64 + 4 x 8 = 160; the best pair has 64 and is cut off 2 x 8. */
    assert_string_equal(gt_get_string(map, names[0]), "{\"1\":199,\"2\":199,\"3\":0,\"4\":1999,\"5\":1999}");
    assert_string_equal(gt_get_string(map, names[1]), "{\"1\":0,\"2\":799,\"3\":999,\"4\":0,\"5\":0}");
    cJSON_Delete(body);
    gt_publish_write_annotations("n1", "u-1", &b->scores, 0, &none);
    assert_non_null(strstr(none.data, "\"annotations\":{}"));
    free_bench(b);
}

static void unknown_use_counts_as_free(void **state)
{
    struct bench *b = new_bench(new_node());
    (void)state;
    gt_publish_scores_update(&b->scores, b->inventory, b->usage);
    assert_int_equal(b->scores.free, 0xf);
    assert_int_equal(b->scores.maps.scores[4], 1999);
    free_bench(b);
}

/* Searches that reach the time limit: 64 GPUs whose links are all different. */
static void scores_take_no_time(void **state)
{
    struct gt_node *node = NULL;
    uint64_t number = 1;
    (void)state;
    assert_int_equal(gt_node_new(GT_GPUS_MAX, 0, &node, NULL), 0);
    for (unsigned i = 0; i < GT_GPUS_MAX; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:%02x:00.0", i + 1);
    for (unsigned i = 0; i < node->link_count; i++) {
        number = number * 6364136223846793005 + 1;
        node->links[i].kind = GT_LINK_MX;
        node->links[i].state = GT_LINK_STATE_UP;
        node->links[i].bandwidth_mbps = 20000 + (number >> 33) % 80000;
    }
    struct bench *b = new_bench(node);
    uint64_t before = looks;
    gt_publish_scores_update(&b->scores, b->inventory, NULL);
    assert_int_equal(b->scores.count, GT_GPUS_MAX);
    assert_true(b->scores.score[GT_GPUS_MAX / 2] > 0);
    /* 20 ms for the scores, and for the maps, and a few looks more for each search. */
    assert_in_range((looks - before) * LOOK_US, 1, 2 * 20000 + 2 * GT_GPUS_MAX * 5 * LOOK_US);
    free_bench(b);
}

static void expect_labels(struct gt_node *node, unsigned left_out, const char *expected)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_publish_write_labels("n1", "u-1", node, left_out, &text);
    const char *labels = strstr(text.data, "\"labels\":");
    assert_non_null(labels);
    assert_string_equal(labels, expected);
}

static void labels(void **state)
{
    gt_auto_node struct gt_node *node = new_node();
    (void)state;
    expect_labels(node, 0,
                  "\"labels\":{\"metax-tech.com/gpu.family\":\"MXC\",\"metax-tech.com/gpu.memory\":\"64GB\","
                  "\"metax-tech.com/gpu.product\":\"MXC500\"}}}");
    expect_labels(node, 1U << GT_LABEL_FAMILY | 1U << GT_LABEL_PRODUCT,
                  "\"labels\":{\"metax-tech.com/gpu.memory\":\"64GB\"}}}");
    snprintf(node->gpus[3].product, sizeof(node->gpus[3].product), "MXC550"); /* they do not agree */
    expect_labels(
        node, 0,
        "\"labels\":{\"metax-tech.com/gpu.family\":\"MXC\",\"metax-tech.com/gpu.memory\":\"64GB\"}}}");
    for (unsigned i = 0; i < GPUS; i++) {
        snprintf(node->gpus[i].product, sizeof(node->gpus[i].product), " Tesla \"V100\"/32 (x)");
        node->gpus[i].memory_bytes = 0;
    }
    expect_labels(node, 0, "\"labels\":{\"metax-tech.com/gpu.product\":\"Tesla--V100--32--x\"}}}");
}

static void labels_in_conflict(void **state)
{
    cJSON *real = cJSON_Parse(
        "{\"message\":\"Apply failed with 2 conflicts\",\"details\":{\"causes\":["
        "{\"reason\":\"FieldManagerConflict\",\"field\":\".metadata.labels.metax-tech.com/gpu.product\"},"
        "{\"reason\":\"FieldManagerConflict\",\"field\":\".metadata.labels.metax-tech.com/"
        "gpu.familyname\"}]}}");
    cJSON *plain = cJSON_Parse(
        "{\"message\":\"conflict with \\\"x\\\": .metadata.labels.metax-tech.com/gpu.memory, others\"}");
    (void)state;
    assert_int_equal(gt_publish_labels_in_conflict(real), 1U << GT_LABEL_PRODUCT);
    assert_int_equal(gt_publish_labels_in_conflict(plain), 1U << GT_LABEL_MEMORY);
    assert_int_equal(gt_publish_labels_in_conflict(NULL), 0);
    cJSON_Delete(real);
    cJSON_Delete(plain);
}

static void wiring(void **state)
{
    struct bench *b = new_bench(new_node());
    struct gt_agent_condition conditions[GT_TOPOLOGY_CONDITIONS] = {0};
    const struct gt_condition_facts facts = {.inventory = b->inventory,
                                             .scan_error = "",
                                             .has_plugin = true,
                                             .registered = true,
                                             .registration_error = "",
                                             .usage_error = ""};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16), again = GT_BUF(1 << 16);
    (void)state;
    gt_conditions_update(conditions, &facts, "2026-01-31T12:00:00Z");
    gt_publish_write_wiring("n1", b->inventory->node, conditions, "2026-01-31T12:00:01Z", &text);
    cJSON *body = parse(&text), *status = cJSON_GetObjectItem(body, "status");
    assert_string_equal(gt_get_string(status, "name"), "n1"); /* not the recording's */
    assert_int_equal(cJSON_GetObjectItem(status, "gpuCount")->valueint, GPUS);
    assert_int_equal(cJSON_GetObjectItem(status, "healthyCount")->valueint, 0); /* no source has said so */
    assert_int_equal(cJSON_GetObjectItem(status, "unknownCount")->valueint, GPUS);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(status, "conditions")), GT_TOPOLOGY_CONDITIONS);
    assert_string_equal(gt_get_string(status, "observedAt"), "2026-01-31T12:00:01Z");
    cJSON_Delete(body);
    gt_publish_write_wiring("n1", b->inventory->node, conditions, NULL, &again);
    assert_null(strstr(again.data, "observedAt"));
    free_bench(b);
}

static void condition_times(void **state)
{
    struct bench *b = new_bench(new_node());
    struct gt_agent_condition conditions[GT_TOPOLOGY_CONDITIONS] = {0};
    struct gt_condition_facts facts = {.inventory = b->inventory,
                                       .scan_error = "",
                                       .has_plugin = true,
                                       .registration_error = "no kubelet",
                                       .usage_error = ""};
    cJSON *before = cJSON_Parse(
        "{\"status\":{\"conditions\":["
        "{\"type\":\"Discovered\",\"status\":\"True\",\"lastTransitionTime\":\"2020-01-01T00:00:00Z\"},"
        "{\"type\":\"Registered\",\"status\":\"True\",\"lastTransitionTime\":\"2020-01-01T00:00:00Z\"},"
        "{\"type\":\"LinksHealthy\",\"status\":\"True\",\"lastTransitionTime\":\"yesterday\"},"
        "{\"type\":\"VendorLibrary\",\"status\":7},7]}}");
    (void)state;
    gt_conditions_adopt(conditions, before);
    gt_conditions_update(conditions, &facts, "2026-01-31T12:00:00Z");
    assert_string_equal(conditions[GT_TOPOLOGY_DISCOVERED].since, "2020-01-01T00:00:00Z");
    assert_string_equal(conditions[GT_TOPOLOGY_REGISTERED].since, "2026-01-31T12:00:00Z");
    assert_int_equal(conditions[GT_TOPOLOGY_REGISTERED].status, GT_CONDITION_FALSE);
    assert_string_equal(conditions[GT_TOPOLOGY_REGISTERED].reason, "RegistrationFailed");
    assert_string_equal(conditions[GT_TOPOLOGY_LINKS_HEALTHY].since, "2026-01-31T12:00:00Z");
    facts.registered = true;
    facts.scan_error = "it burns";
    gt_conditions_update(conditions, &facts, "2026-01-31T13:00:00Z");
    assert_string_equal(conditions[GT_TOPOLOGY_REGISTERED].since, "2026-01-31T13:00:00Z");
    assert_string_equal(conditions[GT_TOPOLOGY_DISCOVERED].message, "it burns");
    gt_conditions_adopt(conditions, before); /* too late */
    gt_conditions_update(conditions, &facts, "2026-01-31T14:00:00Z");
    assert_string_equal(conditions[GT_TOPOLOGY_REGISTERED].since, "2026-01-31T13:00:00Z");
    assert_string_equal(conditions[GT_TOPOLOGY_DISCOVERED].since, "2026-01-31T13:00:00Z");
    cJSON_Delete(before);
    free_bench(b);
}

static void condition_reasons(void **state)
{
    struct gt_agent_condition c[GT_TOPOLOGY_CONDITIONS] = {0};
    struct gt_condition_facts facts = {.scan_error = "", .registration_error = "", .usage_error = ""};
    struct gt_node *node = new_node();
    (void)state;
    node->links[0].state = GT_LINK_STATE_DOWN;
    struct bench *b = new_bench(node);
    facts.inventory = b->inventory;
    gt_conditions_update(c, &facts, "t");
    assert_int_equal(c[GT_TOPOLOGY_LINKS_HEALTHY].status, GT_CONDITION_FALSE);
    assert_string_equal(c[GT_TOPOLOGY_LINKS_HEALTHY].message,
                        "1 of 2 direct links are down, between the GPUs 0-1");
    assert_string_equal(c[GT_TOPOLOGY_REGISTERED].reason, "NoDevicePlugin");
    assert_int_equal(c[GT_TOPOLOGY_VENDOR_LIBRARY].status, GT_CONDITION_TRUE);
    free_bench(b);
    node = new_node();
    for (unsigned i = 0; i < node->link_count; i++) {
        node->links[i].kind = GT_LINK_SYS;
        node->links[i].state = GT_LINK_STATE_UNKNOWN;
    }
    gt_node_missing(node, "vendor library", "%s", "it is not installed");
    node->gpus[2].mode = GT_GPU_SGPU;
    b = new_bench(node);
    facts = (struct gt_condition_facts){.inventory = b->inventory,
                                        .scan_error = "",
                                        .registration_error = "",
                                        .has_plugin = true,
                                        .usage_error = ""};
    gt_conditions_update(c, &facts, "t");
    assert_string_equal(c[GT_TOPOLOGY_LINKS_HEALTHY].reason, "NotKnown");
    assert_int_equal(c[GT_TOPOLOGY_LINKS_HEALTHY].status, GT_CONDITION_UNKNOWN);
    assert_string_equal(c[GT_TOPOLOGY_VENDOR_LIBRARY].message, "it is not installed");
    assert_string_equal(c[GT_TOPOLOGY_REGISTERED].reason, "NotAdvertised");
    free_bench(b);
}

/* A policy that refuses pods of all GPUs is told, but not where the topology manager judges no pod. */
static void condition_of_numa(void **state)
{
    struct gt_node *node = new_node();
    struct gt_agent_condition c[GT_TOPOLOGY_CONDITIONS] = {0};
    const struct gt_agent_condition *numa = &c[GT_TOPOLOGY_NUMA];
    (void)state;
    node->kubelet = (struct gt_kubelet){.policy = "single-numa-node", .scope = "container"};
    for (unsigned i = 0; i < GPUS; i++)
        node->gpus[i].numa_node = i >= GPUS / 2;
    struct bench *b = new_bench(node);
    struct gt_condition_facts facts = {.inventory = b->inventory,
                                       .scan_error = "",
                                       .registration_error = "",
                                       .usage_error = "",
                                       .usage_at = ""};
    gt_conditions_update(c, &facts, "t");
    assert_int_equal(numa->status, GT_CONDITION_FALSE);
    assert_string_equal(numa->reason, "PodsTooLarge");
    assert_non_null(strstr(numa->message, "gives one container at most"));
    facts.by_claims = true;
    gt_conditions_update(c, &facts, "t");
    assert_int_equal(numa->status, GT_CONDITION_TRUE);
    assert_string_equal(numa->reason, "NotRestricted");
    free_bench(b);
}

static void condition_of_gpus(void **state)
{
    struct gt_node *node = new_node();
    node->gpus[1].health = GT_GPU_UNHEALTHY;
    snprintf(node->gpus[1].unhealthy_reason, sizeof(node->gpus[1].unhealthy_reason), "isolated: ticket");
    struct bench *b = new_bench(node);
    struct gt_agent_condition c[GT_TOPOLOGY_CONDITIONS] = {0};
    const struct gt_agent_condition *gpus = &c[GT_TOPOLOGY_GPUS_HEALTHY];
    const struct gt_condition_facts facts = {.inventory = b->inventory,
                                             .scan_error = "",
                                             .registration_error = "",
                                             .usage_error = "",
                                             .usage_at = ""};
    gt_auto_buf struct gt_buf body = GT_BUF(4096);
    (void)state;
    gt_conditions_update(c, &facts, "2026-01-31T12:00:00Z");
    assert_int_equal(gpus->status, GT_CONDITION_FALSE);
    assert_string_equal(gpus->reason, "GPUUnhealthy");
    assert_non_null(strstr(gpus->message, "GPUs cannot be used: GPU 1 ("));
    assert_non_null(strstr(gpus->message, "): isolated: ticket"));
    gt_publish_write_condition("n1", "uid-1", gpus, &body);
    gt_auto_json cJSON *json = cJSON_Parse(body.data);
    const cJSON *list = gt_get_at(json, "status", "conditions");
    assert_int_equal(cJSON_GetArraySize(list), 1);
    assert_string_equal(gt_get_string(list->child, "type"), "MetaXGPUHealthy");
    assert_string_equal(gt_get_string(list->child, "status"), "False");
    assert_string_equal(gt_get_string(list->child, "lastTransitionTime"), "2026-01-31T12:00:00Z");
    assert_string_equal(gt_get_string(gt_get(json, "metadata"), "uid"), "uid-1");
    free_bench(b);
}

/* A long reason ends with a whole character. */
static void condition_with_a_long_reason(void **state)
{
    struct gt_node *node = new_node();
    struct gt_agent_condition c[GT_TOPOLOGY_CONDITIONS] = {0};
    gt_auto_buf struct gt_buf body = GT_BUF(4096);
    (void)state;
    node->gpus[1].health = GT_GPU_UNHEALTHY;
    char *reason = node->gpus[1].unhealthy_reason;
    int len = snprintf(reason, sizeof(node->gpus[1].unhealthy_reason), "isolated: ");
    for (unsigned i = 0; i < 33; i++, len += 3)
        snprintf(reason + len, sizeof(node->gpus[1].unhealthy_reason) - (size_t)len, "测");
    struct bench *b = new_bench(node);
    const struct gt_condition_facts facts = {.inventory = b->inventory,
                                             .scan_error = "",
                                             .registration_error = "",
                                             .usage_error = "",
                                             .usage_at = ""};
    gt_conditions_update(c, &facts, "2026-01-31T12:00:00Z");
    gt_publish_write_condition("n1", "uid-1", &c[GT_TOPOLOGY_GPUS_HEALTHY], &body);
    assert_non_null(strstr(body.data, "测测测"));
    assert_null(strstr(body.data, "\xef\xbf\xbd"));
    free_bench(b);
}

static void condition_of_use(void **state)
{
    struct bench *b = new_bench(new_node());
    struct gt_agent_condition c[GT_TOPOLOGY_CONDITIONS] = {0};
    const struct gt_agent_condition *usage = &c[GT_TOPOLOGY_USAGE_KNOWN];
    struct gt_condition_facts facts = {.inventory = b->inventory,
                                       .scan_error = "",
                                       .registration_error = "",
                                       .usage_error = "no socket",
                                       .usage_at = ""};
    (void)state;
    gt_conditions_update(c, &facts, "t1");
    assert_int_equal(usage->status, GT_CONDITION_FALSE);
    assert_string_equal(usage->reason, "NotKnown");
    assert_non_null(strstr(usage->message, "no socket"));
    facts.usage_known = true;
    facts.usage_error = "";
    gt_conditions_update(c, &facts, "t2");
    assert_int_equal(usage->status, GT_CONDITION_TRUE);
    assert_string_equal(usage->since, "t2");
    facts.usage_stale = true;
    facts.usage_error = "no answer";
    facts.usage_at = "2026-01-31T12:00:00Z";
    gt_conditions_update(c, &facts, "t3");
    assert_int_equal(usage->status, GT_CONDITION_FALSE);
    assert_string_equal(usage->reason, "Stale");
    assert_non_null(strstr(usage->message, "2026-01-31T12:00:00Z"));
    assert_non_null(strstr(usage->message, "no answer"));
    assert_string_equal(usage->since, "t3");
    free_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(object),
        cmocka_unit_test(usage),
        cmocka_unit_test(annotations),
        cmocka_unit_test(unknown_use_counts_as_free),
        cmocka_unit_test(scores_take_no_time),
        cmocka_unit_test(labels),
        cmocka_unit_test(labels_in_conflict),
        cmocka_unit_test(wiring),
        cmocka_unit_test(condition_times),
        cmocka_unit_test(condition_reasons),
        cmocka_unit_test(condition_of_numa),
        cmocka_unit_test(condition_of_gpus),
        cmocka_unit_test(condition_with_a_long_reason),
        cmocka_unit_test(condition_of_use),
    };
    return cmocka_run_group_tests_name("publish_text", tests, NULL, NULL);
}
