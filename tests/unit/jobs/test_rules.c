/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "scheduler-ext/jobs/rules.h"

enum { PODS_MAX = 64 };

/* The units of pods with these GPU counts; 0 ends the list. */
static int make(const char *group, const char *atomic, const unsigned *gpus, struct gt_job_units *ret,
                struct gt_err **err)
{
    struct gt_job_texts texts = {.where = "", .of[GT_KEY_GROUP] = group, .of[GT_KEY_ATOMIC] = atomic};
    struct gt_job_sizes sizes;
    struct gt_job_pod pods[PODS_MAX];
    uint32_t count = 0;
    for (; gpus[count]; count++)
        pods[count] = (struct gt_job_pod){&gpus[count], 1, 0};
    int r = gt_job_sizes_read(&texts, 1, &sizes, err);
    return r < 0 ? r : gt_job_units_make(&sizes, pods, count, ret, err);
}

#define EIGHT ((const unsigned[]){8, 8, 8, 8, 8, 8, 8, 8, 0})

static void test_manual(void **state)
{
    (void)state;
    struct gt_job_units units;
    assert_int_equal(make("32", NULL, EIGHT, &units, NULL), 0);
    assert_int_equal(units.count, 2);
    for (uint32_t u = 0; u < 2; u++) {
        assert_int_equal(units.units[u].first, 4 * u);
        assert_int_equal(units.units[u].pods, 4);
        assert_int_equal(units.units[u].gpus, 8);
        assert_int_equal(units.units[u].atom, 0);
    }
    assert_null(units.warning);
    gt_job_units_done(&units);

    assert_int_equal(make("32", "16", EIGHT, &units, NULL), 0);
    assert_int_equal(units.count, 2);
    assert_int_equal(units.units[1].atom, 2);
    gt_job_units_done(&units);

    assert_int_equal(make("32", "32", EIGHT, &units, NULL), 0); /* the natural default: hard */
    assert_int_equal(units.units[0].atom, 0);
    gt_job_units_done(&units);
}

static void test_no_group(void **state)
{
    (void)state;
    struct gt_job_units units;
    assert_int_equal(make(NULL, NULL, EIGHT, &units, NULL), 0);
    assert_null(units.units);
    assert_null(units.warning);
    assert_int_equal(make(NULL, "16", EIGHT, &units, NULL), 0);
    assert_null(units.units);
    assert_non_null(strstr(units.warning, "left alone"));
}

/* Each broken rule has its own sentence. */
static void test_sentences(void **state)
{
    (void)state;
    const struct {
        const char *group, *atomic;
        unsigned gpus[PODS_MAX];
        const char *says;
    } cases[] = {
        {"", NULL, {8}, "\"\" is not a number"},
        {"abc", NULL, {8}, "gpu-group-size: \"abc\" is not a number of GPUs, nor the word group or subgroup"},
        {"-8", NULL, {8}, "is not a number"},
        {"+8", NULL, {8}, "is not a number"},
        {" 8", NULL, {8}, "is not a number"},
        {"8.0", NULL, {8}, "is not a number"},
        {"0x8", NULL, {8}, "is not a number"},
        {"8\n", NULL, {8}, "is not a number"},
        {"\xd9\xa8", NULL, {8}, "is not a number"},
        {"99999999999999999999999", NULL, {8}, "more than any cluster has"},
        {"8388609", NULL, {8}, "more than any cluster has"},
        {"0", NULL, {8}, "0 is not a size"},
        {"000", NULL, {8}, "0 is not a size"},
        {"20", NULL, {8, 8}, "gpu-group-size 20 is not a multiple of the pod's 8 GPUs"},
        {"4", NULL, {8, 8}, "gpu-group-size 4 is not a multiple of the pod's 8 GPUs"},
        {"32", NULL, {8, 8, 8}, "the job's 24 GPUs are not a multiple of gpu-group-size 32"},
        {"32", NULL, {8, 8, 8, 8, 8}, "the job's 40 GPUs are not a multiple"},
        {"32", "x", {8, 8, 8, 8}, "atomic-gpu-group-size: \"x\" is not a number"},
        {"32", "0", {8, 8, 8, 8}, "atomic-gpu-group-size: 0 is not a size"},
        {"32", "12", {8, 8, 8, 8}, "atomic-gpu-group-size 12 does not divide gpu-group-size 32"},
        {"32", "64", {8, 8, 8, 8}, "atomic-gpu-group-size 64 does not divide gpu-group-size 32"},
        {"32", "4", {8, 8, 8, 8}, "atomic-gpu-group-size 4 is not a multiple of the pod's 8 GPUs"},
        {"16", NULL, {8, 4, 4}, "in unit 0, pod 0 asks for 8 and pod 1 for 4"},
        {"16", NULL, {8, 8, 8, 4, 4}, "in unit 1, pod 2 asks for 8 and pod 3 for 4"},
        {"8", NULL, {8, 4, 2, 2}, "unit 1"},
        {NULL, "abc", {8}, "atomic-gpu-group-size: \"abc\""},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_err struct gt_err *err = NULL;
        struct gt_job_units units;
        int r = make(cases[i].group, cases[i].atomic, cases[i].gpus, &units, &err);
        if (r != -EINVAL || !strstr(gt_err_text(err), cases[i].says))
            fail_msg("case %zu: %d, \"%s\", expected \"%s\"", i, r, gt_err_text(err), cases[i].says);
    }
}

static void test_mixed_sizes(void **state)
{
    (void)state;
    struct gt_job_units units;
    assert_int_equal(make("16", NULL, (const unsigned[]){8, 8, 4, 4, 4, 4, 16, 0}, &units, NULL), 0);
    assert_int_equal(units.count, 3);
    assert_int_equal(units.units[0].pods, 2);
    assert_int_equal(units.units[1].pods, 4);
    assert_int_equal(units.units[1].first, 2);
    assert_int_equal(units.units[2].pods, 1);
    assert_int_equal(units.units[2].gpus, 16);
    gt_job_units_done(&units);
}

static void test_containers(void **state)
{
    (void)state;
    static const unsigned gpus[] = {2, 0, 6}, huge[] = {UINT32_MAX, UINT32_MAX};
    struct gt_job_pod pod = {gpus, 3, 0}, too_many = {huge, 2, 0}, none = {NULL, 0, 0};
    assert_int_equal(gt_job_pod_gpus(&pod), 8);
    assert_int_equal(gt_job_pod_gpus(&too_many), UINT32_MAX);
    assert_int_equal(gt_job_pod_gpus(&none), 0);
    gt_auto_err struct gt_err *err = NULL;
    struct gt_job_units units;
    struct gt_job_sizes sizes = {.group = 8};
    assert_int_equal(gt_job_units_make(&sizes, &none, 1, &units, &err), -EINVAL);
    assert_string_equal(gt_err_text(err), "pod 0 of the job asks for no GPUs");
}

static void test_templates(void **state)
{
    (void)state;
    struct gt_job_sizes sizes;
    struct gt_job_texts one[] = {{.where = "Master", .of[GT_KEY_GROUP] = "32"},
                                 {.where = "Worker", .of[GT_KEY_ATOMIC] = "16"}};
    assert_int_equal(gt_job_sizes_read(one, 2, &sizes, NULL), 0);
    assert_int_equal(sizes.group, 32);
    assert_int_equal(sizes.atomic, 16);
    struct gt_job_texts equal[] = {{.where = "Master", .of[GT_KEY_GROUP] = "32"},
                                   {.where = "Worker", .of[GT_KEY_GROUP] = "032"}};
    assert_int_equal(gt_job_sizes_read(equal, 2, &sizes, NULL), 0);
    assert_int_equal(sizes.group, 32);
    assert_int_equal(sizes.atomic, 0);

    gt_auto_err struct gt_err *err = NULL;
    struct gt_job_texts differ[] = {{.where = "Master", .of[GT_KEY_GROUP] = "32"},
                                    {.where = "Evaluator"},
                                    {.where = "Worker", .of[GT_KEY_GROUP] = "16"}};
    assert_int_equal(gt_job_sizes_read(differ, 3, &sizes, &err), -EINVAL);
    assert_string_equal(gt_err_text(err),
                        "gpu-group-size differs within the job: 32 on Master, 16 on Worker");
    gt_auto_err struct gt_err *bad = NULL;
    struct gt_job_texts where[] = {{.where = "Master", .of[GT_KEY_GROUP] = "32"},
                                   {.where = "Worker", .of[GT_KEY_GROUP] = "x"}};
    assert_int_equal(gt_job_sizes_read(where, 2, &sizes, &bad), -EINVAL);
    assert_string_equal(
        gt_err_text(bad),
        "gpu-group-size of Worker: \"x\" is not a number of GPUs, nor the word group or subgroup");
}

static void test_node_loss(void **state)
{
    (void)state;
    struct gt_job_sizes sizes;
    struct gt_job_texts texts[] = {{.where = "Master", .of[GT_KEY_GROUP] = "32"},
                                   {.where = "Worker", .of[GT_KEY_LOSS] = "unit"}};
    assert_int_equal(gt_job_sizes_read(texts, 1, &sizes, NULL), 0);
    assert_int_equal(sizes.loss, GT_ON_NODE_LOSS_WAIT);
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, NULL), 0);
    assert_int_equal(sizes.loss, GT_ON_NODE_LOSS_UNIT);

    gt_auto_err struct gt_err *bad = NULL, *differ = NULL;
    texts[0].of[GT_KEY_LOSS] = "Unit";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, &bad), -EINVAL);
    assert_string_equal(gt_err_text(bad),
                        "on-node-loss of Master: \"Unit\" is none of wait, unit, job; unit is meant");
    texts[0].of[GT_KEY_LOSS] = "job";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, &differ), -EINVAL);
    assert_string_equal(gt_err_text(differ),
                        "on-node-loss differs within the job: job on Master, unit on Worker");
}

static void test_spread_and_subgroup(void **state)
{
    (void)state;
    struct gt_job_sizes sizes;
    struct gt_job_texts texts[] = {
        {.where = "leader", .of[GT_KEY_GROUP] = "subgroup", .of[GT_KEY_SPREAD] = "supernode"},
        {.where = "worker", .subgroup = 32}};
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, NULL), 0);
    assert_int_equal(sizes.group, 32);
    assert_true(sizes.spread);
    gt_auto_err struct gt_err *bad = NULL, *none = NULL, *two = NULL;
    texts[1].of[GT_KEY_SPREAD] = "rack";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, &bad), -EINVAL);
    assert_string_equal(gt_err_text(bad), "spread of worker: \"rack\" is none of none, supernode");
    texts[1].of[GT_KEY_SPREAD] = NULL;
    texts[1].of[GT_KEY_GROUP] = "group";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, &two), -EINVAL);
    assert_string_equal(gt_err_text(two),
                        "gpu-group-size differs within the job: subgroup on leader, group on worker");
    assert_int_equal(gt_job_sizes_read(texts, 1, &sizes, &none), -EINVAL);
    assert_string_equal(gt_err_text(none),
                        "gpu-group-size of leader: \"subgroup\" is for a LeaderWorkerSet with "
                        "a subGroupPolicy");
}

static void test_on_unplaced(void **state)
{
    (void)state;
    struct gt_job_sizes sizes;
    struct gt_job_texts texts[] = {{.where = "Master", .of[GT_KEY_GROUP] = "32"},
                                   {.where = "Worker", .of[GT_KEY_UNPLACED] = "report"}};
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, NULL), 0);
    assert_false(sizes.recreate);
    texts[1].of[GT_KEY_UNPLACED] = "recreate";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, NULL), 0);
    assert_true(sizes.recreate);

    gt_auto_err struct gt_err *bad = NULL;
    texts[1].of[GT_KEY_UNPLACED] = "restart";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, &bad), -EINVAL);
    assert_string_equal(gt_err_text(bad), "on-unplaced of Worker: \"restart\" is none of report, recreate");
}

static void test_topologies(void **state)
{
    (void)state;
    static const struct {
        const char *text, *refusal; /* NULL: it is read */
        unsigned within;
        bool flat;
    } rows[] = {
        {"required=leaf", NULL, 2, false},
        {"required=8", NULL, 8, false},
        {"none", NULL, 0, true},
        {"preferred", NULL, 0, false},
        {"required=leef", "; required=leaf is meant", 0, false},
        {"preferrd", "; preferred is meant", 0, false},
        {"required=9", "or a number from 1 to 8", 0, false},
        {"required=0", "or a number from 1 to 8", 0, false},
        {"required=", "job-topology of Worker: \"required=\" is none of preferred, none and required=TIER", 0,
         false},
        {"", "is none of preferred", 0, false},
    };
    struct gt_job_sizes sizes;
    for (unsigned i = 0; i < GT_COUNT(rows); i++) {
        gt_auto_err struct gt_err *bad = NULL;
        struct gt_job_texts texts = {
            .where = "Worker", .of[GT_KEY_GROUP] = "32", .of[GT_KEY_JOB_TOPOLOGY] = rows[i].text};
        assert_int_equal(gt_job_sizes_read(&texts, 1, &sizes, &bad), rows[i].refusal ? -EINVAL : 0);
        if (rows[i].refusal) {
            assert_non_null(strstr(gt_err_text(bad), rows[i].refusal));
            continue;
        }
        assert_int_equal(sizes.within, rows[i].within);
        assert_int_equal(sizes.flat, rows[i].flat);
    }
    gt_auto_err struct gt_err *differ = NULL, *word = NULL;
    struct gt_job_texts texts[] = {{.where = "Master", .of[GT_KEY_JOB_TOPOLOGY] = "required=2"},
                                   {.where = "Worker", .of[GT_KEY_JOB_TOPOLOGY] = "required=leaf"}};
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, NULL), 0); /* the same tier */
    texts[1].of[GT_KEY_JOB_TOPOLOGY] = "none";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, &differ), -EINVAL);
    assert_string_equal(gt_err_text(differ),
                        "job-topology differs within the job: required=2 on Master, none on Worker");
    texts[1].of[GT_KEY_JOB_TOPOLOGY] = NULL;
    texts[1].of[GT_KEY_GROUP_TOPOLOGY] = "required=spine";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, NULL), 0);
    assert_int_equal(sizes.unit_within, 3);
    texts[1].of[GT_KEY_GROUP_TOPOLOGY] = "none";
    assert_int_equal(gt_job_sizes_read(texts, 2, &sizes, &word), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manual),     cmocka_unit_test(test_no_group),
        cmocka_unit_test(test_sentences),  cmocka_unit_test(test_mixed_sizes),
        cmocka_unit_test(test_containers), cmocka_unit_test(test_templates),
        cmocka_unit_test(test_node_loss),  cmocka_unit_test(test_on_unplaced),
        cmocka_unit_test(test_topologies), cmocka_unit_test(test_spread_and_subgroup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
