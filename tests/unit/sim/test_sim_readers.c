/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "tests/unit/seed.h"
#include "tests/unit/sim/sim_test.h"

static const char topo[] = "node,supernode\nb,S2\na,S1\nc,S2\n";
static const char philly[] = "timestamp,duration,num_gpus,gpu_time,cluster\n"
                             "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 06:13:03,29.5,16,1,6214e9\n";

static void test_good(void **state)
{
    (void)state;
    gt_auto_free char *text = copy_text(topo);
    gt_auto_site struct gt_site *site = NULL;
    assert_int_equal(gt_site_from_text("t", text, strlen(text), &site, NULL), 0);
    assert_int_equal(site->node_count, 3);
    assert_int_equal(site->super_count, 2);
    assert_int_equal(site->gpus, 24);
    assert_int_equal(site->first_node[1], 1); /* S1 has one host, S2 two */
    assert_int_equal(gt_site_largest_super(site), 16);

    gt_auto_cluster struct gt_cluster *model = NULL;
    assert_int_equal(gt_site_model(site, &model, NULL), 0);

    gt_auto_free char *job_text = copy_text(philly);
    gt_auto_trace struct gt_trace *jobs = NULL;
    assert_int_equal(gt_trace_from_text("t", job_text, strlen(job_text), &jobs, NULL), 0);
    assert_int_equal(jobs->kind, GT_TRACE_FILE);
    assert_int_equal(jobs->rows[1].gpus, 16);
}

static void test_leaves_and_spines(void **state)
{
    (void)state;
    gt_auto_site struct gt_site *site = NULL;
    gt_auto_cluster struct gt_cluster *model = NULL;
    struct gt_cluster_node node;
    struct gt_cluster_supernode super;
    static const char *const above[] = {"s000004", "t2-000002", "t3-000001"};
    assert_int_equal(gt_site_from_shape("6x1x8", &site, NULL), 0);
    assert_int_equal(gt_site_group(site, 0, 2, NULL), 0); /* supernodes of a leaf, of a spine */
    assert_int_equal(gt_site_group(site, 1, 4, NULL), 0);
    assert_int_equal(gt_site_model(site, &model, NULL), 0);
    assert_true(gt_cluster_get_node(model, 4, &node));
    uint32_t id = node.supernode;
    for (unsigned t = 0; t < GT_COUNT(above); t++, id = super.parent) {
        assert_true(gt_cluster_get_supernode(model, id, &super));
        assert_string_equal(super.name, above[t]);
        assert_int_equal(super.tier, t + 1);
        assert_int_equal(super.nodes, t ? 2 : 1);
    }
    assert_int_equal(id, GT_NONE);
}

/* As the companion reads it: rows in any order; supernodes are named, or each node is one. */
static void test_a_table_of_the_network(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t supers, leaves, spines, halls, last_leaf;
    } of[] = {
        {"node,leaf,spine,hall\nk,l3,s2,h1\na,l1,s1,h1\nc,l2,s1,h1\nb,l1,s1,h1\ne,l4,s3,h2\n", 5, 4, 3, 2, 3},
        {"Node,Supernode,leaf\nk,x2,l1\na,x1,l1\nb,x1,l1\nc,x3,l2\n", 3, 2, 0, 0, 1},
        {"node,supernode\nk,x2\na,x1\nb,x1\n", 2, 0, 0, 0, 0},
        {"node,rack\nk,x2\na,x1\nb,x1\n", 3, 2, 0, 0, 1},
        {"SwitchName=l2 Nodes=n3\nSwitchName=l1 Nodes=n[1-2]\nSwitchName=s1 Switches=l[1-2]\n", 3, 2, 1, 0,
         1},
    };
    for (size_t i = 0; i < GT_COUNT(of); i++) {
        gt_auto_free char *text = copy_text(of[i].text);
        gt_auto_site struct gt_site *site = NULL;
        gt_auto_cluster struct gt_cluster *model = NULL;
        assert_int_equal(gt_site_from_text("t", text, strlen(text), &site, NULL), 0);
        assert_int_equal(site->super_count, of[i].supers);
        assert_int_equal(site->upper_count[0], of[i].leaves);
        assert_int_equal(site->upper_count[1], of[i].spines);
        assert_int_equal(site->upper_count[2], of[i].halls);
        if (of[i].leaves)
            assert_int_equal(site->upper[0][site->super_count - 1], of[i].last_leaf);
        assert_int_equal(gt_site_model(site, &model, NULL), 0);
    }
}

static void expect_error(bool cluster, const char *from, const char *expected)
{
    gt_auto_free char *text = copy_text(from);
    gt_auto_err struct gt_err *err = NULL;
    struct gt_site *site = NULL;
    struct gt_trace *trace = NULL;
    int r = cluster ? gt_site_from_text("f.csv", text, strlen(text), &site, &err)
                    : gt_trace_from_text("f.csv", text, strlen(text), &trace, &err);
    assert_true(r < 0 && !site && !trace);
    if (!strstr(gt_err_text(err), expected))
        fail_msg("'%s' does not say '%s'", gt_err_text(err), expected);
}

static void test_bad(void **state)
{
    (void)state;
    expect_error(true, "", "f.csv: 0 nodes, expected 1 to");
    expect_error(true, "hello\nworld", "f.csv: it begins with \"hello\", expected a table");
    expect_error(true, "node,leaf,spine\n", "f.csv: 0 nodes");
    expect_error(true, "node,leaf,spine\na,b\n",
                 "f.csv: not all of it can be used: line 2: 2 fields, expected 3");
    expect_error(true, "node,supernode\n\na,S\n,S\n",
                 "f.csv: not all of it can be used: line 4: the node has no name");

    expect_error(true, "node \na\n", "f.csv: the table has one column");
    expect_error(true, "node\na\n", "f.csv: it begins with \"node\", expected a table");
    expect_error(true, "node,leaf\na,l1\nb,\n",
                 "f.csv: not all of it can be used: line 3: the leaf of node b has no name");
    expect_error(true, "node,leaf\na,l1\na,l2\n",
                 "f.csv: not all of it can be used: line 3: node a is in line 2 already");
    expect_error(true, "node,leaf,spine\na,l1,s1\nb,l2,s1\nc,l1,s2\n",
                 "f.csv: not all of it can be used: line 4: l1 is in s2, but in s1");
    expect_error(true, "node,a,b,c,d\nn,1,2,3,4\n", "f.csv: more than 3 tiers above the supernodes");
    expect_error(true, "SwitchName=l1 Nodes=a\nSwitchName=s1 Switches=l1 Nodes=b\n",
                 "f.csv: of the nodes a and b one is in no domain of tier 2");

    expect_error(false, "nonsense", "f.csv:1: not a trace");
    expect_error(false, "timestamp,duration,num_gpus,gpu_time,cluster\n", "f.csv: no jobs");
    expect_error(false, "timestamp,duration,num_gpus,gpu_time,cluster\nwhat is this\n",
                 "f.csv:2: expected 5 fields, is 1");
    static const char head[] = "timestamp,duration,num_gpus,gpu_time,cluster\n";
    static const char *const rows[] = {"t,nan,1,1,c", "t,inf,1,1,c",     "t,-1,1,1,c",   "t,0x10,1,1,c",
                                       "t, 1,1,1,c",  "t,,1,1,c",        "t,1e99,1,1,c", "t,1,0,1,c",
                                       "t,1,x,1,c",   "t,1,99999999,1,c"};
    for (size_t i = 0; i < GT_COUNT(rows); i++) {
        char text[256];
        snprintf(text, sizeof(text), "%s%s\n", head, rows[i]);
        expect_error(false, text, "f.csv:2: ");
    }
    char wide[200];
    memset(wide, ',', 100);
    memcpy(wide + 100, "\n", 2);
    expect_error(false, wide, "f.csv:1: more than 32 fields");
}

static void test_nul_byte(void **state)
{
    (void)state;
    char text[] = "node,supernode\na,G\0P\n";
    gt_auto_err struct gt_err *err = NULL;
    struct gt_site *site = NULL;
    assert_true(gt_site_from_text("f.csv", text, sizeof(text) - 1, &site, &err) < 0);
    assert_non_null(strstr(gt_err_text(err), "f.csv: there is a NUL byte"));
}

static void test_shapes(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "x",
                                      "3",
                                      "3x",
                                      "3x4x",
                                      "3x4x5x6x7",
                                      "3x4x8x0",
                                      "3x4x8x65",
                                      "3x4+",
                                      "+3x4",
                                      "3x4++3x4",
                                      "1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1+1x1",
                                      "131072x1+1x1",
                                      "0x4",
                                      "3x0x8",
                                      "3x4x65",
                                      "3x-4x8",
                                      "a",
                                      "3 x4",
                                      "1e3x4",
                                      "131073x1",
                                      "99999x99999x8",
                                      "3x4x5555555555555555555555555555555555555555555555555555555555"};
    for (size_t i = 0; i < GT_COUNT(bad); i++) {
        struct gt_site *site = NULL;
        assert_int_equal(gt_site_from_shape(bad[i], &site, NULL), -EINVAL);
    }
    gt_auto_site struct gt_site *site = make_site("3x4");
    assert_int_equal(site->super_count, 3);
    assert_int_equal(site->node_count, 12);
    assert_int_equal(site->gpus, 96);
    assert_int_equal(site->nodes[0].linked, 4);
    gt_auto_site struct gt_site *mixed = make_site("2x3x8x8+1x2x4x1");
    assert_int_equal(mixed->super_count, 3);
    assert_int_equal(mixed->node_count, 8);
    assert_int_equal(mixed->gpus, 56);
    assert_int_equal(mixed->nodes[5].super, 1);
    assert_int_equal(mixed->nodes[5].linked, 8);
    assert_int_equal(mixed->nodes[6].super, 2);
    assert_int_equal(mixed->nodes[7].gpus, 4);
    assert_int_equal(mixed->nodes[7].linked, 1);
    static const char *const bad_traces[] = {"mix:",
                                             "mix:0",
                                             "mix:1,",
                                             "mix:a",
                                             "mix:1,,2",
                                             "mix:70000",
                                             "mix:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};
    for (size_t i = 0; i < GT_COUNT(bad_traces); i++) {
        struct gt_trace *trace = NULL;
        assert_int_equal(gt_trace_from_name(bad_traces[i], &trace, NULL), -EINVAL);
    }
    struct gt_trace *trace = NULL;
    assert_int_equal(gt_trace_from_name("nobody", &trace, NULL), -ENOENT);
}

/* Damaged files: never more than an error, and memory stays sound (run under the sanitizers). */
static void test_damaged(void **state)
{
    (void)state;
    static const char *const from[] = {topo, philly};
    struct gt_rng rng;
    gt_rng_seed(&rng, test_seed());
    for (unsigned round = 0; round < 20000; round++) {
        gt_auto_free char *text = copy_text(from[round % GT_COUNT(from)]);
        size_t len = strlen(text);
        for (unsigned i = gt_rng_below(&rng, 6); i--;)
            text[gt_rng_below(&rng, (uint32_t)len)] = "0,\n\r-9x\0e.\xff"[gt_rng_below(&rng, 11)];
        size_t cut = gt_rng_below(&rng, 4) ? len : gt_rng_below(&rng, (uint32_t)len);
        text[cut] = '\0';
        gt_auto_site struct gt_site *site = NULL;
        gt_auto_trace struct gt_trace *trace = NULL;
        gt_auto_err struct gt_err *err = NULL;
        int r = round % 2 == 0 ? gt_site_from_text("f", text, cut, &site, &err)
                               : gt_trace_from_text("f", text, cut, &trace, &err);
        assert_true((r < 0) == (err != NULL));
        assert_true((r >= 0) == (site || trace));
        assert_null(strchr(gt_err_text(err), '\n'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_nul_byte),
        cmocka_unit_test(test_leaves_and_spines),
        cmocka_unit_test(test_a_table_of_the_network),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
