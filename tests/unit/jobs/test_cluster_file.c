/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/json.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/file/cluster_file.h"
#include "tests/unit/core/core_checks.h"

static struct gt_cluster_file *read_text(const char *text)
{
    struct gt_cluster_file *file = NULL;
    struct gt_err *err = NULL;
    if (gt_cluster_file_parse(text, strlen(text), "file", &file, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return file;
}

static struct gt_cluster_node node_of(const struct gt_cluster_file *file, const char *name)
{
    struct gt_cluster_node node = {0};
    assert_true(gt_cluster_get_node(file->cluster, gt_cluster_find_node(file->cluster, name), &node));
    return node;
}

static void test_line(void **state)
{
    (void)state;
    static const char text[] =
        "\xef\xbb\xbf\n{ \"a\": [\n 1, {\"]}\\\"\": [ ],\n \"b\": {\n\"c\":\n7}}\n],\n\"empty\":{}, "
        "\"d\": \"x\"}\n";
    const struct {
        const char *path;
        unsigned line;
    } cases[] = {
        {"", 2},
        {"a", 2},
        {"a[0]", 3},
        {"a[1]", 3},
        {"a[1].b", 4},
        {"a[1].b.c", 6},
        {"a[2]", 2},
        {"a[1].x", 3},
        {"empty", 8},
        {"empty.x", 8},
        {"d", 8},
        {"d.x", 8},
        {"d[0]", 8},
        {"nothing", 2},
        {"a.b", 2},
        {"a[", 3},
        {"a[99999999999999999999]", 2},
        {"a[1].]}", 3},
        {"..", 2},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        unsigned line = gt_json_line(text, sizeof(text) - 1, cases[i].path);
        if (line != cases[i].line)
            fail_msg("\"%s\": line %u, expected %u", cases[i].path, line, cases[i].line);
    }
    for (size_t len = 0; len < sizeof(text); len++) /* never beyond the end, whatever the text */
        for (size_t i = 0; i < GT_COUNT(cases); i++) {
            char *cut = malloc(len + 1);
            assert_non_null(cut);
            memcpy(cut, text, len);
            cut[len] = '\0';
            gt_json_line(cut, len, cases[i].path);
            free(cut);
        }
}

static void test_counts(void **state)
{
    (void)state;
    gt_auto_cluster_file struct gt_cluster_file *file =
        read_text("{\"nodes\": [{\"name\": \"n0\", \"supernode\": \"s\", \"gpus\": 8},"
                  " {\"name\": \"n1\", \"supernode\": \"s\", \"gpus\": 8, \"free\": [1, 7]},"
                  " {\"name\": \"n2\", \"gpus\": 4, \"free\": []}, {\"name\": \"n3\", \"gpus\": 64},"
                  " {\"name\": \"n4\", \"supernode\": null, \"gpus\": 0, \"unknown\": 1}]}");
    struct gt_cluster_node n0 = node_of(file, "n0"), n1 = node_of(file, "n1");
    assert_int_equal(n0.available, 0xff);
    assert_int_equal(n1.available, 0x82);
    assert_int_equal(n0.supernode, n1.supernode);
    assert_ptr_equal(n0.class, n1.class);
    assert_int_equal(gt_class_sum(n0.class, 3), GT_CLUSTER_GPU_WEIGHT);
    assert_int_equal(node_of(file, "n2").available, 0);
    assert_int_equal(node_of(file, "n2").all, 0xf);
    assert_int_equal(node_of(file, "n3").available, UINT64_MAX);
    assert_int_equal(node_of(file, "n4").all, 0);
    struct gt_cluster_supernode super;
    assert_true(gt_cluster_get_supernode(file->cluster, node_of(file, "n2").supernode, &super));
    assert_true(super.is_node);
    assert_int_equal(gt_cluster_check(file->cluster, NULL), 0);
}

static void test_tree(void **state)
{
    (void)state;
    gt_auto_cluster_file struct gt_cluster_file *file = read_text(
        "{\"supernodes\": [{\"name\": \"s0\", \"parent\": \"p\"}, {\"name\": \"s1\", \"tier\": 1, "
        "\"parent\": \"p\"}, {\"name\": \"p\", \"tier\": 2, \"parent\": \"top\"}, {\"name\": \"top\", "
        "\"tier\": 8}], \"nodes\": [{\"name\": \"n0\", \"supernode\": \"s0\", \"gpus\": 8}, {\"name\": "
        "\"n1\", \"supernode\": \"p\", \"gpus\": 8}]}");
    struct gt_cluster_supernode super;
    assert_true(gt_cluster_get_supernode(file->cluster, node_of(file, "n0").supernode, &super));
    assert_string_equal(super.name, "s0");
    uint32_t p = super.parent;
    assert_true(gt_cluster_get_supernode(file->cluster, p, &super));
    assert_string_equal(super.name, "p");
    assert_int_equal(super.tier, 2);
    assert_int_equal(super.nodes, 2);
    assert_true(gt_cluster_get_supernode(file->cluster, node_of(file, "n1").supernode, &super));
    assert_true(super.is_node);
    assert_int_equal(super.parent, p);
}

#define TOPOLOGY                                                                                             \
    "{\"gpus\": [{\"bdf\": \"0000:01:00.0\"}, {\"bdf\": \"0000:02:00.0\", \"healthy\": false}, "             \
    "{\"bdf\": \"0000:03:00.0\"}], \"links\": [{\"a\": 0, \"b\": 1, \"kind\": \"MX\"}, "                     \
    "{\"a\": 0, \"b\": 2, \"kind\": \"PIX\"}]}"

static void test_topology(void **state)
{
    (void)state;
    gt_auto_cluster_file struct gt_cluster_file *file =
        read_text("{\"nodes\": [{\"name\": \"a\", \"topology\": " TOPOLOGY "},"
                  " {\"name\": \"b\", \"topology\": " TOPOLOGY ", \"free\": [0, 1]}]}");
    struct gt_cluster_node a = node_of(file, "a"), b = node_of(file, "b");
    assert_ptr_equal(a.class, b.class);
    assert_int_equal(a.available, 5); /* GPU 1 is unhealthy */
    assert_int_equal(b.available, 1);
    assert_int_equal(b.free, 3);
    assert_int_equal(gt_class_sum(a.class, 3), 64);
    assert_int_equal(gt_class_sum(a.class, 5), 32);
}

static void test_like(void **state)
{
    (void)state;
    gt_auto_cluster_file struct gt_cluster_file *file =
        read_text("{\"nodes\": [{\"name\": \"a\", \"topology\": " TOPOLOGY "},"
                  " {\"name\": \"b\", \"like\": \"a\", \"free\": [0, 1]},"
                  " {\"name\": \"c\", \"like\": \"b\", \"unhealthy\": [0, 2]}]}");
    struct gt_cluster_node a = node_of(file, "a"), b = node_of(file, "b"), c = node_of(file, "c");
    assert_ptr_equal(a.class, b.class);
    assert_ptr_equal(a.class, c.class);
    assert_int_equal(a.available, 5);
    assert_int_equal(b.available, 3); /* health is not inherited */
    assert_int_equal(c.available, 2);
    assert_int_equal(gt_cluster_check(file->cluster, NULL), 0);
}

static void test_pods(void **state)
{
    (void)state;
    gt_auto_cluster_file struct gt_cluster_file *file = read_text(
        "{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}, {\"name\": \"b\", \"gpus\": 4, \"free\": [0]}],"
        " \"pods\": [{\"name\": \"x/p\", \"node\": \"a\", \"gpus\": [0, 1], \"movable\": true, "
        "\"job\": \"j\"}, {\"name\": \"x/q\", \"node\": \"b\", \"gpus\": [3]},"
        " {\"name\": \"x/r\", \"node\": \"a\", \"gpus\": [7]}]}");
    assert_int_equal(file->pod_count, 3);
    assert_string_equal(file->pods[0].name, "x/p");
    assert_string_equal(file->pods[0].job, "j");
    assert_true(file->running[0].movable);
    assert_false(file->running[1].movable);
    assert_string_equal(file->pods[1].job, "");
    assert_int_equal(file->running[1].place.mask, 8);
    assert_int_equal(node_of(file, "a").free, 0x7c); /* all but what the pods use */
    assert_int_equal(node_of(file, "b").free, 1);    /* what the file says */
}

/* What pods say counts where the file does not know better. */
static void test_unit_sizes(void **state)
{
    (void)state;
    static const char nodes[] = "{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}], \"pods\": [{\"name\": \"p\", "
                                "\"node\": \"a\", \"gpus\": [0, 1], \"groupSize\": 24}]",
                      known[] = ", \"unitSizes\": [{\"gpus\": 64, \"present\": 512, \"past\": 0.25}, "
                                "{\"gpus\": 16, \"past\": 100}]}";
    struct gt_chain_seen seen;
    char text[512];
    snprintf(text, sizeof(text), "%s}", nodes);
    gt_auto_cluster_file struct gt_cluster_file *pods = read_text(text);
    assert_true(gt_chain_get_seen(pods->cluster, 0, &seen));
    assert_int_equal(seen.size, 24);
    assert_int_equal(seen.present, 2);
    assert_false(gt_chain_get_seen(pods->cluster, 1, &seen));
    snprintf(text, sizeof(text), "%s%s", nodes, known);
    gt_auto_cluster_file struct gt_cluster_file *told = read_text(text);
    assert_true(gt_chain_get_seen(told->cluster, 0, &seen));
    assert_true(seen.size == 64 && seen.present == 512 && seen.past == 0.25);
    assert_true(gt_chain_get_seen(told->cluster, 1, &seen));
    assert_true(seen.size == 16 && seen.present == 0 && seen.past == 100);
    assert_false(gt_chain_get_seen(told->cluster, 2, &seen));
}

static void test_wrong(void **state)
{
    (void)state;
    const struct {
        const char *text, *says;
    } cases[] = {
        {"", "file: line 1, column 1: "},
        {"[]", "file: line 1: expected an object, is an array"},
        {"\n\n{}", "file: line 3: nodes: is missing; this is no cluster"},
        {"{\"nodes\": [],\n\"tiers\": [{\"tier\": 9, \"bandwidthGBps\": 1}]}",
         "file: line 2: tiers[0].tier: expected 0 to 8, is 9"},
        {"{\"nodes\": [], \"tiers\": [{\"bandwidthGBps\": 25}]}",
         "tiers[0].tier: expected 1 (best performance) to 8"},
        {"{\"nodes\": [], \"tiers\": [{\"tier\": 2, \"bandwidthGBps\": 0}]}",
         "tiers[0].bandwidthGBps: expected GB/s, above 0"},
        {"{\"nodes\": [], \"tiers\": [{\"tier\": 2, \"bandwidthGBps\": 1e9}]}",
         "tiers[0].bandwidthGBps: expected 0 to 100000, is 1e+09"},
        {"{\"nodes\": [],\n\"unitSizes\": [7]}",
         "file: line 2: unitSizes[0]: expected an object, is a number"},
        {"{\"nodes\": [], \"unitSizes\": [{\"gpus\": 8},\n{\"past\": 1}]}",
         "file: line 2: unitSizes[1].gpus: expected a size of units, in GPUs"},
        {"{\"nodes\": [], \"unitSizes\": [{\"gpus\": 8, \"past\": 1e300}]}",
         "unitSizes[0].past: expected 0 to 1073741824, is 1e+300"},
        {"{\"nodes\": {}}", "file: line 1: nodes: expected an array, is an object"},
        {"{\"nodes\": [\n5]}", "file: line 2: nodes[0]: expected an object, is a number"},
        {"{\"nodes\": [\n{\"gpus\": 8}]}", "file: line 2: nodes[0].name: is missing"},
        {"{\"nodes\": [\n{\"name\": \"\", \"gpus\": 8}]}", "file: line 2: nodes[0].name: is empty"},
        {"{\"nodes\": [\n{\"name\": 7, \"gpus\": 8}]}",
         "file: line 2: nodes[0].name: expected a string, is a number"},
        {"{\"nodes\": [\n{\"name\": \"a\"}]}",
         "file: line 2: nodes[0]: expected gpus (a number), topology (a node) or like (a name)"},
        {"{\"nodes\": [{\"name\": \"a\",\n\"like\": \"b\"}, {\"name\": \"b\", \"gpus\": 8}]}",
         "file: line 2: nodes[0].like: there is no node \"b\" before this one"},
        {"{\"nodes\": [{\"name\": \"a\", \"like\": \"a\"}]}",
         "nodes[0].like: there is no node \"a\" before this one"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}, {\"name\": \"b\", \"like\": \"a\", \"gpus\": 8}]}",
         "nodes[1].like: there is gpus too, expected one of them"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}, {\"name\": \"b\", \"like\": \"a\", \"unhealthy\": "
         "[8]}]}",
         "nodes[1].unhealthy[0]: there is no GPU 8, the node has 8"},
        {"{\"nodes\": [{\"name\": \"a\",\n\n\"gpus\": 65}]}",
         "file: line 3: nodes[0].gpus: expected 0 to 64, is 65"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 1.5}]}", "nodes[0].gpus: expected a whole number"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": \"8\"}]}",
         "nodes[0].gpus: expected a number, is a string"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8},\n{\"name\": \"a\", \"gpus\": 8}]}",
         "file: line 2: nodes[1].name: \"a\" is the name of nodes[0] already"},
        {"{\"supernodes\": [], \"nodes\": [{\"name\": \"a\", \"gpus\": 8,\n\"supernode\": \"s\"}]}",
         "file: line 2: nodes[0].supernode: there is no supernode \"s\""},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"supernode\": 1}]}", "expected a string, is a number"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"free\": [0,\n1, 8]}]}",
         "file: line 2: nodes[0].free[2]: there is no GPU 8, the node has 8"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"free\": [-1]}]}",
         "nodes[0].free[0]: there is no GPU -1"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"free\": [1, 1]}]}",
         "nodes[0].free[1]: GPU 1 is there twice"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"free\": [0.5]}]}", "expected a whole number, is 0.5"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"free\": [\"0\"]}]}",
         "expected a number, is a string"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"free\": 3}]}",
         "nodes[0].free: expected an array, is a number"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"topology\": {}}]}", "there is a topology too"},
        {"{\"nodes\": [{\"name\": \"a\",\n\"topology\": {}}]}",
         "file: line 2: nodes[0].topology: gpus: is missing"},
        {"{\"nodes\": [{\"name\": \"a\",\n\"topology\": {\"gpus\": [\n{}]}}]}",
         "file: line 3: nodes[0].topology: gpus[0]"},
        {"{\"nodes\": [{\"name\": \"a\", \"topology\": {\"gpus\": [{\"bdf\": \"02:00.0\"},\n{\"bdf\": "
         "\"01:00.0\"}]}}]}",
         "must stand in the order of their PCI addresses"},
        {"{\"nodes\": [{\"name\": \"a\", \"topology\": {\"gpus\": [{\"bdf\": \"01:00.0\", \"index\": 1},\n"
         "{\"bdf\": \"02:00.0\", \"index\": 0}]}}]}",
         "must stand in the order of their PCI addresses"},
        {"{\"supernodes\": [{\"name\": \"s\"},\n{\"name\": \"s\"}], \"nodes\": []}",
         "file: line 2: supernodes[1].name: \"s\" is the name of supernodes[0] already"},
        {"{\"supernodes\": [{\"name\": \"s\", \"tier\": 0}], \"nodes\": []}",
         "supernodes[0].tier: expected 1 (best"},
        {"{\"supernodes\": [{\"name\": \"s\", \"tier\": 9}], \"nodes\": []}",
         "supernodes[0].tier: expected 1 (best performance) to 8, is 9"},
        {"{\"supernodes\": [{\"name\": \"s\",\n\"parent\": \"p\"}], \"nodes\": []}",
         "file: line 2: supernodes[0].parent: there is no supernode \"p\""},
        {"{\"supernodes\": [{\"name\": \"s\", \"parent\": \"s\"}], \"nodes\": []}",
         "supernodes[0].parent: the parents of \"s\" form a cycle"},
        {"{\"supernodes\": [{\"name\": \"s\", \"parent\": \"p\", \"tier\": 1},\n{\"name\": \"p\", \"tier\": "
         "2, \"parent\": "
         "\"q\"},\n{\"name\": \"q\", \"tier\": 3, \"parent\": \"p\"}], \"nodes\": []}",
         "file: line 3: supernodes[2].parent: the parents of \"q\" form a cycle"},
        {"{\"supernodes\": [{\"name\": \"s\", \"parent\": \"p\"}, {\"name\": \"p\"}], \"nodes\": []}",
         "supernodes[0].parent: \"p\" has tier 1, a parent of tier 1 must have a higher one"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}], \"pods\": [{\"name\": \"p\", \"node\":\n\"b\", "
         "\"gpus\": [0]}]}",
         "file: line 2: pods[0].node: there is no node \"b\""},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}], \"pods\": [{\"name\": \"p\", \"node\": \"a\", "
         "\"gpus\": [8]}]}",
         "pods[0].gpus[0]: there is no GPU 8"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}], \"pods\": [{\"name\": \"p\", \"node\": \"a\", "
         "\"gpus\": []}]}",
         "pods[0].gpus: expected the GPUs that the pod uses"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}], \"pods\": [{\"name\": \"p\", \"node\": \"a\"}]}",
         "pods[0].gpus: expected the GPUs that the pod uses"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8, \"free\": [2]}], \"pods\": [{\"name\": \"p\", "
         "\"node\": \"a\", "
         "\"gpus\": [2]}]}",
         "pods[0].gpus: GPU 2 of \"a\" is free, its node says"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}], \"pods\": [{\"name\": \"p\", \"node\": \"a\", "
         "\"gpus\": [2]},"
         "{\"name\": \"q\", \"node\": \"a\", \"gpus\": [1, 2]}]}",
         "pods[1].gpus: GPU 2 of \"a\" is used by another pod"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}], \"pods\": [{\"name\": \"p\", \"node\": \"a\", "
         "\"gpus\": [2]},"
         "\n{\"name\": \"p\", \"node\": \"a\", \"gpus\": [1]}]}",
         "file: line 2: pods[1].name: \"p\" is the name of pods[0] already"},
        {"{\"nodes\": [{\"name\": \"a\", \"gpus\": 8}], \"pods\": [{\"name\": \"p\", \"node\": \"a\", "
         "\"gpus\": [2], "
         "\"movable\": 1}]}",
         "pods[0].movable: expected true or false, is a number"},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_err struct gt_err *err = NULL;
        gt_auto_cluster_file struct gt_cluster_file *file = NULL;
        int r = gt_cluster_file_parse(cases[i].text, strlen(cases[i].text), "file", &file, &err);
        if (r >= 0 || file || strncmp(gt_err_text(err), "file: line ", 11) != 0 ||
            !strstr(gt_err_text(err), cases[i].says))
            fail_msg("case %zu: %d, \"%s\", expected \"%s\"", i, r, gt_err_text(err), cases[i].says);
    }
}

static void test_no_file(void **state)
{
    (void)state;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_cluster_file *file = NULL;
    assert_int_equal(gt_cluster_file_read("/nonexistent/cluster.json", &file, &err), -ENOENT);
    assert_non_null(strstr(gt_err_text(err), "/nonexistent/cluster.json"));
    assert_true(gt_cluster_file_parse("{\"nodes\": 1}", 12, "file", &file, NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),       cmocka_unit_test(test_counts), cmocka_unit_test(test_tree),
        cmocka_unit_test(test_topology),   cmocka_unit_test(test_like),   cmocka_unit_test(test_pods),
        cmocka_unit_test(test_unit_sizes), cmocka_unit_test(test_wrong),  cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
