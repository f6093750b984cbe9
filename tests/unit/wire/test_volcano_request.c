/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "scheduler-ext/wire/request.h"
#include "tests/bench/wire_bodies.h"
#include "tests/unit/wire/feed.h"

static void check_task(const struct gt_wire_request *request)
{
    assert_string_equal(request->pod.meta.namespace_, "team-a");
    assert_string_equal(request->pod.meta.name, "train-worker-4000000");
    assert_string_equal(request->pod.uid, "7d4c0b1e-1111-4222-8333-000004000000");
    assert_int_equal(request->pod.gpus.total, 8);
}

static void test_prioritize(void **state)
{
    (void)state;
    enum { NODES = 12 };
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_body_volcano(&text, NODES, 3, false);
    gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(GT_WIRE_VOLCANO_PRIORITIZE);
    for (size_t step = 1; step < 2 * text.len; step = step * 5 + 2) {
        gt_auto_err struct gt_err *err = NULL;
        if (read_text(request, text.data, text.len, step, &err) < 0)
            fail_msg("step %zu: %s", step, gt_err_text(err));
        check_task(request);
        assert_int_equal(request->count, NODES);
        for (uint32_t i = 0; i < NODES; i++) {
            char name[32];
            snprintf(name, sizeof(name), "gpu-node-%05u", i);
            assert_string_equal(request->nodes[i], name);
            assert_int_equal(request->idle[i], 8 - (int)(i % 9));
        }
    }
}

static void test_predicate(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_body_volcano(&text, 1, 1, true);
    gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(GT_WIRE_VOLCANO_PREDICATE);
    for (size_t cut = 0; cut < text.len; cut += 37) { /* cut in two, and cut short */
        gt_wire_request_reset(request);
        assert_int_equal(gt_wire_request_feed(request, text.data, cut, NULL), 0);
        assert_int_equal(gt_wire_request_feed(request, text.data + cut, text.len - cut, NULL), 0);
        assert_int_equal(gt_wire_request_read(request, NULL), 0);
        check_task(request);
        assert_int_equal(request->count, 1);
        assert_int_equal(request->idle[0], 8);

        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(read_text(request, text.data, cut, 4096, &err), -EINVAL);
    }
}

/* What is not dropped of 50 MB: some names and numbers. */
static void test_memory(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_body_volcano(&text, 500, 12, false);
    gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(GT_WIRE_VOLCANO_PRIORITIZE);
    assert_true(text.len > 50 << 20);
    assert_int_equal(read_text(request, text.data, text.len, 65536, NULL), 0);
    assert_int_equal(request->count, 500);
    assert_true(gt_wire_request_bytes(request) < 256 << 10);
}

static void test_small(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error; /* NULL: good */
        int32_t idle;             /* of the first node */
    } cases[] = {
#define TASK         "\"task\":{\"Pod\":{\"metadata\":{\"name\":\"p\"}}}"
#define GPUS(amount) "{\"MilliCPU\":1,\"ScalarResources\":{\"pods\":9,\"metax-tech.com/gpu\":" amount "}}"
#define NODE(idle)   "{" TASK ",\"nodes\":[{\"Idle\":" idle ",\"Name\":\"n\"}]}"
        {"{" TASK ",\"nodes\":null}", NULL, 0},
        {"{" TASK ",\"nodes\":[],\"Later\":[{}]}", NULL, 0},
        {NODE(GPUS("4000")), NULL, 4},
        {NODE(GPUS("8e3")), NULL, 8},
        {NODE(GPUS("8e+03")), NULL, 8},
        {NODE(GPUS("7999.0")), NULL, 7},
        {NODE(GPUS("-4000")), NULL, -1},
        {NODE(GPUS("1e+40")), NULL, -1},
        {NODE(GPUS("0.5")), NULL, -1},
        {NODE(GPUS("\"8\"")), NULL, -1},
        {NODE(GPUS("null")), NULL, 0},
        {NODE("null"), NULL, -1},
        {NODE("{\"MilliCPU\":5,\"ScalarResources\":null}"), NULL, 0},
        {NODE("{}"), NULL, 0},
        {"{" TASK ",\"nodes\":[{\"Name\":\"n\"}]}", NULL, -1},
        {"{\"task\":null,\"nodes\":[]}", "task: Pod.metadata.name: missing", 0},
        {"{\"task\":{\"Pod\":null},\"nodes\":[]}", "task: Pod.metadata.name: missing", 0},
        {"{}", "task: Pod.metadata.name: missing", 0},
        {"{" TASK ",\"nodes\":[{\"Name\":\"a\"},{}]}", "nodes[1]: a node without a name", 0},
        {"{" TASK ",\"nodes\":[null]}", "nodes[0]: a node without a name", 0},
        {"{" TASK ",\"nodes\":{\"Name\":\"a\"}}", "nodes: expected an array, found an object", 0},
        {"{" TASK ",\"nodes\":[{\"Name\":\"a\",\"Tasks\":{\"x\":{\"Pod\":", "found the end of the text", 0},
    };
    gt_auto_wire_request struct gt_wire_request *request = gt_wire_request_new(GT_WIRE_VOLCANO_PRIORITIZE);
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_err struct gt_err *err = NULL;
        int r = read_text(request, cases[i].text, strlen(cases[i].text), 11, &err);
        if (cases[i].error ? r >= 0 || !strstr(gt_err_text(err), cases[i].error) : r < 0)
            fail_msg("%s: %d %s", cases[i].text, r, gt_err_text(err));
        if (r >= 0 && request->count && request->idle[0] != cases[i].idle)
            fail_msg("%s: %d", cases[i].text, request->idle[0]);
    }
    gt_auto_wire_request struct gt_wire_request *predicate = gt_wire_request_new(GT_WIRE_VOLCANO_PREDICATE);
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(read_text(predicate, "{" TASK "}", sizeof("{" TASK "}") - 1, 11, &err), -EINVAL);
    assert_string_equal(gt_err_text(err), "node: missing");
}

static void test_answers(void **state)
{
    (void)state;
    gt_auto_wire_request struct gt_wire_request *args = gt_wire_request_new(GT_WIRE_VOLCANO_PRIORITIZE);
    static const char text[] = "{" TASK ",\"nodes\":[{\"Name\":\"a\"},{\"Name\":\"b\"},{\"Name\":\"c\"}]}";
    assert_int_equal(read_text(args, text, sizeof(text) - 1, 64, NULL), 0);
    gt_auto_buf struct gt_buf to = GT_BUF(4096);
    gt_node_score_answer(&to, args, (const double[]){100, -0.25, (double)NAN});
    assert_string_equal(to.data, "{\"nodeScore\":{\"a\":100,\"b\":-0.25,\"c\":0},\"errorMessage\":\"\"}");
    to.len = 0;
    gt_node_score_answer(&to, args, (const double[]){1e300, 1.0 / 3, 123456});
    cJSON *json = cJSON_Parse(to.data);
    const cJSON *scores = cJSON_GetObjectItem(json, "nodeScore");
    assert_true(cJSON_GetObjectItem(scores, "a")->valuedouble == 1e300);
    double third = cJSON_GetObjectItem(scores, "b")->valuedouble - 1.0 / 3;
    assert_true(third < 1e-14 && third > -1e-14);
    cJSON_Delete(json);
    to.len = 0;
    gt_predicate_answer(&to, NULL, GT_VOLCANO_ERROR);
    assert_string_equal(to.data, "{\"status\":\"\",\"code\":0}");
    to.len = 0;
    gt_predicate_answer(&to, "no room", GT_VOLCANO_UNSCHEDULABLE);
    assert_string_equal(to.data, "{\"status\":\"no room\",\"code\":2}");
    to.len = 0;
    gt_predicate_answer(&to, "", GT_VOLCANO_UNRESOLVABLE);
    assert_string_equal(to.data, "{\"status\":\"refused\",\"code\":3}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prioritize), cmocka_unit_test(test_predicate), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_small),      cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
