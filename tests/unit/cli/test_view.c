/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "cli/view.h"
#include "scheduler-ext/file/cluster_file.h"

/* The view of a cluster without a cluster. */

static void add_node(struct cli_view *view, const char *name, const char *more)
{
    gt_auto_buf struct gt_buf text = GT_BUF(10000);
    gt_buf_printf(&text,
                  "{\"metadata\": {\"name\": \"%s\"}, \"status\": {\"gpus\": [{\"bdf\": \"0000:01:00.0\"}, "
                  "{\"bdf\": \"0000:02:00.0\"}, {\"bdf\": \"0000:03:00.0\"}]%s}}",
                  name, more);
    cJSON *json = cJSON_Parse(text.data);
    assert_non_null(json);
    cli_view_add_node(view, json);
    cJSON_Delete(json);
}

static void add_supernode(struct cli_view *view, const char *name, const char *status)
{
    gt_auto_buf struct gt_buf text = GT_BUF(10000);
    gt_buf_printf(&text, "{\"metadata\": {\"name\": \"%s\"}, \"status\": {%s}}", name, status);
    cJSON *json = cJSON_Parse(text.data);
    assert_non_null(json);
    cli_view_add_supernode(view, json);
    cJSON_Delete(json);
}

static void test_jobs(void **state)
{
    (void)state;
    const struct {
        const char *pod, *job;
    } cases[] = {
        {"train-worker-0", "train"},
        {"train-master-0", "train"},
        {"worker-3", "worker"}, /* nothing would be left */
        {"db-12", "db"},
        {"chat-7d9f8b6c5d-x2x4z", "chat"},
        {"chat-7d9f8b6c5d-x2x4a", "chat-7d9f8b6c5d-x2x4a"}, /* no generated name has an a */
        {"sweep-3-k8zqx", "sweep"},                         /* an indexed Job */
        {"job-k8zqx", "job"},
        {"tune-model-small", "tune-model-small"},
        {"lonely", "lonely"},
        {"-0", "-0"},
        {"a--0", "a-"},
        {"", ""},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        char job[64];
        cli_job_of_pod(cases[i].pod, job, sizeof(job));
        assert_string_equal(job, cases[i].job);
    }
    char small[4];
    cli_job_of_pod("abcdefgh-0", small, sizeof(small));
    assert_string_equal(small, "abc");
}

/* A list that begins again, as after a 410, leaves nothing behind. */
static void test_again(void **state)
{
    (void)state;
    cli_auto_view struct cli_view view;
    cli_view_init(&view, 0, true);
    for (unsigned round = 0; round < 2; round++) {
        cli_view_clear_supernodes(&view);
        add_supernode(&view, "s", "\"tier\": 1, \"members\": [{\"node\": \"n10\"}, {\"node\": \"n2\"}]");
        add_supernode(&view, "bad", "\"tier\": 99");
    }
    for (unsigned round = 0; round < 2; round++) {
        cli_view_clear_nodes(&view);
        add_node(&view, "n10",
                 ", \"free\": [0], \"owners\": [{\"gpu\": 2, \"namespace\": \"a\", \"pod\": \"p\"}]");
        add_node(&view, "n2", ", \"free\": 7");
        add_node(&view, "loose", "");
    }
    assert_int_equal(cli_view_finish(&view, NULL), 0);
    assert_int_equal(view.problem_count, 2);
    assert_int_equal(view.picture.node_count, 3);
    assert_int_equal(view.picture.pod_count, 1);
    assert_string_equal(view.picture.nodes[0].name, "n2"); /* numbers count as numbers */
    assert_string_equal(view.picture.nodes[1].name, "n10");
    assert_string_equal(view.picture.nodes[2].name, "loose");
    assert_int_equal(view.nodes[view.picture.nodes[2].source].supernode, GT_NONE);
    assert_int_equal(view.picture.nodes[view.picture.pods[0].place.node].used, 4);
    assert_int_equal(view.picture.counts.gpus, 9);
    assert_int_equal(view.picture.counts.free, 1);
    assert_int_equal(view.picture.supernodes[0].counts.gpus, 6);

    gt_auto_buf struct gt_buf text = GT_BUF(100000);
    cli_view_json(&view, &text);
    gt_auto_cluster_file struct gt_cluster_file *file = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_cluster_file_parse(text.data, text.len, "file", &file, &err), 0);
    struct gt_cluster_node node;
    assert_true(gt_cluster_get_node(file->cluster, gt_cluster_find_node(file->cluster, "n10"), &node));
    assert_int_equal(node.free, 1);
    assert_int_equal(file->pod_count, 1);
    assert_true(file->running[0].movable);
}

/* The deepest tree there can be, in its order. */
static void test_tree(void **state)
{
    (void)state;
    cli_auto_view struct cli_view view;
    cli_view_init(&view, 0, false);
    for (unsigned tier = 1; tier <= 8; tier++)
        for (unsigned i = 0; i < 2; i++) {
            char name[16], status[64];
            snprintf(name, sizeof(name), "t%u-%u", tier, i);
            if (tier < 8)
                snprintf(status, sizeof(status), "\"tier\": %u, \"parent\": \"t%u-%u\"", tier, tier + 1, i);
            else
                snprintf(status, sizeof(status), "\"tier\": 8");
            add_supernode(&view, name, status);
        }
    assert_int_equal(cli_view_finish(&view, NULL), 0);
    assert_int_equal(view.problem_count, 0);
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(view.picture.supernodes[i].depth, i % 8);
        assert_int_equal(view.picture.supernodes[i].tier, 8 - i % 8);
        assert_int_equal(view.picture.supernodes[i].parent, i % 8 ? i - 1 : GT_NONE);
    }
    gt_auto_buf struct gt_buf picture = GT_BUF(1 << 20);
    gt_picture_svg(&view.picture, &picture);
    assert_false(picture.failed);
}

static void test_labels(void **state)
{
    (void)state;
    cli_auto_view struct cli_view view;
    cli_view_init(&view, 0, false);
    add_node(&view, "gpu-1.rack.example.com", "");
    add_node(&view, "gpu-2.example.com", "");
    add_node(&view, "a-very-long-name-that-ends-in-17.example.com", "");
    assert_int_equal(cli_view_finish(&view, NULL), 0);
    char text[64];
    gt_picture_label(&view.picture, &view.picture.nodes[0], 0, text, sizeof(text));
    assert_string_equal(text, "a-very-long-name-that-ends-in-17");
    gt_picture_label(&view.picture, &view.picture.nodes[0], 12, text, sizeof(text));
    assert_string_equal(text, "a-ver\xe2\x80\xa6-in-17");
    gt_picture_label(&view.picture, &view.picture.nodes[1], 12, text, sizeof(text));
    assert_string_equal(text, "gpu-1.rack");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
