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

#include "scheduler-ext/wire/volcano_args.h"
#include "tests/bench/wire_bodies.h"

static int read_text(struct gt_volcano_reader *reader, const char *text, size_t len, size_t step,
                     const struct gt_volcano_args **ret, struct gt_err **err)
{
    gt_volcano_reader_reset(reader);
    for (size_t at = 0; at < len; at += step) {
        int r = gt_volcano_reader_feed(reader, text + at, len - at < step ? len - at : step, err);
        if (r < 0)
            return r;
    }
    return gt_volcano_reader_finish(reader, ret, err);
}

static void check_task(const struct gt_volcano_args *args)
{
    assert_string_equal(args->task_namespace, "team-a");
    assert_string_equal(args->task_name, "train-worker-4000000");
    assert_string_equal(args->task_uid, "7d4c0b1e-1111-4222-8333-000004000000");
    assert_string_equal(args->task_job, "team-a/train");
    assert_int_equal(args->gpus, 8);
}

static void test_prioritize(void **state)
{
    (void)state;
    enum { NODES = 12 };
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_body_volcano(&text, NODES, 3, false);
    gt_auto_volcano_reader struct gt_volcano_reader *reader = gt_volcano_reader_new(GT_VOLCANO_PRIORITIZE);
    for (size_t step = 1; step < 2 * text.len; step = step * 5 + 2) {
        const struct gt_volcano_args *args = NULL;
        gt_auto_err struct gt_err *err = NULL;
        if (read_text(reader, text.data, text.len, step, &args, &err) < 0)
            fail_msg("step %zu: %s", step, gt_err_text(err));
        check_task(args);
        assert_int_equal(args->nodes.count, NODES);
        for (uint32_t i = 0; i < NODES; i++) {
            char name[32];
            snprintf(name, sizeof(name), "gpu-node-%05u", i);
            assert_string_equal(gt_wire_name(&args->nodes, i), name);
            assert_int_equal(args->node[i].idle_milli, 8000 - 1000 * (int64_t)(i % 9));
            assert_int_equal(args->node[i].used_milli, 1000 * (int64_t)(i % 9));
            assert_int_equal(args->node[i].releasing_milli, 0);
            assert_int_equal(args->node[i].pipelined_milli, 1000);
        }
    }
}

static void test_predicate(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    gt_body_volcano(&text, 1, 1, true);
    gt_auto_volcano_reader struct gt_volcano_reader *reader = gt_volcano_reader_new(GT_VOLCANO_PREDICATE);
    for (size_t cut = 0; cut < text.len; cut += 37) { /* cut in two, and cut short */
        const struct gt_volcano_args *args = NULL;
        gt_volcano_reader_reset(reader);
        assert_int_equal(gt_volcano_reader_feed(reader, text.data, cut, NULL), 0);
        assert_int_equal(gt_volcano_reader_feed(reader, text.data + cut, text.len - cut, NULL), 0);
        assert_int_equal(gt_volcano_reader_finish(reader, &args, NULL), 0);
        check_task(args);
        assert_int_equal(args->nodes.count, 1);
        assert_int_equal(args->node[0].idle_milli, 8000);

        gt_auto_err struct gt_err *err = NULL;
        args = NULL;
        assert_int_equal(read_text(reader, text.data, cut, 4096, &args, &err), -EBADMSG);
        assert_null(args);
    }
}

static void test_small(void **state)
{
    (void)state;
    gt_auto_volcano_reader struct gt_volcano_reader *reader = gt_volcano_reader_new(GT_VOLCANO_PRIORITIZE);
    static const struct {
        const char *text, *error; /* NULL: good */
        uint32_t gpus;
        int64_t idle;
    } cases[] = {
#define TASK(amount) "{\"task\":{\"Resreq\":{\"ScalarResources\":{\"metax-tech.com/gpu\":" amount "}}}}"
#define NODE(amount)                                                                                         \
    "{\"task\":{},\"nodes\":[{\"Idle\":{\"MilliCPU\":1,\"ScalarResources\":{\"metax-tech.com/gpu\":" amount  \
    "}},\"Name\":\"n\"}]}"
        {TASK("8000"), NULL, 8, 0},
        {TASK("8e3"), NULL, 8, 0},
        {TASK("8e+03"), NULL, 8, 0},
        {TASK("8000.0"), NULL, 8, 0},
        {TASK("0"), NULL, 0, 0},
        {"{\"task\":{\"Resreq\":null,\"Pod\":null},\"nodes\":null}", NULL, 0, 0},
        {"{\"task\":{},\"nodes\":[],\"Later\":[{}]}", NULL, 0, 0},
        {TASK("500"),
         "byte 62: task.Resreq.ScalarResources: metax-tech.com/gpu: 500 thousandths are not whole GPUs", 0,
         0},
        {TASK("-8000"), "is negative", 0, 0},
        {TASK("1e+30"), "is too large", 0, 0},
        {TASK("0.1"), "is not a whole number", 0, 0},
        {TASK("\"8\""), "expected a number, found a string", 0, 0},
        {TASK("8000,\"metax-tech.com/gpu\":1000"), "metax-tech.com/gpu comes twice", 0, 0},
        {NODE("4000"), NULL, 0, 4000},
        {NODE("-4000"), NULL, 0, -4000},
        {NODE("1e+40"), NULL, 0, GT_VOLCANO_UNKNOWN},
        {NODE("0.5"), NULL, 0, GT_VOLCANO_UNKNOWN},
        {"{\"task\":{},\"nodes\":[{\"Name\":\"n\",\"Idle\":null}]}", NULL, 0, GT_VOLCANO_UNKNOWN},
        {NODE("null"), NULL, 0, 0},
        {"{\"task\":{},\"nodes\":[{\"Name\":\"n\",\"Idle\":{\"MilliCPU\":5,\"ScalarResources\":null}}]}",
         NULL, 0, 0},
        {"{\"task\":{},\"nodes\":[{\"Name\":\"n\",\"Idle\":{}}]}", NULL, 0, 0},
        {"{\"task\":{},\"nodes\":[{\"Name\":\"n\"}]}", NULL, 0, GT_VOLCANO_UNKNOWN},
        {"{\"task\":null,\"nodes\":[]}", "task: missing", 0, 0},
        {"{}", "task: missing", 0, 0},
        {"{\"task\":{},\"nodes\":[{\"Name\":\"a\"},{}]}", "byte 34: nodes[1]: a node without a name", 0, 0},
        {"{\"task\":{},\"nodes\":[null]}", "nodes[0]: expected an object, found null", 0, 0},
        {"{\"task\":[]}", "task: expected an object, found an array", 0, 0},
        {"{\"task\":{\"Name\":7}}", "task.Name: expected a string, found a number", 0, 0},
        {"{\"task\":{},\"nodes\":[{\"Name\":\"a\",\"Tasks\":{\"x\":{\"Pod\":", "the text ends here", 0, 0},
        {"{\"task\":{},\"nodes\":[{\"Name\":\"a\",\"Tasks\":{\"x\":]}}]}", "expected a value, found ']'", 0,
         0},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        const struct gt_volcano_args *args = NULL;
        gt_auto_err struct gt_err *err = NULL;
        int r = read_text(reader, cases[i].text, strlen(cases[i].text), 11, &args, &err);
        if (cases[i].error ? r >= 0 || !strstr(gt_err_text(err), cases[i].error) : r < 0)
            fail_msg("%s: %d %s", cases[i].text, r, gt_err_text(err));
        if (cases[i].error)
            continue;
        assert_int_equal(args->gpus, cases[i].gpus);
        if (args->nodes.count)
            assert_true(args->node[0].idle_milli == cases[i].idle);
    }
    gt_auto_volcano_reader struct gt_volcano_reader *predicate = gt_volcano_reader_new(GT_VOLCANO_PREDICATE);
    const struct gt_volcano_args *args = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(read_text(predicate, "{\"task\":{}}", 11, 11, &args, &err), -EINVAL);
    assert_string_equal(gt_err_text(err), "node: missing");
}

static void test_answers(void **state)
{
    (void)state;
    gt_auto_volcano_reader struct gt_volcano_reader *reader = gt_volcano_reader_new(GT_VOLCANO_PRIORITIZE);
    static const char text[] = "{\"task\":{},\"nodes\":[{\"Name\":\"a\"},{\"Name\":\"b\"},{\"Name\":\"c\"}]}";
    const struct gt_volcano_args *args = NULL;
    assert_int_equal(read_text(reader, text, sizeof(text) - 1, 64, &args, NULL), 0);
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
        cmocka_unit_test(test_prioritize),
        cmocka_unit_test(test_predicate),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
