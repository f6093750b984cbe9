/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "samples.h"
#include "topology/model/node_json.h"
#include "topology/model/render.h"

static char *print(const cJSON *json)
{
    struct gt_buf text = GT_BUF(GT_JSON_MAX);
    gt_json_print(json, &text);
    assert_false(text.failed);
    return gt_buf_take(&text);
}

static struct gt_node *read_text(const char *text)
{
    cJSON *json = NULL;
    struct gt_node *node = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_json_parse(text, strlen(text), "T", &json, &err), 0);
    if (gt_node_from_json(json, "T", &node, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    cJSON_Delete(json);
    return node;
}

static void parse_errors(void **state)
{
    (void)state;
    const struct {
        const char *text, *error;
    } cases[] = {
        {"", "T: line 1, column 1: expected a value, found the end of the text"},
        {"{", "T: line 1, column 2: expected a key in quotes, found the end of the text"},
        {"{\n  \"a\": 1,\n  b: 2}", "T: line 3, column 3: expected a key in quotes, found 'b'"},
        {"[1,]", "T: line 1, column 4: expected a value, found ']'"},
        {"[1 2]", "T: line 1, column 4: expected ',' or ']', found '2'"},
        {"{\"a\" 1}", "T: line 1, column 6: expected ':', found '1'"},
        {"{\"a\":1", "T: line 1, column 7: expected ',' or '}', found the end of the text"},
        {"[] x", "T: line 1, column 4: expected the end of the text, found 'x'"},
        {"nul", "T: line 1, column 1: expected a value, found 'n'"},
        {"NaN", "T: line 1, column 1: expected a value, found 'N'"},
        {"Infinity", "T: line 1, column 1: expected a value, found 'I'"},
        {"-", "T: line 1, column 2: expected a digit, found the end of the text"},
        {"01", "T: line 1, column 2: expected the end of the text, found '1'"},
        {"1.", "T: line 1, column 3: expected a digit, found the end of the text"},
        {"1e+", "T: line 1, column 4: expected a digit, found the end of the text"},
        {"[1e999]", "T: line 1, column 2: number 1e999 is too large"},
        {"11111111111111111111111111111111111111111",
         "T: line 1, column 1: a number of 41 characters, the limit is 40"},
        {"\"abc", "T: line 1, column 1: a string that begins here does not end"},
        {"\"a\nb\"", "T: line 1, column 3: control character 0x0a in a string"},
        {"\"\\x\"", "T: line 1, column 2: bad escape in a string"},
        {"\"\\", "T: line 1, column 2: bad escape in a string"},
        {"\"\\u12\"", "T: line 1, column 2: bad escape in a string"},
        {"\"\\u0000\"", "T: line 1, column 2: a string holds the character U+0000"},
        {"\"\\ud800\"", "T: line 1, column 2: half a surrogate pair in a string"},
        {"\"\\udc00\"", "T: line 1, column 2: half a surrogate pair in a string"},
        {"\"\xc3\xa9\xff\"", "T: line 1, column 3: byte 0xff in a string is no UTF-8"},
        {"\"\xe2\x80", "T: line 1, column 2: byte 0xe2 in a string is no UTF-8"},
        {"\x01", "T: line 1, column 1: expected a value, found byte 0x01"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        cJSON *json = NULL;
        gt_auto_err struct gt_err *err = NULL;
        /* A copy of exactly its size, so that a read beyond the end is seen. */
        size_t len = strlen(cases[i].text);
        gt_auto_free char *copy = malloc(len ? len : 1);
        memcpy(copy, cases[i].text, len);
        assert_int_equal(gt_json_parse(copy, len, "T", &json, &err), -EINVAL);
        assert_string_equal(gt_err_text(err), cases[i].error);
        assert_null(json);
    }
}

static void parse_limits(void **state)
{
    (void)state;
    enum { DEPTH = 100000, VALUES = 1100000 };
    gt_auto_free char *text = malloc(2 * VALUES);
    cJSON *json = NULL;
    gt_auto_err struct gt_err *deep = NULL, *many = NULL, *large = NULL, *nul = NULL;
    memset(text, '[', DEPTH);
    assert_int_equal(gt_json_parse(text, DEPTH, "T", &json, &deep), -EINVAL);
    assert_string_equal(gt_err_text(deep), "T: line 1, column 65: nested deeper than 64 levels");
    for (unsigned i = 0; i < VALUES; i++)
        memcpy(text + 2 * i, i ? ",1" : "[1", 2);
    assert_int_equal(gt_json_parse(text, 2 * VALUES, "T", &json, &many), -EINVAL);
    assert_non_null(strstr(gt_err_text(many), "more than 1000000 values"));
    assert_int_equal(gt_json_parse(text, GT_JSON_MAX + 1, "T", &json, &large), -EFBIG);
    assert_int_equal(gt_json_parse("[]\0[]", 5, "T", &json, &nul), -EINVAL);
    assert_string_equal(gt_err_text(nul),
                        "T: line 1, column 3: expected the end of the text, found byte 0x00");
    assert_int_equal(gt_json_parse("\xef\xbb\xbf{}", 5, "T", &json, NULL), 0);
    cJSON_Delete(json);
    /* No memory is lost to an error nobody wants. */
    assert_int_equal(gt_json_parse("{]", 2, "T", &json, NULL), -EINVAL);
}

static void printing(void **state)
{
    (void)state;
    const struct {
        const char *in, *out;
    } cases[] = {
        {"{}", "{}\n"},
        {"[]", "[]\n"},
        {"3", "3\n"},
        {"[1.0, -0.0, 1e3, 2.5, 68719476736, 9007199254740992, 0.1, 1e-7, 12345678901234567]",
         "[\n  1, 0, 1000, 2.5, 68719476736, 9007199254740992, 0.1, 1e-07, 12345678901234568\n]\n"},
        {"{\"a\":{\"b\":[1,2],\"c\":null},\"d\":[{\"e\":true},{\"e\":false}],\"f\":[],\"g\":{}}",
         "{\n  \"a\": { \"b\": [1, 2], \"c\": null },\n  \"d\": [\n    { \"e\": true },\n    { \"e\": false "
         "}\n  ],\n"
         "  \"f\": [],\n  \"g\": {}\n}\n"},
        {"\"a\\u001f\\\"\\\\\\/\\n\\u00e9\\ud83d\\ude00\"",
         "\"a\\u001f\\\"\\\\/\\n\xc3\xa9\xf0\x9f\x98\x80\"\n"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        cJSON *json = NULL;
        assert_int_equal(gt_json_parse(cases[i].in, strlen(cases[i].in), "T", &json, NULL), 0);
        gt_auto_free char *text = print(json);
        assert_string_equal(text, cases[i].out);
        cJSON_Delete(json);
    }
    /* A line stays within its width, and what was printed reads back as the same. */
    gt_auto_buf struct gt_buf long_list = GT_BUF(100000);
    gt_buf_puts(&long_list, "{\"list\":[0");
    for (unsigned i = 1; i < 500; i++)
        gt_buf_printf(&long_list, ",%u", i * 37);
    gt_buf_puts(&long_list, "]}");
    cJSON *json = NULL, *again = NULL;
    assert_int_equal(gt_json_parse(long_list.data, long_list.len, "T", &json, NULL), 0);
    gt_auto_free char *text = print(json);
    unsigned lines = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1, lines++)
        assert_true(strcspn(line, "\n") <= 161);
    assert_in_range(lines, 5, 50);
    assert_int_equal(gt_json_parse(text, strlen(text), "T", &again, NULL), 0);
    assert_true(cJSON_Compare(json, again, true));
    cJSON_Delete(json);
    cJSON_Delete(again);
}

static void round_trip(void **state)
{
    (void)state;
    for (unsigned i = 0; sample_names[i]; i++) {
        gt_auto_node struct gt_node *node = sample_node(sample_names[i]);
        assert_non_null(node);
        struct gt_buf first = GT_BUF(GT_JSON_MAX), second = GT_BUF(GT_JSON_MAX);
        gt_render_json(node, &first);
        gt_auto_node struct gt_node *again = read_text(first.data);
        gt_render_json(again, &second);
        assert_string_equal(first.data, second.data);
        /* What the JSON has no place for would show here. */
        assert_int_equal(again->gpu_count, node->gpu_count);
        for (unsigned g = 0; g < node->gpu_count; g++) {
            node->gpus[g].cause = again->gpus[g].cause; /* what a look saw is not for others */
            node->gpus[g].evidence = again->gpus[g].evidence;
            assert_memory_equal(&again->gpus[g], &node->gpus[g], sizeof(node->gpus[g]));
        }
        for (unsigned l = 0; l < node->link_count; l++) {
            assert_int_equal(again->links[l].kind, node->links[l].kind);
            assert_int_equal(again->links[l].path_kind, node->links[l].path_kind);
            assert_int_equal(again->links[l].weight, node->links[l].weight);
            assert_int_equal(again->links[l].state, node->links[l].state);
        }
        gt_buf_done(&first);
        gt_buf_done(&second);
    }
}

static void renumbered(void **state)
{
    (void)state;
    /* In the file: 0 is 0c, 1 is 0a, 2 is 0b; in the node: 0a, 0b, 0c. */
    gt_auto_node struct gt_node *node =
        read_text("{\"gpus\":[{\"index\":2,\"bdf\":\"0b:00.0\",\"uuid\":\"two\"},{\"index\":0,\"bdf\":\"0000:"
                  "0C:00.0\",\"uuid\":"
                  "\"zero\"},{\"index\":1,\"bdf\":\"0a:00.0\",\"uuid\":\"one\",\"healthy\":false}],"
                  "\"nics\":[{\"name\":\"b10\",\"locality\":[\"PIX\",\"SYS\",\"NODE\"]},{\"name\":\"b9\"}],"
                  "\"links\":[{\"a\":0,\"b\":1,\"kind\":\"MX\",\"bandwidthMBps\":50000,\"weight\":7},"
                  "{\"a\":1,\"b\":2,\"kind\":\"PXB\"}],\"unknown\":{\"x\":[1]}}");
    assert_string_equal(node->gpus[0].uuid, "one");
    assert_string_equal(node->gpus[1].uuid, "two");
    assert_string_equal(node->gpus[2].uuid, "zero");
    assert_int_equal(node->gpus[0].health, GT_GPU_UNHEALTHY);
    assert_int_equal(node->gpus[1].health, GT_GPU_HEALTH_UNKNOWN);
    struct gt_link *link = gt_node_link(node, 0, 2);
    assert_int_equal(link->kind, GT_LINK_MX);
    assert_int_equal(link->weight, 50);
    assert_int_equal(gt_node_link(node, 0, 1)->kind, GT_LINK_PXB);
    assert_int_equal(gt_node_link(node, 1, 2)->kind, GT_LINK_UNKNOWN);
    assert_string_equal(node->nics[1].name, "b10");
    assert_int_equal(node->nics[1].kind[2], GT_LINK_PIX);
    assert_int_equal(node->nics[1].kind[0], GT_LINK_SYS);
    assert_int_equal(node->nics[1].kind[1], GT_LINK_NODE);
    assert_int_equal(node->gpus[0].zone, 1);
    assert_int_equal(node->gpus[1].zone, 0);
}

/* `health` says it; a file of before it has `healthy` alone. */
static void read_health(void **state)
{
    static const struct {
        const char *keys;
        enum gt_gpu_health health;
    } cases[] = {
        {"", GT_GPU_HEALTH_UNKNOWN},
        {",\"healthy\":null,\"health\":null", GT_GPU_HEALTH_UNKNOWN},
        {",\"healthy\":true", GT_GPU_HEALTHY},
        {",\"healthy\":false", GT_GPU_UNHEALTHY},
        {",\"health\":\"healthy\"", GT_GPU_HEALTHY},
        {",\"health\":\"unhealthy\",\"healthy\":false", GT_GPU_UNHEALTHY},
        {",\"health\":\"unknown\",\"healthy\":true", GT_GPU_HEALTH_UNKNOWN},
        {",\"health\":\"healthy\",\"healthy\":false", GT_GPU_UNHEALTHY}, /* edited as it was done before */
        {",\"health\":\"unhealthy\",\"healthy\":true", GT_GPU_UNHEALTHY},
    };
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        char text[128], written[64];
        snprintf(text, sizeof(text), "{\"gpus\":[{\"bdf\":\"0a:00.0\"%s}]}", cases[i].keys);
        gt_auto_node struct gt_node *node = read_text(text);
        assert_int_equal(node->gpus[0].health, cases[i].health);
        assert_int_equal(gt_node_usable(node), cases[i].health != GT_GPU_UNHEALTHY);
        gt_auto_buf struct gt_buf again = GT_BUF(1 << 20);
        gt_render_json(node, &again);
        snprintf(written, sizeof(written), "\"health\": \"%s\",", gt_gpu_health_name(cases[i].health));
        assert_non_null(strstr(again.data, written));
        snprintf(written, sizeof(written), "\"healthy\": %s,",
                 gt_gpu_usable(&node->gpus[0]) ? "true" : "false");
        assert_non_null(strstr(again.data, written));
    }
}

#define G2       "{\"gpus\":[{\"bdf\":\"0a:00.0\"},{\"bdf\":\"0b:00.0\"}]"
#define GPU(x)   "{\"gpus\":[{\"bdf\":\"0a:00.0\"},{\"bdf\":\"0b:00.0\"," x "}]}"
#define LINKS(x) G2 ",\"links\":[" x "]}"

static void read_errors(void **state)
{
    (void)state;
    const struct {
        const char *text, *error;
    } cases[] = {
        {"[]", "T: expected an object, is an array"},
        {"{}", "T: gpus: is missing; this is no node"},
        {"{\"gpus\":{}}", "T: gpus: expected an array, is an object"},
        {"{\"gpus\":[1]}", "T: gpus[0]: expected an object, is a number"},
        {"{\"gpus\":[{}]}", "T: gpus[0].bdf: is missing"},
        {"{\"gpus\":[{\"bdf\":7}]}", "T: gpus[0].bdf: expected a string, is a number"},
        {"{\"gpus\":[{\"bdf\":\"x\"}]}", "T: gpus[0].bdf: \"x\" is no PCI address such as 0000:0e:00.0"},
        {GPU("\"index\":2"), "T: gpus[1].index: expected 0 to 1, is 2"},
        {GPU("\"index\":0"), "T: gpus[1].index: 0 is that of gpus[0] too"},
        {GPU("\"index\":0.5"), "T: gpus[1].index: expected a whole number, is 0.5"},
        {GPU("\"index\":-1"), "T: gpus[1].index: expected 0 to 1, is -1"},
        {GPU("\"index\":1e300"), "T: gpus[1].index: expected 0 to 1, is 1e+300"},
        {GPU("\"index\":\"1\""), "T: gpus[1].index: expected a number, is a string"},
        {GPU("\"uuid\":[]"), "T: gpus[1].uuid: expected a string, is an array"},
        {GPU("\"uuid\":\"a\\nb\""), "T: gpus[1].uuid: holds a control character or bytes that are no UTF-8"},
        {GPU("\"product\":\"\\u009b31m\""),
         "T: gpus[1].product: holds a control character or bytes that are no UTF-8"},
        {GPU("\"serial\":\"0123456789012345678901234567890123456789012345678901234567890123\""),
         "T: gpus[1].serial: 64 bytes long, the limit is 63"},
        {GPU("\"memoryBytes\":1e16"), "T: gpus[1].memoryBytes: expected 0 to 9007199254740992, is 1e+16"},
        {GPU("\"numaNode\":1024"), "T: gpus[1].numaNode: expected 0 to 1023, is 1024"},
        {GPU("\"cpuSet\":\"0-3;5\""), "T: gpus[1].cpuSet: \"0-3;5\" is no list such as 0-31,64-95"},
        {GPU("\"pciVendor\":\"0x99\""),
         "T: gpus[1].pciVendor: \"0x99\" is no PCI id of up to four hexadecimal digits"},
        {GPU("\"pcie\":1"), "T: gpus[1].pcie: expected an object, is a number"},
        {GPU("\"pcie\":{\"speedGTs\":true}"), "T: gpus[1].pcie.speedGTs: expected a number, is a boolean"},
        {GPU("\"pcie\":{\"path\":[\"0a:00.0\",null]}"),
         "T: gpus[1].pcie.path[1]: expected a string, is null"},
        {GPU("\"pcie\":{\"path\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}"),
         "T: gpus[1].pcie.path: 17 members, the limit is 16"},
        {GPU("\"drm\":{\"card\":-2}"), "T: gpus[1].drm.card: expected 0 to 65535, is -2"},
        {"{\"gpus\":[],\"linksReportedAt\":\"yesterday\"}",
         "T: linksReportedAt: \"yesterday\" is no time such as 2026-01-31T12:00:00Z"},
        {"{\"gpus\":[],\"linksReportedAt\":7}", "T: linksReportedAt: expected a string, is a number"},
        {GPU("\"mode\":\"half\""), "T: gpus[1].mode: \"half\" is none of native, sgpu, vf, vfio"},
        {GPU("\"health\":\"ok\""), "T: gpus[1].health: \"ok\" is none of healthy, unhealthy, unknown"},
        {GPU("\"health\":true"), "T: gpus[1].health: expected a string, is a boolean"},
        {GPU("\"healthy\":1"), "T: gpus[1].healthy: expected true or false, is a number"},
        {"{\"gpus\":[{\"bdf\":\"0a:00.0\"},{\"bdf\":\"0000:0A:00.0\"}]}",
         "T: gpus[1].bdf: 0000:0a:00.0 is that of gpus[0] too"},
        {"{\"gpus\":[{\"bdf\":\"0a:00.0\",\"uuid\":\"u\"},{\"bdf\":\"0b:00.0\",\"uuid\":\"u\"}]}",
         "T: gpus[1].uuid: u is that of gpus[0] too"},
        {LINKS("3"), "T: links[0]: expected an object, is a number"},
        {LINKS("{\"a\":0}"), "T: links[0].b: is missing"},
        {LINKS("{\"b\":1}"), "T: links[0].a: is missing"},
        {LINKS("{\"a\":1,\"b\":1}"), "T: links[0]: expected a < b, but a is 1 and b is 1"},
        {LINKS("{\"a\":1,\"b\":0}"), "T: links[0]: expected a < b, but a is 1 and b is 0"},
        {LINKS("{\"a\":0,\"b\":9}"), "T: links[0].b: expected 0 to 1, is 9"},
        {LINKS("{\"a\":0,\"b\":1},{\"a\":0,\"b\":1}"), "T: links[1]: the pair 0, 1 is there twice"},
        {LINKS("{\"a\":0,\"b\":1,\"kind\":\"X\"}"),
         "T: links[0].kind: \"X\" is none of MX, PIX, PXB, PHB, NODE, SYS, NA"},
        {LINKS("{\"a\":0,\"b\":1,\"kind\":\"PIX\",\"pathKind\":\"SYS\"}"),
         "T: links[0].pathKind: is SYS, but kind is PIX"},
        {LINKS("{\"a\":0,\"b\":1,\"pathKind\":\"MX\"}"),
         "T: links[0].pathKind: MX is no kind of a PCIe path"},
        {LINKS("{\"a\":0,\"b\":1,\"state\":\"sleepy\"}"),
         "T: links[0].state: \"sleepy\" is none of up, down, unknown"},
        {LINKS("{\"a\":0,\"b\":1,\"speedGTs\":100001}"),
         "T: links[0].speedGTs: expected 0 to 100000, is 100001"},
        {LINKS("{\"a\":0,\"b\":1,\"ports\":4e9}"), "T: links[0].ports: expected 0 to 1024, is 4e+09"},
        {"{\"gpus\":[],\"links\":[{}]}", "T: links[0]: a link on a node with 0 GPUs"},
        {G2 ",\"nics\":[{}]}", "T: nics[0].name: is missing"},
        {G2 ",\"nics\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", "T: nics[1].name: a is that of nics[0] too"},
        {G2 ",\"nics\":[{\"name\":\"a\",\"locality\":[\"PIX\"]}]}",
         "T: nics[0].locality: 1 members for 2 GPUs"},
        {G2 ",\"nics\":[{\"name\":\"a\",\"locality\":[\"PIX\",\"MX\"]}]}",
         "T: nics[0].locality[1]: a NIC has no MX link"},
        {G2 ",\"supernode\":[]}", "T: supernode: expected an object, is an array"},
        {G2 ",\"supernode\":{\"remote\":[1]}}", "T: supernode.remote[0]: expected a string, is a number"},
        {G2 ",\"missing\":[{\"what\":3}]}", "T: missing[0].what: expected a string, is a number"},
        {G2 ",\"missing\":{}}", "T: missing: expected an array, is an object"},
        {G2 ",\"kubelet\":{\"cpuManagerPloicy\":\"static\"}}",
         "T: kubelet: there is no key \"cpuManagerPloicy\", did you mean \"cpuManagerPolicy\"?"},
        {G2 ",\"name\":\"\\u007f\"}", "T: name: holds a control character or bytes that are no UTF-8"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        cJSON *json = NULL;
        struct gt_node *node = NULL;
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(gt_json_parse(cases[i].text, strlen(cases[i].text), "T", &json, &err), 0);
        assert_int_equal(gt_node_from_json(json, "T", &node, &err), -EINVAL);
        assert_string_equal(gt_err_text(err), cases[i].error);
        assert_null(node);
        assert_int_equal(gt_node_from_json(json, "T", &node, NULL), -EINVAL);
        cJSON_Delete(json);
    }
}

static void too_many(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_buf_puts(&text, "{\"gpus\":[");
    for (unsigned i = 0; i < 65; i++)
        gt_buf_printf(&text, "%s{\"bdf\":\"%02x:00.0\"}", i ? "," : "", i);
    gt_buf_puts(&text, "]}");
    cJSON *json = NULL;
    struct gt_node *node = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_json_parse(text.data, text.len, "T", &json, &err), 0);
    assert_int_equal(gt_node_from_json(json, "T", &node, &err), -EINVAL);
    assert_string_equal(gt_err_text(err), "T: gpus: 65 members, the limit is 64");
    cJSON_Delete(json);
}

/* Every cut of a good document is refused or read, without a crash or a leak. */
static void cut_off(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = sample_node("dead-link");
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    gt_render_json(node, &text);
    for (size_t len = 0; len + 1 < text.len; len += 3) {
        cJSON *json = NULL;
        gt_auto_err struct gt_err *err = NULL;
        gt_auto_free char *copy = malloc(len ? len : 1);
        memcpy(copy, text.data, len);
        if (len + 2 < text.len) /* all but the last brace and newline */
            assert_int_equal(gt_json_parse(copy, len, "T", &json, &err), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_errors), cmocka_unit_test(parse_limits), cmocka_unit_test(printing),
        cmocka_unit_test(round_trip),   cmocka_unit_test(renumbered),   cmocka_unit_test(read_errors),
        cmocka_unit_test(read_health),  cmocka_unit_test(too_many),     cmocka_unit_test(cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
