/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/event.h"
#include "api/lease.h"
#include "api/meta.h"
#include "api/names.h"
#include "api/supernode.h"
#include "api/workload.h"
#include "base/json.h"
#include "base/text.h"

/* Objects of which little is read or written. */

static cJSON *parsed(const char *text)
{
    cJSON *json = cJSON_Parse(text);
    if (!json)
        fail_msg("no JSON: %s", text);
    return json;
}

static void check(const struct gt_buf *buf, const char *want)
{
    gt_auto_json cJSON *is = parsed(buf->data), *expected = parsed(want);
    assert_false(buf->failed);
    if (!cJSON_Compare(is, expected, true))
        fail_msg("%s, expected %s", buf->data, want);
}

static void test_meta(void **state)
{
    (void)state;
    static const char *const odd[] = {"{}", "7", "{\"metadata\":[]}",
                                      "{\"metadata\":{\"name\":7,\"labels\":1}}"};
    for (size_t i = 0; i < GT_COUNT(odd); i++) {
        gt_auto_json cJSON *json = parsed(odd[i]);
        assert_string_equal(gt_meta_name(json), "");
        assert_false(gt_meta_is_companions(json) || gt_meta_is_applied_by(json, "m"));
    }
    gt_auto_json cJSON *json =
        parsed("{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\",\"resourceVersion\":\"d\","
               "\"labels\":{"
               "\"" GT_LABEL_MANAGED_BY "\":\"" GT_COMPANION_NAME "\"},\"managedFields\":[{\"manager\":\"m\","
               "\"operation\":\"Update\"},{\"manager\":\"n\",\"operation\":\"Apply\"}]}}");
    assert_string_equal(gt_meta_namespace(json), "a");
    assert_string_equal(gt_meta_name(json), "b");
    assert_string_equal(gt_meta_uid(json), "c");
    assert_string_equal(gt_meta_version(json), "d");
    assert_true(gt_meta_is_companions(json) && gt_meta_is_applied_by(json, "n"));
    assert_false(gt_meta_is_applied_by(json, "m")); /* an update */
}

static void test_lease(void **state)
{
    (void)state;
    struct gt_lease lease = {
        .identity = "me \"x\"", .duration_s = 15, .transitions = 3, .resource_version = "77"};
    const struct timespec when = {.tv_sec = 1769860800, .tv_nsec = 123456789};
    gt_time_text_fine(&when, 6, lease.renewed);
    assert_string_equal(lease.renewed, "2026-01-31T12:00:00.123456Z");
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_lease_write(&text, "ns", "l", &lease);
    cJSON *json = parsed(text.data);
    assert_string_equal(gt_meta_namespace(json), "ns");
    struct gt_lease again = {0};
    assert_int_equal(gt_lease_read(json, &again, NULL), 0);
    assert_memory_equal(&lease, &again, sizeof(lease));
    cJSON_Delete(json);

    static const char *const bad[] = {"{}", "[]", "null", "{\"metadata\":{\"name\":\"x\"}}"};
    for (size_t i = 0; i < GT_COUNT(bad); i++) {
        json = cJSON_Parse(bad[i]);
        assert_int_equal(gt_lease_read(json, &again, NULL), -EBADMSG);
        cJSON_Delete(json);
    }
    json = cJSON_Parse(
        "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"1\"},"
        "\"spec\":{\"leaseDurationSeconds\":1e300,\"leaseTransitions\":-5,\"holderIdentity\":4}}");
    assert_int_equal(gt_lease_read(json, &again, NULL), 0);
    assert_int_equal(again.duration_s, 0);
    assert_int_equal(again.transitions, 0);
    assert_string_equal(again.identity, "");
    cJSON_Delete(json);
}

/* It is written as one of events.k8s.io/v1 and read as one of v1, which the API server makes of it. */
static void test_event(void **state)
{
    (void)state;
    const struct gt_event_object event = {.api_version = "v1",
                                          .kind = "Node",
                                          .name = "n1",
                                          .uid = "u",
                                          .warning = true,
                                          .reason = "LinkDown",
                                          .note = "a \"link\""};
    const struct gt_event_origin origin = {"e", "default", "c", "i", "2026-01-31T12:00:00.123456Z"};
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_event_write(&event, &origin, &text);
    check(
        &text,
        "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"e\",\"namespace\":"
        "\"default\"},\"eventTime\":\"2026-01-31T12:00:00.123456Z\",\"type\":\"Warning\",\"reason\":"
        "\"LinkDown\",\"note\":\"a \\\"link\\\"\",\"reportingController\":\"c\",\"reportingInstance\":\"i\","
        "\"regarding\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"n1\",\"uid\":\"u\"}}");
    gt_auto_json cJSON *json = parsed(text.data);
    struct gt_event_object again;
    uint64_t last_s;
    cJSON_AddItemToObject(json, "involvedObject", cJSON_DetachItemFromObject(json, "regarding"));
    gt_event_read(json, &again, &last_s);
    assert_int_equal(last_s, 1769860800);
    assert_string_equal(again.kind, "Node");
    assert_string_equal(again.uid, "u");
    assert_string_equal(again.namespace_, "default");
    cJSON_AddStringToObject(json, "lastTimestamp", "2026-01-31T12:00:05Z");
    cJSON_AddItemToObject(json, "series", parsed("{\"lastObservedTime\":\"2026-01-31T12:00:07.5Z\"}"));
    gt_event_read(json, &again, &last_s);
    assert_int_equal(last_s, 1769860807);
    gt_auto_json cJSON *none = parsed("{\"involvedObject\":7,\"eventTime\":\"x\"}");
    gt_event_read(none, &again, &last_s);
    assert_string_equal(again.name, "");
    assert_int_equal(last_s, 0);
}

/* The end of a command that is cut could name another pod. */
static void test_event_note_is_cut(void **state)
{
    (void)state;
    const struct gt_event_origin origin = {"e", "default", "c", "i", "2026-01-31T12:00:00.123456Z"};
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    char note[1100], cut[8];
    memset(note, 'a', sizeof(note) - 1);
    note[sizeof(note) - 1] = '\0';
    gt_event_write(&(struct gt_event_object){.note = note}, &origin, &text);
    assert_non_null(strstr(text.data, "aaa...\""));
    note[1000] = '\0';
    gt_buf_consume(&text, text.len);
    gt_event_write(&(struct gt_event_object){.note = note}, &origin, &text);
    assert_null(strstr(text.data, "..."));
    gt_text_shorten(cut, sizeof(cut), "12345\xc3\xa4");
    assert_string_equal(cut, "12345\xc3\xa4");
    gt_text_shorten(cut, sizeof(cut), "123\xc3\xa4zzz");
    assert_string_equal(cut, "123...");
}

static void test_hyper_node(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_auto_hyper_node struct gt_hyper_node node = {.tier = 2}, again = {0}, odd = {0};
    for (unsigned i = 0; i < 5; i++)
        *gt_hyper_node_add(&node) = (struct gt_hyper_node_member){.is_node = i % 2, .name = i ? "n" : "s\""};
    gt_hyper_node_write(&node, &text);
    gt_auto_json cJSON *json = parsed(text.data);
    assert_int_equal(gt_hyper_node_read(json, &again, NULL), 0);
    assert_int_equal(again.tier, 2);
    assert_int_equal(again.count, node.count);
    for (unsigned i = 0; i < node.count; i++) {
        assert_int_equal(again.members[i].is_node, node.members[i].is_node);
        assert_string_equal(again.members[i].name, node.members[i].name);
        assert_true(!again.members[i].pattern && !again.members[i].by_labels);
    }
    gt_auto_json cJSON *nonsense =
        parsed("{\"spec\":{\"tier\":-1,\"members\":[7,null,{\"type\":\"Node\",\"selector\":{"
               "\"regexMatch\":{\"pattern\":\"a.*\"},\"labelMatch\":{}}}]}}");
    assert_int_equal(gt_hyper_node_read(nonsense, &odd, NULL), 0);
    assert_int_equal(odd.tier, 0);
    assert_int_equal(odd.count, 3);
    assert_null(odd.members[0].name);
    assert_string_equal(odd.members[2].pattern, "a.*");
    assert_true(odd.members[2].by_labels);
}

static void test_node_feature(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    const struct gt_node_feature feature = {.node = "n1",
                                            .gpus = 8,
                                            .links = GT_CONDITION_TRUE,
                                            .supernode_count = 2,
                                            .supernodes = {{"s", 1}, {"block", 3}},
                                            .source = "config"},
                                 unknown = {.node = "n2", .gpus = -1};
    gt_node_feature_write(&feature, &text);
    check(
        &text,
        "{\"labels\":{\"nfd.node.kubernetes.io/"
        "node-name\":\"n1\"},\"spec\":{\"labels\":{\"" GT_LABEL_MEMBER_OF "\":\"s\",\"" GT_LABEL_TIER_PREFIX
        "3\":\"block\"},\"features\":{\"flags\":{},\"attributes\":{"
        "\"metax.node\":{\"elements\":{\"gpus\":\"8\",\"links\":\"up\"}},\"metax.supernode\":{\"elements\":{"
        "\"name\":\"s\",\"tier\":\"1\",\"source\":\"config\",\"parent\":\"block\"}}},\"instances\":{"
        "\"metax.gpu\":{\"elements\":[]}}}}}");
    gt_buf_done(&text);
    gt_node_feature_write(&unknown, &text);
    check(
        &text,
        "{\"labels\":{\"nfd.node.kubernetes.io/node-name\":\"n2\"},\"spec\":{\"labels\":{},\"features\":{"
        "\"flags\":{},\"attributes\":{\"metax.node\":{\"elements\":{\"gpus\":\"0\",\"links\":\"unknown\"}}},"
        "\"instances\":{\"metax.gpu\":{\"elements\":[]}}}}}");
}

/* What its flavor says counts for pods of the set. */
static void test_resource_flavor(void **state)
{
    (void)state;
    gt_auto_json cJSON *object =
                           parsed("{\"metadata\":{\"name\":\"f\"},\"spec\":{\"nodeLabels\":{\"zone\":\"a\"},"
                                  "\"tolerations\":[{\"operator\":\"Exists\"}]}}"),
                       *flavors = parsed("{\"gpu\":\"f\",\"cpu\":\"unknown\"}"),
                       *own = parsed("{\"disk\":\"b\"}");
    struct gt_resource_flavor flavor;
    struct gt_pod_where where;
    assert_int_equal(gt_resource_flavor_read(object, &flavor, NULL), 0);
    const struct gt_workload_pod_set pod_set = {.where = {.selector = own}, .flavors = flavors};
    assert_int_equal(gt_workload_where(&pod_set, &flavor, 1, &where, NULL), 0);
    assert_int_equal(cJSON_GetArraySize(where.selector), 2);
    assert_int_equal(cJSON_GetArraySize(where.tolerations), 1);
    assert_int_equal(cJSON_GetArraySize(own), 1); /* not changed */
    gt_workload_where_done(&where);
    gt_resource_flavor_done(&flavor);
    gt_auto_json cJSON *nameless = parsed("{\"spec\":{}}");
    assert_int_equal(gt_resource_flavor_read(nameless, &flavor, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meta),
        cmocka_unit_test(test_lease),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_event_note_is_cut),
        cmocka_unit_test(test_hyper_node),
        cmocka_unit_test(test_node_feature),
        cmocka_unit_test(test_resource_flavor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
