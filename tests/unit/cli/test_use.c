/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/json_write.h"
#include "cli/use.h"

/* The users of a node's GPUs, and names that are similar to one. */

static cJSON *json_of(const char *text)
{
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    return json;
}

static struct gt_node *node_with_uuids(void)
{
    struct gt_node *node;
    assert_int_equal(gt_node_new(4, 0, &node, NULL), 0);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(node->gpus[i].uuid, sizeof(node->gpus[i].uuid), "GPU-%u", i);
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:%02x:00.0", i + 1);
    }
    assert_int_equal(gt_node_finish(node, NULL), 0);
    return node;
}

static void test_status(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = node_with_uuids();
    const struct gt_node_gpu_topology reported = {
        .node = node,
        .use_known = true,
        .free = 0xc, /* and one of them has an owner */
        .owned = 7,
        .owners = {{2, "a", "p", "x"}, {0, "a", "p", "y"}, {1, "a", "p", "x"}},
        .owner_count = 3,
    };
    gt_auto_buf struct gt_buf text = GT_BUF(1000);
    cli_use_text(&reported, &text);
    assert_string_equal(text.data, "Free GPUs: 3\n  GPUs 1,2: a/p, container x\n  GPU 0: a/p, container y\n");
    gt_auto_buf struct gt_buf object = GT_BUF(1000);
    gt_json_begin(&object, NULL, '{');
    cli_use_add_json(&reported, &object);
    gt_json_end(&object, '}');
    cJSON *written = json_of(object.data);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(written, "free")), 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(written, "owners")), 3);
    cJSON_Delete(written);

    const struct gt_node_gpu_topology silent = {.node = node};
    gt_buf_done(&text);
    cli_use_text(&silent, &text);
    assert_string_equal(text.data, "Free GPUs: not known\n");
}

/* What cannot be read of the use leaves the rest. */
static void test_bad_use(void **state)
{
    (void)state;
    gt_auto_node_gpu_topology struct gt_node_gpu_topology got = {0};
    gt_auto_err struct gt_err *problem = NULL, *err = NULL;
    cJSON *json = json_of("{\"metadata\": {\"name\": \"n\"}, \"status\": {"
                          "\"gpus\": [{\"bdf\": \"0000:01:00.0\"}], \"free\": [0], \"owners\": [{}]}}");
    assert_int_equal(cli_use_read_topology(json, &got, &problem, &err), 0);
    assert_string_equal(gt_err_text(problem), "nodegputopologies/n: owners[0].gpu: is missing");
    assert_null(err);
    assert_int_equal(got.node->gpu_count, 1);
    assert_false(got.use_known);
    assert_int_equal(got.free | got.owned, 0);
    cJSON_Delete(json);
}

static void test_another_machine(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = node_with_uuids();
    cJSON *json = json_of("{\"known\": true, \"free\": [0], \"used\": [{\"gpu\": 1, \"uuid\": \"GPU-1\", "
                          "\"namespace\": \"a\", \"pod\": \"p\", \"container\": \"x\"}]}");
    struct gt_node_gpu_topology use = {.node = node}, other = use;
    assert_int_equal(cli_use_from_agent(json, "s", &use, NULL), 0);
    assert_true(use.use_known);
    assert_int_equal(use.owned, 2);

    cJSON *uuid = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "used")->child, "uuid");
    assert_non_null(cJSON_SetValuestring(uuid, "GPU-9"));
    gt_auto_err struct gt_err *err = NULL;
    assert_true(cli_use_from_agent(json, "s", &other, &err) < 0);
    assert_non_null(strstr(gt_err_text(err), "another machine"));
    assert_false(other.use_known);
    assert_int_equal(other.owned, 0);
    cJSON_Delete(json);
}

static const char *near_text(const char *wanted, const char *const *names, struct gt_buf *to)
{
    struct cli_near near;
    cli_near_init(&near, wanted);
    for (; *names; names++)
        cli_near_add(&near, *names);
    cli_near_text(&near, to);
    return to->data;
}

static void test_near(void **state)
{
    (void)state;
    const char *const names[] = {"gpu-a-10", "gpu-a-1", "gpu-b-1", "database", "gpu-a-12", NULL};
    gt_auto_buf struct gt_buf a = GT_BUF(500), b = GT_BUF(500), c = GT_BUF(500), d = GT_BUF(500);
    assert_string_equal(near_text("gpu-a-11", names, &a),
                        "of the 5 there are, near are gpu-a-10, gpu-a-1 and gpu-a-12");
    assert_string_equal(near_text("zzz", names, &b), "there are 5, for example gpu-a-1");
    assert_string_equal(near_text("database.example.com", names, &c), "of the 5 there are, near is database");
    assert_string_equal(near_text("x", names + 5, &d), "there is none at all: does the agent run?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_bad_use),
        cmocka_unit_test(test_another_machine),
        cmocka_unit_test(test_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
