/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "scheduler-ext/wire/request.h"
#include "tests/unit/wire/feed.h"

static const char body[] =
    "{\"pod\":{\"metadata\":{\"name\":\"p-0\",\"namespace\":\"team\",\"uid\":\"u-1\",\"labels\":{\"app\":"
    "\"x\"},"
    "\"annotations\":{\"metax-tech.com/gpu-group-size\":\"32\",\"a\":\"b\"},\"ownerReferences\":["
    "{\"kind\":\"A\",\"name\":\"first\",\"uid\":\"1\"},"
    "{\"kind\":\"Job\",\"name\":\"j\",\"uid\":\"2\",\"controller\":true}]},"
    "\"spec\":{\"nodeName\":\"n9\",\"schedulingGates\":[{\"name\":\"g1\"},{\"name\":\"g2\"}],"
    "\"containers\":[{\"name\":\"c0\",\"resources\":{\"limits\":{\"cpu\":\"1\",\"metax-tech.com/gpu\":\"4\"},"
    "\"requests\":{\"metax-tech.com/gpu\":\"4\",\"cpu\":2,\"memory\":\"2Mi\"}}},"
    "{\"name\":\"c1\",\"resources\":{\"requests\":{\"memory\":\"4Mi\",\"cpu\":\"1000m\",\"x\":\"9\"}}},"
    "{\"resources\":{\"limits\":{\"metax-tech.com/gpu\":2}},\"name\":\"c2\"}],"
    "\"initContainers\":[{\"name\":\"i0\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\"},"
    "\"requests\":{\"cpu\":\"3\",\"memory\":\"1Mi\"}}},"
    "{\"name\":\"i1\",\"restartPolicy\":\"Always\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"1\"},"
    "\"requests\":{\"cpu\":\"0.5\",\"memory\":\"1024Ki\"}}},"
    "{\"name\":\"i2\",\"resources\":{\"requests\":{\"cpu\":4,\"metax-tech.com/"
    "gpu\":\"7\",\"memory\":\"3Mi\"}}}]}},"
    "\"NODES\":null,\"nodenames\":[\"n1\",\"n2\",\"\\u006e3\"]}";

static uint64_t asked(const struct gt_pod *pod, const char *name)
{
    uint64_t amount = 0;
    gt_resources_get(&pod->asked, name, &amount);
    return amount;
}

static void check_body(const struct gt_wire_request *request)
{
    const struct gt_pod *pod = &request->pod;
    assert_string_equal(pod->meta.namespace_, "team");
    assert_string_equal(pod->meta.name, "p-0");
    assert_string_equal(pod->uid, "u-1");
    assert_int_equal(pod->gpus.total, 8);            /* of 4 + 2 + 1 beside the sidecar, 8 alone, 7 + 1 */
    assert_int_equal(asked(pod, "cpu"), 4500);       /* of 2 + 1 + 0.5 beside the sidecar, 3 alone, 4 + 0.5 */
    assert_int_equal(asked(pod, "memory"), 7 << 20); /* of 2 + 4 + 1, 1, 3 + 1 */
    assert_int_equal(request->count, 3);
    assert_string_equal(request->nodes[0], "n1");
    assert_string_equal(request->nodes[2], "n3");
}

static void test_pod(void **state)
{
    (void)state;
    gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(GT_WIRE_PRIORITIZE);
    for (size_t step = 1; step <= sizeof(body); step++) {
        gt_auto_err struct gt_err *err = NULL;
        if (read_text(request, body, sizeof(body) - 1, step, &err) < 0)
            fail_msg("step %zu: %s", step, gt_err_text(err));
        check_body(request);
    }
    /* cut short anywhere: an error, never half an answer */
    for (size_t len = 0; len < sizeof(body) - 1; len++) {
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(read_text(request, body, len, len + 1, &err), -EINVAL);
        assert_non_null(strstr(gt_err_text(err), "line 1, column "));
    }
}

/* A pod "p" with what is given, and a name. */
static int read_pod(struct gt_wire_request *request, const char *metadata, const char *spec,
                    struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_buf_printf(&text, "{\"Pod\":{\"metadata\":{\"name\":\"p\"%s},\"spec\":{%s}},\"NodeNames\":[\"n\"]}",
                  metadata, spec);
    return read_text(request, text.data, text.len, 4096, err);
}

/* That the pod is read as every other is tested in tests/unit/api; here, that it is the same reader. */
static void test_same_reader(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        unsigned gpus;
        const char *error; /* NULL: good */
    } cases[] = {
        {"", 0, NULL},
        {"\"containers\":null", 0, NULL},
        {"\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\"}}}]", 8,
         NULL},
        {"\"containers\":[{\"name\":\"c\",\"resources\":{\"claims\":[{\"name\":\"gputopo-gpus\","
         "\"request\":\"gpus-0\"}]}}],\"resourceClaims\":[{\"name\":\"gputopo-gpus\","
         "\"resourceClaimTemplateName\":\"gputopo-gpus-4\"}]",
         4, NULL},
        {"\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"-1\"}}}]", 0,
         "Pod.spec: container c: metax-tech.com/gpu: \"-1\" is negative, expected 0 to 65535"},
        {"\"nodeName\":7,\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{"
         "\"metax-tech.com/gpu\":1}}}]",
         0, "Pod: it has invalid fields"},
    };
    gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(GT_WIRE_FILTER);
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_err struct gt_err *err = NULL;
        int r = read_pod(request, "", cases[i].spec, &err);
        assert_int_equal(r, cases[i].error ? -EINVAL : 0);
        if (cases[i].error)
            assert_string_equal(gt_err_text(err), cases[i].error);
        else
            assert_int_equal(request->pod.gpus.total, cases[i].gpus);
    }
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_auto_err struct gt_err *err = NULL;
    gt_buf_puts(&text, "\"containers\":[{\"name\":\"c\"}");
    for (unsigned i = 0; i < 5000; i++)
        gt_buf_puts(&text, ",{\"name\":\"c\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"1\"}}}");
    gt_buf_puts(&text, "]");
    assert_int_equal(read_pod(request, "", text.data, &err), -E2BIG);
}

static void test_requests(void **state)
{
    (void)state;
#define P "\"Pod\":{\"metadata\":{\"name\":\"p\"}}"
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{}", "Pod.metadata.name: missing"},
        {"[]", "expected an object, found an array"},
        {"{\"Pod\":null,\"NodeNames\":[]}", "Pod.metadata.name: missing"},
        {"{" P "}", "NodeNames: missing; the extender's configuration needs nodeCacheCapable: true"},
        {"{" P ",\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"a\"}}]},\"NodeNames\":null}",
         "NodeNames: missing; the extender's configuration needs nodeCacheCapable: true"},
        {"{\"Pod\":{},\"pod\":{}}", "byte 15: Pod comes twice in one object"},
        {"{" P ",\"NodeNames\":[\"a\",7]}", "NodeNames[1]: a node without a name"},
        {"{" P ",\"NodeNames\":[\"a\",\"\"]}", "NodeNames[1]: a node without a name"},
        {"{" P ",\"NodeNames\":\"a\"}", "NodeNames: expected an array, found a string"},
        {"{" P ",\"NodeNames\":[\"a\"]", "the request, without what is not read: line 1, column 51: expected "
                                         "',' or '}', found the end of the "
                                         "text"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++)
        for (unsigned verb = GT_WIRE_FILTER; verb <= GT_WIRE_PRIORITIZE; verb++) {
            gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(verb);
            gt_auto_err struct gt_err *err = NULL;
            assert_int_equal(read_text(request, cases[i].text, strlen(cases[i].text), 1000, &err), -EINVAL);
            assert_string_equal(gt_err_text(err), cases[i].error);
            /* after that it works as new */
            assert_int_equal(read_text(request, body, sizeof(body) - 1, 100, NULL), 0);
            check_body(request);
        }
    gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(GT_WIRE_FILTER);
    static const char none[] = "{" P ",\"NodeNames\":[]}";
    assert_int_equal(read_text(request, none, sizeof(none) - 1, 100, NULL), 0);
    assert_int_equal(request->count, 0);
    assert_int_equal(request->pod.gpus.total, 0);
    assert_string_equal(request->pod.meta.namespace_, "");
}

/* 11 MB of names: of one name, of many, of too many; and more than is ever needed. */
static void test_many_names(void **state)
{
    (void)state;
    enum { MANY = 11 << 20 };
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(GT_WIRE_PRIORITIZE);
    gt_auto_err struct gt_err *err = NULL, *more = NULL, *most = NULL;
    gt_buf_puts(&text, "{" P ",\"NodeNames\":[\"");
    for (unsigned i = 0; i < MANY / 64; i++)
        gt_buf_puts(&text, "0123456789012345678901234567890123456789012345678901234567890123");
    gt_buf_puts(&text, "\"]}");
    assert_int_equal(read_text(request, text.data, text.len, 65536, &err), -EMSGSIZE);
    assert_string_equal(gt_err_text(err), "NodeNames[0]: a name of more than 253 bytes");

    text.len = 0;
    gt_buf_puts(&text, "{" P ",\"NodeNames\":[");
    for (unsigned i = 0; i < GT_WIRE_NODES_MAX; i++)
        gt_buf_printf(&text, "%s\"node-%u-%0230u\"", i ? "," : "", i, i);
    gt_buf_puts(&text, "]}");
    assert_int_equal(read_text(request, text.data, text.len, 65536, NULL), 0);
    assert_int_equal(request->count, GT_WIRE_NODES_MAX);
    assert_memory_equal(request->nodes[12345], "node-12345-000", 14);

    text.len -= 2;
    gt_buf_puts(&text, ",\"one-more\"]}");
    assert_int_equal(read_text(request, text.data, text.len, 65536, &more), -EMSGSIZE);
    assert_string_equal(gt_err_text(more), "NodeNames: more than 65536 nodes");

    gt_wire_request_reset(request);
    int r = gt_wire_request_feed(request, "{\"NodeNames\":[\"", 15, &most);
    for (unsigned i = 0; r >= 0 && i < GT_WIRE_TEXT_MAX / 65536; i++)
        r = gt_wire_request_feed(request, text.data + 1000, 65536, &most);
    assert_int_equal(r, -EMSGSIZE);
    assert_true(gt_wire_request_bytes(request) <= GT_WIRE_TEXT_MAX + (1 << 20));
    gt_wire_request_reset(request);
    assert_true(gt_wire_request_bytes(request) < 1 << 20);
}

static cJSON *answer(const struct gt_buf *to)
{
    assert_false(to->failed);
    cJSON *json = cJSON_ParseWithLength(to->data, to->len);
    if (!json)
        fail_msg("no JSON: %s", to->data);
    return json;
}

static void test_answers(void **state)
{
    (void)state;
    gt_auto_wire_request struct gt_wire_request *args = gt_wire_request_new(GT_WIRE_PRIORITIZE);
    assert_int_equal(read_text(args, body, sizeof(body) - 1, 100, NULL), 0);

    gt_auto_buf struct gt_buf to = GT_BUF(GT_WIRE_ANSWER_MAX);
    static const struct gt_filter_verdict verdicts[] = {
        {NULL, false}, {"2 of 8 GPUs\nare \"free\"", false}, {"too small", true}};
    gt_filter_answer(&to, args, verdicts);
    assert_string_equal(to.data, "{\"NodeNames\":[\"n1\"],\"FailedNodes\":{\"n2\":\"2 of 8 GPUs\\nare "
                                 "\\\"free\\\"\"},\"FailedAndUnresolvableNodes\":{\"n3\":\"too small\"},"
                                 "\"Error\":\"\"}");
    cJSON_Delete(answer(&to));

    static const struct gt_filter_verdict all[3] = {{0}};
    to.len = 0;
    gt_filter_answer(&to, args, all);
    assert_string_equal(to.data, "{\"NodeNames\":[\"n1\",\"n2\",\"n3\"],\"FailedNodes\":{},"
                                 "\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}");

    static const struct gt_filter_verdict no_node[] = {{"x", false}, {"y", false}, {"", false}};
    to.len = 0;
    gt_filter_answer(&to, args, no_node); /* a list, though empty: null would mean something else */
    assert_string_equal(to.data, "{\"NodeNames\":[],\"FailedNodes\":{\"n1\":\"x\",\"n2\":\"y\",\"n3\":\"\"},"
                                 "\"FailedAndUnresolvableNodes\":{},\"Error\":\"\"}");

    to.len = 0;
    gt_prioritize_answer(&to, args, (const uint8_t[]){0, 10, 200});
    assert_string_equal(to.data, "[{\"Host\":\"n1\",\"Score\":0},{\"Host\":\"n2\",\"Score\":10},"
                                 "{\"Host\":\"n3\",\"Score\":10}]");
    to.len = 0;
    gt_filter_error(&to, "no \"model\" yet");
    assert_string_equal(to.data, "{\"Error\":\"no \\\"model\\\" yet\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pod),      cmocka_unit_test(test_same_reader),
        cmocka_unit_test(test_requests), cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
