/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/err.h"
#include "tests/unit/sim/sim_test.h"

/* Pods that move for a waiting job. */

static struct gt_result run_jobs(struct gt_sim_job *job, uint32_t count, uint32_t moves_a_day)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_site *site = make_site("2x2x8");
    struct gt_jobs jobs = {job, count, 0};
    const struct gt_group_options options = {.queue = GT_QUEUE_BACKFILL,
                                             .patience = 60,
                                             .reservation = 600,
                                             .restart = 600,
                                             .moves_a_day = moves_a_day,
                                             .check = true};
    static struct gt_result result;
    if (gt_group_run(site, &jobs, &gt_group_gputopo, &options, &result, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    gt_site_free(site);
    return result;
}

/* From 100 on there is a free node in each supernode, and the last job needs two in one. */
static void test_a_pod_moves(void **state)
{
    (void)state;
    struct gt_sim_job job[] = {
        {.duration = 1000, .pods = 1, .unit = 1, .gpus = 8},
        {.duration = 100, .pods = 1, .unit = 1, .gpus = 8},
        {.duration = 1000, .pods = 1, .unit = 1, .gpus = 8},
        {.duration = 100, .pods = 1, .unit = 1, .gpus = 8},
        {.submit = 110, .duration = 50, .pods = 2, .unit = 2, .gpus = 8},
    };
    struct gt_result result = run_jobs(job, 5, 0);
    assert_true(fabs(result.slowdown_supernode - (1000 - 110 + 50) / 50.0) < 1e-9);
    assert_int_equal((int)result.moved, 0);
    result = run_jobs(job, 5, 1);
    assert_true(fabs(result.slowdown_supernode - (60 + 50) / 50.0) < 1e-9); /* it waits for the patience */
    assert_true(fabs(result.slowdown_node - (1.6 + 1 + 1 + 1) / 4) < 1e-9); /* one stood still */
    assert_int_equal((int)result.moved, 1);
    assert_int_equal((int)result.jobs_moved, 1);
    assert_int_equal((int)result.moved_most, 1);
}

/* Each supernode has a free node and one with two pods of half a node: two would have to move. */
static void test_no_more_than_a_day_has(void **state)
{
    (void)state;
    struct gt_sim_job job[7];
    for (uint32_t i = 0; i < GT_COUNT(job); i++)
        job[i] =
            (struct gt_sim_job){.submit = i, .duration = 1000, .pods = 1, .unit = 1, .gpus = i % 3 ? 4 : 8};
    job[0].duration = job[3].duration = 100; /* fills a node of a supernode, then the others the other one */
    job[6] = (struct gt_sim_job){.submit = 110, .duration = 50, .pods = 2, .unit = 2, .gpus = 8};
    struct gt_result none = run_jobs(job, 7, 0), one = run_jobs(job, 7, 1), two = run_jobs(job, 7, 2);
    assert_true(fabs(none.slowdown_supernode - (1002 - 110 + 50) / 50.0) < 1e-9);
    assert_int_equal((int)one.moved, 1); /* when the other one has ended, at 1001 */
    assert_true(fabs(one.slowdown_supernode - (1001 - 110 + 50) / 50.0) < 1e-9);
    assert_int_equal((int)two.moved, 2);
    assert_int_equal((int)two.jobs_moved, 2);
    assert_true(fabs(two.slowdown_supernode - (60 + 50) / 50.0) < 1e-9);
}

/* Nothing is used twice or torn, and each job for which pods move starts (the engine judges); every job ends,
 * and the same seed gives the same. */
static void test_moves_in_churn(void **state)
{
    (void)state;
    struct gt_site *site = make_site("6x6x8");
    gt_auto_trace struct gt_trace *trace = NULL;
    double moved = 0;
    assert_int_equal(gt_trace_from_name("mix:1,4,8,16,48,96", &trace, NULL), 0);
    for (unsigned round = 0; round < 8; round++) {
        struct gt_draw draw = {.load = 0.95, .jobs = 400, .departures = true, .seed = 7 + round, .group = 48};
        gt_auto_jobs struct gt_jobs jobs = {0};
        draw.atom = round % 3 == 2 ? 16 : 0;
        assert_int_equal(gt_trace_draw(trace, site, &draw, &jobs, NULL), 0);
        const struct gt_group_options options = {.queue = round % 2 ? GT_QUEUE_FAIR : GT_QUEUE_BACKFILL,
                                                 .moves_a_day = round % 2 ? 10 : 1000,
                                                 .restart = 300,
                                                 .patience = 60,
                                                 .reservation = 600,
                                                 .mtbf = round % 4 ? 0 : 200000,
                                                 .repair = 20000,
                                                 .seed = round,
                                                 .check = true};
        static struct gt_result first, again;
        gt_auto_err struct gt_err *err = NULL;
        if (gt_group_run(site, &jobs, &gt_group_gputopo, &options, &first, &err) < 0 ||
            gt_group_run(site, &jobs, &gt_group_gputopo, &options, &again, &err) < 0)
            fail_msg("round %u: %s", round, gt_err_text(err));
        assert_memory_equal(&first, &again, sizeof(first));
        assert_int_equal((int)(first.placed + first.rejected), 400);
        assert_true(first.worked <= first.served + 1e-9);
        moved += first.moved;
    }
    assert_true(moved > 50);
    gt_site_free(site);
}

static void test_who_cannot_move(void **state)
{
    (void)state;
    struct gt_site *site = make_site("2x2x8");
    struct gt_jobs jobs = {0};
    static struct gt_result result;
    gt_auto_err struct gt_err *err = NULL;
    const struct gt_group_options options = {.queue = GT_QUEUE_BACKFILL, .moves_a_day = 1};
    assert_int_equal(gt_group_run(site, &jobs, &gt_group_gpu_aware, &options, &result, &err), -EINVAL);
    gt_site_free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pod_moves),
        cmocka_unit_test(test_no_more_than_a_day_has),
        cmocka_unit_test(test_moves_in_churn),
        cmocka_unit_test(test_who_cannot_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
