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

#include "scheduler-ext/wire/answer.h"
#include "scheduler-ext/wire/extender_args.h"
#include "tests/bench/wire_bodies.h"

static int read_text(struct gt_extender_reader *reader, const char *text, size_t len, size_t step,
                     const struct gt_extender_args **ret, struct gt_err **err)
{
    gt_extender_reader_reset(reader);
    for (size_t at = 0; at < len; at += step) {
        int r = gt_extender_reader_feed(reader, text + at, len - at < step ? len - at : step, err);
        if (r < 0)
            return r;
    }
    return gt_extender_reader_finish(reader, ret, err);
}

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

static void check_body(const struct gt_extender_args *args)
{
    const struct gt_wire_pod *pod = &args->pod;
    assert_string_equal(pod->namespace_, "team");
    assert_string_equal(pod->name, "p-0");
    assert_string_equal(pod->uid, "u-1");
    assert_int_equal(pod->gpus.total, 8);   /* of 4 + 2 + 1 beside the sidecar, 8 alone, 7 + 1 */
    assert_int_equal(pod->cpu_milli, 4500); /* of 2 + 1 + 0.5 beside the sidecar, 3 alone, 4 + 0.5 */
    assert_int_equal(pod->memory, 7 << 20); /* of 2 + 4 + 1, 1, 3 + 1 */
    assert_true(args->by_name);
    assert_int_equal(args->nodes.count, 3);
    assert_string_equal(gt_wire_name(&args->nodes, 0), "n1");
    assert_string_equal(gt_wire_name(&args->nodes, 2), "n3");
    assert_int_equal(gt_wire_name_length(&args->nodes, 0), 2);
    assert_int_equal(gt_wire_name_length(&args->nodes, 2), 2);
}

static void test_pod(void **state)
{
    (void)state;
    gt_auto_extender_reader struct gt_extender_reader *reader = gt_extender_reader_new(false);
    for (size_t step = 1; step <= sizeof(body); step++) {
        const struct gt_extender_args *args = NULL;
        gt_auto_err struct gt_err *err = NULL;
        if (read_text(reader, body, sizeof(body) - 1, step, &args, &err) < 0)
            fail_msg("step %zu: %s", step, gt_err_text(err));
        check_body(args);
    }
    /* cut short anywhere: an error, never half an answer */
    for (size_t len = 0; len < sizeof(body) - 1; len++) {
        const struct gt_extender_args *args = NULL;
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(read_text(reader, body, len, len + 1, &args, &err), -EBADMSG);
        assert_null(args);
        assert_non_null(strstr(gt_err_text(err), "the text ends"));
    }
}

/* A pod "p" with what is given, and two names. */
static int read_pod(const char *metadata, const char *spec, struct gt_wire_pod *pod, struct gt_err **err)
{
    gt_auto_extender_reader struct gt_extender_reader *reader = gt_extender_reader_new(false);
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    const struct gt_extender_args *args;
    gt_buf_printf(&text, "{\"Pod\":{\"metadata\":{\"name\":\"p\"%s},\"spec\":{%s}},\"NodeNames\":[\"n\"]}",
                  metadata, spec);
    int r = read_text(reader, text.data, text.len, 4096, &args, err);
    if (r == 0)
        pod->gpus = args->pod.gpus;
    return r;
}

static void refuses(const char *metadata, const char *spec, int code, const char *sentence)
{
    struct gt_wire_pod pod;
    gt_auto_err struct gt_err *err = NULL;
    int r = read_pod(metadata, spec, &pod, &err);
    const char *text = gt_err_text(err);
    if (r != code || strncmp(text, "byte ", 5) != 0 || !strstr(text, ": ") ||
        strcmp(strstr(text, ": ") + 2, sentence) != 0)
        fail_msg("%s %s: %d %s", metadata, spec, r, text);
}

#define GPUS(amount) "\"containers\":[{},{\"resources\":{\"limits\":{\"metax-tech.com/gpu\":" amount "}}}]"
#define WHERE        "Pod.spec.containers[1].resources.limits: metax-tech.com/gpu: "

static void test_amounts(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t gpus, containers;
    } good[] = {
        {"", 0, 0},
        {"\"containers\":null", 0, 0},
        {"\"containers\":[]", 0, 0},
        {"\"containers\":[{\"resources\":null}]", 0, 0},
        {"\"containers\":[{\"resources\":{\"limits\":null,\"requests\":{}}}]", 0, 0},
        {GPUS("\"8\""), 8, 1},
        {GPUS("8"), 8, 1},
        {GPUS("\"8k\""), 8000, 1},
        {GPUS("\"8e0\""), 8, 1},
        {GPUS("8.0"), 8, 1},
        {GPUS("\"0\""), 0, 0},
        {GPUS("null"), 0, 0},
        {GPUS("\"64k\""), 64000, 1},
    };
    for (unsigned i = 0; i < GT_COUNT(good); i++) {
        struct gt_wire_pod pod = {0};
        gt_auto_err struct gt_err *err = NULL;
        if (read_pod("", good[i].spec, &pod, &err) < 0 || pod.gpus.total != good[i].gpus ||
            pod.gpus.containers != good[i].containers)
            fail_msg("%s: %s %u %u", good[i].spec, gt_err_text(err), pod.gpus.total, pod.gpus.containers);
    }
    refuses("", GPUS("\"-1\""), -EINVAL, WHERE "\"-1\" is negative, expected 0 to 65535");
    refuses("", GPUS("-8"), -EINVAL, WHERE "\"-8\" is negative, expected 0 to 65535");
    refuses("", GPUS("0.5"), -EINVAL, WHERE "\"0.5\" is not a whole number, expected 0 to 65535");
    refuses("", GPUS("\"500m\""), -EINVAL, WHERE "\"500m\" is not a whole number, expected 0 to 65535");
    refuses("", GPUS("1e30"), -EINVAL, WHERE "\"1e30\" is too large, expected 0 to 65535");
    refuses("", GPUS("\"1000000000000000000000000000000\""), -EINVAL,
            WHERE "\"1000000000000000000000000000000\" is too large, expected 0 to 65535");
    refuses("", GPUS("\"eight\""), -EINVAL, WHERE "\"eight\" is no quantity, expected 0 to 65535");
    refuses("", GPUS("\"\""), -EINVAL, WHERE "\"\" is no quantity, expected 0 to 65535");
    refuses("", GPUS("true"), -EINVAL,
            "Pod.spec.containers[1].resources.limits: expected a string or a number, found true");
    refuses("", GPUS("\"8\",\"metax-tech.com/gpu\":\"9\""), -EINVAL,
            "Pod.spec.containers[1].resources.limits: metax-tech.com/gpu comes twice");
}

static void test_hostile_pods(void **state)
{
    (void)state;
    refuses(",\"name\":\"q\"", "", -EINVAL, "Pod.metadata.name: comes twice in one object");
    refuses("", "\"containers\":[null]", -EINVAL, "Pod.spec.containers[0]: expected an object, found null");
    refuses("", "\"containers\":{}", -EINVAL, "Pod.spec.containers: expected an array, found an object");
    refuses(",\"namespace\":\"a\\u0000b\"", "", -EBADMSG, "Pod.metadata.namespace: a NUL in a text");

    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    struct gt_wire_pod pod;
    gt_auto_err struct gt_err *err = NULL;
    gt_buf_puts(&text, "\"containers\":[{}");
    for (unsigned i = 0; i < 5000; i++)
        gt_buf_puts(&text, ",{\"name\":\"c\",\"resources\":{\"limits\":{\"cpu\":\"1\"}}}");
    gt_buf_puts(&text, "]");
    assert_int_equal(read_pod("", text.data, &pod, &err), 0); /* many containers without GPUs */
    assert_int_equal(pod.gpus.total, 0);

    text.len = 0;
    gt_buf_puts(&text, "\"containers\":[{}");
    for (unsigned i = 0; i < 5000; i++)
        gt_buf_puts(&text, ",{\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"1\"}}}");
    gt_buf_puts(&text, "]");
    assert_int_equal(read_pod("", text.data, &pod, &err), -E2BIG);
    assert_non_null(strstr(gt_err_text(err), "Pod.spec.containers[129]: more than 128 containers"));
}

/* ---- against the reader of pods as trees ---- */

static void add_amount(struct gt_buf *to, const char *key, unsigned *seed)
{
    static const char *const amounts[] = {"0",         "1",       "\"2\"", "\"4\"",   "8",     "\"1e3\"",
                                          "\"8000m\"", "\"2k\"",  "5",     "\"9\"",   "3.0",   "\"0\"",
                                          "\"-1\"",    "\"0.5\"", "\"x\"", "\"90k\"", "70000", "65536"};
    unsigned sound = rand_r(seed) % 50 ? 12 : GT_COUNT(amounts); /* the others now and then */
    gt_buf_printf(to, "\"%s\":{\"cpu\":\"1\",\"metax-tech.com/gpu\":%s}", key,
                  amounts[(unsigned)rand_r(seed) % sound]);
}

static void add_list(struct gt_buf *to, const char *key, unsigned most, unsigned *seed)
{
    unsigned count = (unsigned)rand_r(seed) % most;
    gt_buf_printf(to, "\"%s\":[", key);
    for (unsigned i = 0; i < count; i++) {
        gt_buf_printf(to, "%s{\"name\":\"c%u\"%s,\"resources\":{", i ? "," : "", i,
                      rand_r(seed) % 3 ? "" : ",\"restartPolicy\":\"Always\"");
        unsigned which = (unsigned)rand_r(seed) % 4;
        if (which & 1)
            add_amount(to, "requests", seed);
        gt_buf_puts(to, which == 3 ? "," : "");
        if (which & 2)
            add_amount(to, "limits", seed);
        gt_buf_puts(to, "}}");
    }
    gt_buf_puts(to, "]");
}

/* Both count with the same function: here, that they hand it the same. */
static void test_pods_as_bytes_and_as_trees(void **state)
{
    (void)state;
    unsigned seed = 11, refused = 0, asked = 0;
    gt_auto_extender_reader struct gt_extender_reader *reader = gt_extender_reader_new(false);
    for (unsigned round = 0; round < 5000; round++) {
        gt_auto_buf struct gt_buf spec = GT_BUF(1 << 20), text = GT_BUF(1 << 20);
        unsigned most = round % 10 ? 5 : 90;
        bool turned = rand_r(&seed) % 2;
        add_list(&spec, turned ? "containers" : "initContainers", most, &seed);
        gt_buf_puts(&spec, ",");
        add_list(&spec, turned ? "initContainers" : "containers", most, &seed);
        gt_buf_printf(&text, "{\"Pod\":{\"metadata\":{\"name\":\"p\"},\"spec\":{%s}},\"NodeNames\":[]}",
                      spec.data);
        const struct gt_extender_args *args = NULL;
        int r = read_text(reader, text.data, text.len, 1000, &args, NULL);
        cJSON *json = cJSON_ParseWithLength(text.data, text.len);
        struct gt_pod pod;
        gt_pod_read(cJSON_GetObjectItem(json, "Pod"), GT_RESOURCE_GPU, &pod);
        if ((r < 0) != (pod.invalid != NULL))
            fail_msg("%d, but '%s': %s", r, pod.invalid ? pod.invalid : "", spec.data);
        const struct gt_pod_gpus *a = r < 0 ? NULL : &args->pod.gpus, *b = &pod.gpus;
        if (a && (a->total != b->total || a->containers != b->containers || a->sidecars != b->sidecars ||
                  a->inits != b->inits ||
                  memcmp(a->counts, b->counts, sizeof(*a->counts) * (a->containers + a->inits)) != 0))
            fail_msg("%u and %u GPUs: %s", a->total, b->total, spec.data);
        refused += r < 0;
        asked += r >= 0 && b->total;
        cJSON_Delete(json);
    }
    assert_true(refused > 100 && asked > 1000);
}

static void test_requests(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{}", "Pod.metadata.name: missing"},
        {"[]", "byte 0: expected an object, found an array"},
        {"{\"Pod\":null,\"NodeNames\":[]}", "Pod.metadata.name: missing"},
        {"{\"Pod\":{\"metadata\":{\"name\":\"p\"}}}", "neither Nodes nor NodeNames is given"},
        {"{\"Pod\":{\"metadata\":{\"name\":\"p\"}},\"Nodes\":null,\"NodeNames\":null}",
         "neither Nodes nor NodeNames is given"},
        {"{\"Pod\":{\"metadata\":{\"name\":\"p\"}},\"Nodes\":{\"items\":[]},\"NodeNames\":[]}",
         "both Nodes and NodeNames are given, expected one of them"},
        {"{\"Pod\":{},\"pod\":{}}", "byte 14: Pod: comes twice in one object"},
        {"{\"NodeNames\":[\"a\",7]}", "byte 19: NodeNames[1]: expected a string, found a number"},
        {"{\"NodeNames\":[\"a\",\"\"]}", "byte 19: NodeNames[1]: a node without a name"},
        {"{\"NodeNames\":\"a\"}", "byte 13: NodeNames: expected an array, found a string"},
        {"{\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"a\"}},{\"metadata\":{}}]}}",
         "byte 59: Nodes.items[1]: a node without a name"},
        {"{\"Nodes\":[]}", "byte 9: Nodes: expected an object, found an array"},
        {"{\"Pod\":{\"metadata\":{\"name\":\"p\"}},\"NodeNames\":[\"a\"]",
         "byte 50: NodeNames: the text ends here, expected ',' or '}'"},
    };
    gt_auto_extender_reader struct gt_extender_reader *reader = gt_extender_reader_new(false);
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        const struct gt_extender_args *args = NULL;
        gt_auto_err struct gt_err *err = NULL;
        assert_true(read_text(reader, cases[i].text, strlen(cases[i].text), 1000, &args, &err) < 0);
        assert_string_equal(gt_err_text(err), cases[i].error);
        assert_null(args);
    }
    /* after all that it works as new */
    const struct gt_extender_args *args = NULL;
    assert_int_equal(read_text(reader, body, sizeof(body) - 1, 100, &args, NULL), 0);
    check_body(args);
    static const char none[] = "{\"Pod\":{\"metadata\":{\"name\":\"p\"}},\"Nodes\":{\"items\":null}}";
    assert_int_equal(read_text(reader, none, sizeof(none) - 1, 100, &args, NULL), 0);
    assert_int_equal(args->nodes.count, 0);
    assert_int_equal(args->pod.gpus.total, 0);
    assert_string_equal(args->pod.namespace_, "");
    assert_false(args->by_name);
}

/* 11 MB of names: of one name, of many, of too many. */
static void test_many_names(void **state)
{
    (void)state;
    enum { MANY = 11 << 20 };
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_auto_extender_reader struct gt_extender_reader *reader = gt_extender_reader_new(false);
    const struct gt_extender_args *args = NULL;
    gt_auto_err struct gt_err *err = NULL;
    gt_buf_puts(&text, "{\"Pod\":{\"metadata\":{\"name\":\"p\"}},\"NodeNames\":[\"");
    for (unsigned i = 0; i < MANY / 64; i++)
        gt_buf_puts(&text, "0123456789012345678901234567890123456789012345678901234567890123");
    gt_buf_puts(&text, "\"]}");
    assert_int_equal(read_text(reader, text.data, text.len, 65536, &args, &err), -EMSGSIZE);
    assert_non_null(strstr(gt_err_text(err), "NodeNames[0]: a text of more than 253 bytes"));

    text.len = 0;
    gt_buf_puts(&text, "{\"Pod\":{\"metadata\":{\"name\":\"p\"}},\"NodeNames\":[");
    for (unsigned i = 0; i < GT_WIRE_NODES_MAX; i++)
        gt_buf_printf(&text, "%s\"node-%u-abcdef0123456789012345678901234567890123456789\"", i ? "," : "", i);
    gt_buf_puts(&text, "]}");
    assert_true(text.len > 3 << 20);
    assert_int_equal(read_text(reader, text.data, text.len, 65536, &args, NULL), 0);
    assert_int_equal(args->nodes.count, GT_WIRE_NODES_MAX);
    assert_string_equal(gt_wire_name(&args->nodes, 12345),
                        "node-12345-abcdef0123456789012345678901234567890123456789");

    text.len -= 2;
    gt_buf_puts(&text, ",\"one-more\"]}");
    gt_auto_err struct gt_err *more = NULL;
    assert_int_equal(read_text(reader, text.data, text.len, 65536, &args, &more), -EMSGSIZE);
    assert_non_null(strstr(gt_err_text(more), "NodeNames[65536]: more than 65536 nodes"));
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
    gt_auto_extender_reader struct gt_extender_reader *reader = gt_extender_reader_new(false);
    const struct gt_extender_args *args = NULL;
    assert_int_equal(read_text(reader, body, sizeof(body) - 1, 100, &args, NULL), 0);

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

/* nodeCacheCapable: false. The accepted nodes come back byte for byte; without keeping, by name. */
/* Every byte, at every place of eight bytes and of the rest. */
static void test_quotes(void **state)
{
    (void)state;
    for (unsigned byte = 1; byte < 256; byte++)
        for (unsigned at = 0; at < 19; at++) {
            gt_auto_buf struct gt_buf quoted = GT_BUF(256), expected = GT_BUF(256), small = GT_BUF(20);
            char text[] = "gpu-worker-000123.x";
            text[at] = (char)byte;
            gt_answer_quote(&quoted, text, sizeof(text) - 1);
            gt_text_quote(&expected, text);
            assert_string_equal(quoted.data, expected.data);
            gt_answer_quote(&small, text, sizeof(text) - 1);
            assert_true(small.failed);
        }
}

static void test_nodes(void **state)
{
    (void)state;
    enum { NODES = 20 };
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_body_extender(&text, NODES, false);
    struct gt_filter_verdict verdicts[NODES] = {{0}};
    for (unsigned i = 0; i < NODES; i++)
        verdicts[i].reason = i % 3 ? "no" : NULL;
    gt_auto_buf struct gt_buf first = GT_BUF(GT_WIRE_ANSWER_MAX);
    gt_auto_extender_reader struct gt_extender_reader *reader = gt_extender_reader_new(true);
    for (size_t step = 61; step < 100000; step = step * 3 + 1) {
        const struct gt_extender_args *args = NULL;
        gt_auto_err struct gt_err *err = NULL;
        if (read_text(reader, text.data, text.len, step, &args, &err) < 0)
            fail_msg("%s", gt_err_text(err));
        assert_int_equal(args->nodes.count, NODES);
        assert_int_equal(args->pod.gpus.total, 8);
        gt_auto_buf struct gt_buf to = GT_BUF(GT_WIRE_ANSWER_MAX);
        gt_filter_answer(&to, args, verdicts);
        cJSON *json = answer(&to);
        const cJSON *items = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "Nodes"), "items");
        assert_int_equal(cJSON_GetArraySize(items), 7);
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "FailedNodes")), 13);
        const cJSON *item = cJSON_GetArrayItem(items, 1);
        gt_auto_buf struct gt_buf node = GT_BUF(1 << 20);
        gt_body_node(&node, 3);
        cJSON *expected = cJSON_ParseWithLength(node.data, node.len);
        assert_true(cJSON_Compare(item, expected, true));
        assert_non_null(memmem(to.data, to.len, node.data, node.len));
        cJSON_Delete(expected);
        cJSON_Delete(json);
        if (first.len)
            assert_string_equal(to.data, first.data);
        else
            gt_buf_add(&first, to.data, to.len);
    }
    gt_auto_extender_reader struct gt_extender_reader *light = gt_extender_reader_new(false);
    const struct gt_extender_args *args = NULL;
    assert_int_equal(read_text(light, text.data, text.len, 4096, &args, NULL), 0);
    gt_auto_buf struct gt_buf to = GT_BUF(GT_WIRE_ANSWER_MAX);
    gt_filter_answer(&to, args, verdicts);
    assert_memory_equal(to.data, "{\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"gpu-node-00000\"}},{", 59);
    cJSON_Delete(answer(&to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pod),
        cmocka_unit_test(test_amounts),
        cmocka_unit_test(test_hostile_pods),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_pods_as_bytes_and_as_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
