/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/err.h"
#include "tests/unit/sim/sim_test.h"

/* Jobs that have some of their places: nodes that fail, units that move, minima and quotas. */

static struct gt_result run_jobs(const struct gt_site *site, struct gt_sim_job *job, uint32_t count,
                                 const struct gt_group_options *options)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_jobs jobs = {job, count, 2};
    struct gt_group_options checked = *options;
    static struct gt_result result;
    checked.check = true;
    checked.queue = GT_QUEUE_FAIR;
    checked.patience = (double)INFINITY;
    if (gt_group_run(site, &jobs, &gt_group_gputopo, &checked, &result, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return result;
}

/* One unit of the two nodes of a supernode. Node 0 fails at 20; its pod comes again after 10, and the job
 * gets on 5 later. */
static void test_a_node_fails(void **state)
{
    (void)state;
    struct gt_site *site = make_site("2x2x8");
    struct gt_sim_job job[] = {{.duration = 100, .pods = 2, .unit = 2, .gpus = 8}};
    struct gt_sim_outage outage = {.from = 20, .until = 60};
    struct gt_group_options options = {
        .node_loss = GT_SIM_LOSS_WAIT, .lost_after = 10, .restart = 5, .outages = &outage, .outage_count = 1};
    struct gt_result result = run_jobs(site, job, 1, &options);
    assert_true(fabs(result.slowdown_supernode - 1.45) < 1e-9); /* from 65 on */
    assert_true(result.interrupted == 1 && result.moved == 0);
    options.node_loss = GT_SIM_LOSS_UNIT;
    result = run_jobs(site, job, 1, &options);
    assert_true(fabs(result.slowdown_supernode - 1.15) < 1e-9); /* from 35 on, in the other supernode */
    assert_int_equal((int)result.moved, 1);
    outage.until = 25; /* before its pod comes again */
    result = run_jobs(site, job, 1, &options);
    assert_true(fabs(result.slowdown_supernode - 1.05) < 1e-9);
    assert_int_equal((int)result.moved, 0);
    options.node_loss = GT_SIM_LOSS_RESTART;
    result = run_jobs(site, job, 1, &options);
    assert_true(fabs(result.slowdown_supernode - 1) < 1e-9); /* the other supernode is free */
    gt_site_free(site);
}

/* The spare of three nodes is left by another job, and taken in place of the node that fails. */
static void test_spares(void **state)
{
    (void)state;
    struct gt_site *site = make_site("1x3x8");
    struct gt_sim_job job[] = {
        {.duration = 100, .pods = 2, .unit = 2, .gpus = 8},
        {.submit = 1, .duration = 50, .pods = 1, .unit = 1, .gpus = 8},
        {.submit = 2, .duration = 50, .pods = 3, .unit = 3, .gpus = 8}, /* can never start */
    };
    const struct gt_sim_outage outage = {.from = 20, .until = 1000};
    struct gt_group_options options = {
        .node_loss = GT_SIM_LOSS_WAIT, .lost_after = 10, .spares = 1, .outages = &outage, .outage_count = 1};
    struct gt_result result = run_jobs(site, job, 3, &options);
    assert_int_equal((int)result.rejected, 1);
    assert_true(fabs(result.slowdown_supernode - 1.1) < 1e-9); /* from 30 on */
    assert_true(fabs(result.slowdown_node - (110 - 1 + 50) / 50.0) < 1e-9);
    options.spares = 0;
    result = run_jobs(site, job, 2, &options);
    assert_true(fabs(result.slowdown_node - 1) < 1e-9);
    assert_true(fabs(result.slowdown_supernode - (51 + 80) / 100.0) < 1e-9); /* from 51 on */
    gt_site_free(site);
}

/* One of two units has room until 50. */
static void test_minimum_and_growth(void **state)
{
    (void)state;
    struct gt_site *site = make_site("2x2x8");
    struct gt_sim_job job[] = {
        {.duration = 50, .pods = 2, .unit = 2, .gpus = 8},
        {.submit = 1, .duration = 100, .pods = 4, .unit = 2, .gpus = 8},
    };
    struct gt_group_options options = {.minimum = 0.5, .restart = 5};
    struct gt_result result = run_jobs(site, job, 2, &options);
    /* half of it for 49 s, then all from 55 on */
    assert_true(fabs(result.slowdown_larger - (55 + 75.5 - 1) / 100) < 1e-9);
    assert_true(result.wait_p99 < 1e-9);
    options.minimum = 0.6; /* both units */
    result = run_jobs(site, job, 2, &options);
    assert_true(fabs(result.slowdown_larger - 1.49) < 1e-9);
    /* a unit that is lost leaves the other running */
    const struct gt_sim_outage outage = {.from = 41, .until = 60};
    options = (struct gt_group_options){.minimum = 0.5,
                                        .node_loss = GT_SIM_LOSS_WAIT,
                                        .lost_after = 1,
                                        .outages = &outage,
                                        .outage_count = 1};
    result = run_jobs(site, &job[1], 1, &options);
    assert_true(fabs(result.slowdown_larger - (60 + 50.5 - 1) / 100) <
                1e-9); /* 40, 9.5, and 50.5 from 60 on */
    gt_site_free(site);
}

static void test_quota(void **state)
{
    (void)state;
    struct gt_site *site = make_site("2x2x8");
    struct gt_sim_job job[5];
    for (uint32_t i = 0; i < GT_COUNT(job); i++)
        job[i] = (struct gt_sim_job){.submit = i, .duration = 10, .pods = 1, .unit = 1, .gpus = 8};
    job[3].tenant = 1;
    job[4].pods = job[4].unit = 3; /* more than the quota */
    struct gt_group_options options = {.quota = 0.5};
    struct gt_result result = run_jobs(site, job, 5, &options);
    assert_int_equal((int)result.rejected, 1);
    assert_true(fabs(result.wait_p99 - 8) < 1e-9); /* the third, until the first ends */
    assert_true(fabs(result.wait_mean - 2) < 1e-9);
    gt_site_free(site);
}

/* With all of it at once: nothing is used twice or torn (the engine judges), every job ends, the same seed
 * gives the same, and no more is worked than held. */
static void test_churn(void **state)
{
    (void)state;
    struct gt_site *site = make_site("6x6x8");
    gt_auto_trace struct gt_trace *trace = NULL;
    assert_int_equal(gt_trace_from_name("mix:4,8,16,32,64,96", &trace, NULL), 0);
    for (unsigned round = 0; round < 12; round++) {
        struct gt_draw draw = {.load = 0.9, .jobs = 600, .departures = true, .seed = 7 + round, .group = 32};
        gt_auto_jobs struct gt_jobs jobs = {0};
        draw.atom = round % 3 == 2 ? 16 : 0;
        assert_int_equal(gt_trace_draw(trace, site, &draw, &jobs, NULL), 0);
        const struct gt_group_options options = {.queue = round % 2 ? GT_QUEUE_FAIR : GT_QUEUE_BACKFILL,
                                                 .node_loss = round % 2 ? GT_SIM_LOSS_UNIT : GT_SIM_LOSS_WAIT,
                                                 .lost_after = 60,
                                                 .restart = 300,
                                                 .spares = round % 4 / 2,
                                                 .minimum = round % 5 ? 0.5 : 1,
                                                 .patience = 60,
                                                 .reservation = 600,
                                                 .mtbf = 200000,
                                                 .repair = 20000,
                                                 .seed = round,
                                                 .check = true};
        static struct gt_result first, again;
        gt_auto_err struct gt_err *err = NULL;
        if (gt_group_run(site, &jobs, &gt_group_gputopo, &options, &first, &err) < 0 ||
            gt_group_run(site, &jobs, &gt_group_gputopo, &options, &again, &err) < 0)
            fail_msg("round %u: %s", round, gt_err_text(err));
        assert_memory_equal(&first, &again, sizeof(first));
        assert_int_equal((int)(first.placed + first.rejected), 600);
        assert_true(first.interrupted > 0 && first.worked > 0.2 && first.worked <= first.served + 1e-9);
    }
    gt_site_free(site);
}

static void test_needs_a_policy_that_can(void **state)
{
    (void)state;
    struct gt_site *site = make_site("2x2x8");
    struct gt_sim_job job = {.duration = 1, .pods = 1, .unit = 1, .gpus = 8};
    const struct gt_jobs jobs = {&job, 1, 1};
    const struct gt_group_options options = {.queue = GT_QUEUE_BACKFILL, .spares = 1};
    gt_auto_err struct gt_err *err = NULL;
    struct gt_result result;
    assert_true(gt_group_run(site, &jobs, &gt_group_gpu_aware, &options, &result, &err) < 0);
    assert_string_equal(gt_err_text(err), "policy gpu-aware places whole jobs only");
    gt_site_free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_fails),
        cmocka_unit_test(test_spares),
        cmocka_unit_test(test_minimum_and_growth),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_churn),
        cmocka_unit_test(test_needs_a_policy_that_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
