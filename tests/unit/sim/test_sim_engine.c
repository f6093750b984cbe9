/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "base/err.h"
#include "tests/bench/sim/peers.h"
#include "tests/unit/sim/sim_test.h"

static struct gt_trace *make_trace(const char *name)
{
    struct gt_trace *trace = NULL;
    assert_int_equal(gt_trace_from_name(name, &trace, NULL), 0);
    return trace;
}

static void run_policy(const struct gt_site *site, const struct gt_jobs *jobs,
                       const struct gt_group_policy *policy, const struct gt_group_options *options,
                       struct gt_result *ret)
{
    gt_auto_err struct gt_err *err = NULL;
    if (gt_group_run(site, jobs, policy, options, ret, &err) < 0)
        fail_msg("%s", gt_err_text(err));
}

/* Three jobs by hand on 2 supernodes of 2 nodes of 1 GPU. */
static void test_by_hand(void **state)
{
    (void)state;
    struct gt_site *site = make_site("2x2x1");
    struct gt_sim_job job[] = {
        {.submit = 0, .duration = 10, .pods = 2, .unit = 2, .gpus = 1},
        {.submit = 1, .duration = 8, .pods = 1, .unit = 1, .gpus = 1},
        {.submit = 2, .duration = 4, .pods = 2, .unit = 2, .gpus = 1},  /* no supernode has 2 */
        {.submit = 10, .duration = 5, .pods = 4, .unit = 2, .gpus = 1}, /* all are free again */
    };
    struct gt_jobs jobs = {job, GT_COUNT(job), 1};
    struct gt_group_options options = {.check = true, .seed = 1};
    struct gt_result result;
    run_policy(site, &jobs, &gt_group_best_fit, &options, &result);
    assert_int_equal((int)result.placed, 3);
    assert_int_equal((int)result.rejected, 1);
    /* up to the last submission at 10: 2 GPUs for 10 s, 1 for 8 s, of 4 for 10 s */
    assert_true(fabs(result.occupancy - 28.0 / 40) < 1e-9);
    assert_true(fabs(result.acceptance - (20.0 + 8 + 20) / (20 + 8 + 8 + 20)) < 1e-9);
    assert_true(result.spread_mean == 1 && result.split_share == 0);

    options.queue = GT_QUEUE_FIFO; /* the third starts when the second leaves, at 9; the fourth still waits */
    run_policy(site, &jobs, &gt_group_best_fit, &options, &result);
    assert_int_equal((int)result.placed, 4); /* at 13 */
    assert_int_equal((int)result.rejected, 0);
    assert_true(fabs(result.wait_p99 - 7) < 1e-9);
    assert_true(fabs(result.wait_mean - (7 + 3) / 4.0) < 1e-9);
    assert_true(fabs(result.wait_gpu_mean - (7 * 2 + 3 * 4) / 9.0) < 1e-9);
    /* 10 s count at least; then (13 + 5 - 10) / 10, which counts as 1; the third took 11 */
    assert_true(fabs(result.slowdown_node - 1) < 1e-9);
    assert_true(fabs(result.slowdown_supernode - (1 + 1.1) / 2) < 1e-9);
    assert_true(fabs(result.slowdown_larger - 1) < 1e-9);
    assert_true(fabs(result.served - (20 + 8 + 2.0) / 40) < 1e-9); /* up to 10 */
    gt_site_free(site);
}

/* Behind a thousand jobs of one namespace a job of another comes. In the order of age, the peers', it waits
 * for all of them; with turns for the first GPU that becomes free. */
static void test_turns(void **state)
{
    (void)state;
    enum { MANY = 1000, NODES = 8, EACH_S = 3600 };
    struct gt_site *site = make_site("2x4x8");
    struct gt_sim_job job[NODES + MANY + 2];
    for (uint32_t i = 0; i < GT_COUNT(job); i++) /* the first ones fill the cluster, and end one by one */
        job[i] = (struct gt_sim_job){.submit = i < NODES ? i * (EACH_S / NODES) : EACH_S - 2,
                                     .duration = EACH_S,
                                     .pods = 1,
                                     .unit = 1,
                                     .gpus = 8};
    job[NODES + MANY].submit = EACH_S - 1;
    job[NODES + MANY].tenant = 1;
    job[NODES + MANY + 1].submit = 2.0 * EACH_S * MANY / NODES; /* until then there is time for all */
    struct gt_jobs jobs = {job, GT_COUNT(job), 2};
    struct gt_group_options options = {
        .queue = GT_QUEUE_BACKFILL, .check = true, .patience = (double)INFINITY};
    static struct gt_result age, turns;
    run_policy(site, &jobs, &gt_group_gputopo, &options, &age);
    options.queue = GT_QUEUE_FAIR;
    run_policy(site, &jobs, &gt_group_gputopo, &options, &turns);
    assert_true(age.placed == GT_COUNT(job) && turns.placed == GT_COUNT(job));
    assert_true(fabs(age.wait_first_p99 - ((double)EACH_S * MANY / NODES + 1)) < 1e-6);
    assert_true(fabs(turns.wait_first_p99 - 1) < 1e-6);
    gt_site_free(site);
}

/* A job of the whole cluster among many of one node: without nodes that are reserved it waits for all of
 * them, with them until those on the nodes end that it needs. */
static void test_the_holder_is_served(void **state)
{
    (void)state;
    enum { NODES = 4, MANY = 400, RUN_S = 100 };
    struct gt_site *site = make_site("2x2x8");
    struct gt_sim_job job[MANY];
    for (uint32_t i = 0; i < MANY; i++)
        job[i] = (struct gt_sim_job){
            .submit = i * (RUN_S / NODES) * 0.9, .duration = RUN_S, .pods = 1, .unit = 1, .gpus = 8};
    job[20].pods = job[20].unit = 2;
    struct gt_jobs jobs = {job, MANY, 1};
    struct gt_group_options options = {
        .queue = GT_QUEUE_BACKFILL, .check = true, .patience = 60, .reservation = 600};
    static struct gt_result kept, free_for_all;
    for (size_t p = 0; peer_policies[p]; p++) {
        if (!peer_policies[p]->keeps_groups)
            continue;
        options.patience = 60;
        run_policy(site, &jobs, peer_policies[p], &options, &kept);
        options.patience = (double)INFINITY;
        run_policy(site, &jobs, peer_policies[p], &options, &free_for_all);
        if (!(kept.slowdown_supernode < 5 && free_for_all.slowdown_supernode > 20))
            fail_msg("%s: slowdown %g with nodes kept, %g without", peer_policies[p]->name,
                     kept.slowdown_supernode, free_for_all.slowdown_supernode);
    }
    gt_site_free(site);
}

/* Jobs of several pods, and the fewest supernodes that hold each. The last two take what is left here and
 * there, and lie in two where one would do. */
static void test_supernodes_of_jobs(void **state)
{
    (void)state;
    struct gt_site *site = make_site("2x2x1+1x4x1");
    struct gt_sim_job job[] = {{.submit = 1, .duration = 90, .pods = 1, .unit = 1, .gpus = 1},
                               {.submit = 2, .duration = 90, .pods = 3, .unit = 3, .gpus = 1},
                               {.submit = 3, .duration = 90, .pods = 2, .unit = 1, .gpus = 1},
                               {.submit = 4, .duration = 90, .pods = 2, .unit = 1, .gpus = 1}};
    struct gt_jobs jobs = {job, 4, 1};
    struct gt_group_options options = {.check = true};
    struct gt_result result;
    run_policy(site, &jobs, &gt_group_first_fit, &options, &result);
    assert_int_equal((int)result.placed, 4);
    assert_float_equal(result.jobs_in_one, 1.0 / 3, 1e-9);
    assert_float_equal(result.job_supernodes, 5.0 / 3, 1e-9);
    assert_float_equal(result.job_supernodes_bound, 1, 1e-9);
    gt_site_free(site);
}

/* The second job needs two supernodes, of which each leaf has two. */
static void test_leaves_of_jobs(void **state)
{
    (void)state;
    struct gt_site *site = make_site("4x1x1");
    struct gt_sim_job job[] = {{.submit = 1, .duration = 90, .pods = 1, .unit = 1, .gpus = 1},
                               {.submit = 2, .duration = 90, .pods = 2, .unit = 1, .gpus = 1}};
    struct gt_jobs jobs = {job, 2, 1};
    struct gt_group_options options = {.check = true};
    struct gt_result apart, close;
    assert_int_equal(gt_site_group(site, 0, 2, NULL), 0);
    run_policy(site, &jobs, &gt_group_first_fit, &options, &apart);
    assert_true(apart.jobs_in_one == 0 && apart.job_supernodes == 2 && apart.job_supernodes_bound == 2);
    assert_true(apart.jobs_in_one_leaf == 0 && apart.job_leaves == 2 && apart.job_leaves_bound == 1);
    run_policy(site, &jobs, &gt_group_kueue_preferred, &options, &close);
    assert_true(close.jobs_in_one_leaf == 1 && close.job_leaves == 1 && close.job_leaves_bound == 1);
    run_policy(site, &jobs, &gt_group_volcano, &options, &close);
    assert_true(close.placed == 2 && close.job_leaves_bound == 1);
    gt_site_free(site);
}

static void test_torn_groups_are_counted(void **state)
{
    (void)state;
    struct gt_site *site = make_site("3x1x1");
    struct gt_sim_job job = {.submit = 1, .duration = 10, .pods = 3, .unit = 3, .gpus = 1};
    struct gt_jobs jobs = {&job, 1, 1};
    struct gt_group_options options = {.check = true};
    struct gt_result result;
    run_policy(site, &jobs, &gt_group_most_allocated, &options, &result);
    assert_true(result.split_share == 1 && result.spread_mean == 3);
    run_policy(site, &jobs, &gt_group_gputopo, &options, &result);
    assert_int_equal((int)result.rejected, 1);
    job.atom = 1; /* soft: only the atoms must stay whole */
    run_policy(site, &jobs, &gt_group_gputopo, &options, &result);
    assert_true(result.placed == 1 && result.spread_mean == 3);
    run_policy(site, &jobs, &gt_group_kueue, &options, &result);
    assert_true(result.placed == 1 && result.spread_mean == 3);
    gt_site_free(site);
}

/* Every policy under churn, failures and each queue: no GPU twice, counts right (the engine judges), all
 * jobs accounted for, and the same again for the same seed. */
static void test_conservation_and_determinism(void **state)
{
    (void)state;
    struct gt_site *site = make_site("5x6x8");
    static const char *const traces[] = {"seren", "kalos", "mix:1,2,4,8,16,32"};
    for (size_t t = 0; t < GT_COUNT(traces); t++) {
        struct gt_trace *trace = make_trace(traces[t]);
        struct gt_draw draw = {
            .load = 1.2, .jobs = 1500, .departures = true, .seed = 42 + t, .atom = t == 2 ? 8 : 0};
        gt_auto_jobs struct gt_jobs jobs = {0};
        assert_int_equal(gt_trace_draw(trace, site, &draw, &jobs, NULL), 0);
        for (size_t p = 0; peer_policies[p]; p++)
            for (unsigned queue = 0; queue < 4; queue++) {
                struct gt_group_options options = {.queue = (enum gt_queue_policy)queue,
                                                   .warm_up = 0.2,
                                                   .patience = 60,
                                                   .reservation = 600,
                                                   .mtbf = queue ? 0 : 400000,
                                                   .repair = 40000,
                                                   .seed = 9,
                                                   .check = true};
                static struct gt_result first, again;
                run_policy(site, &jobs, peer_policies[p], &options, &first);
                run_policy(site, &jobs, peer_policies[p], &options, &again);
                assert_memory_equal(&first, &again, sizeof(first));
                if (!(first.occupancy > 0 && first.occupancy <= 1))
                    fail_msg("%s, %s, queue %u: occupancy %g", traces[t], peer_policies[p]->name, queue,
                             first.occupancy);
                assert_true(first.acceptance > 0 && first.acceptance <= 1);
                assert_int_equal((int)first.jobs, 1500);
                if (queue)
                    assert_int_equal((int)(first.placed + first.rejected), 1500);
                if (peer_policies[p]->keeps_groups && !draw.atom)
                    assert_true(first.split_share == 0);
            }
        gt_trace_free(trace);
    }
    gt_site_free(site);
}

/* Without departures and with sizes that divide, min-loss places whatever can be placed: it never accepts
 * less than a peer that keeps groups. */
static void test_static_is_never_below(void **state)
{
    (void)state;
    struct gt_site *site = make_site("8x9x1");
    struct gt_trace *trace = make_trace("mix:1,2,4");
    for (uint64_t seed = 1; seed <= 40; seed++) {
        /* Everything is placeable by the criterion as long as the sum is small; compare with the peers. */
        struct gt_draw draw = {.load = 0.85, .jobs = 1000, .seed = seed};
        gt_auto_jobs struct gt_jobs jobs = {0};
        assert_int_equal(gt_trace_draw(trace, site, &draw, &jobs, NULL), 0);
        struct gt_group_options options = {.seed = seed, .check = true};
        static struct gt_result ours, peer;
        run_policy(site, &jobs, &gt_group_gputopo, &options, &ours);
        for (size_t p = 0; peer_policies[p]; p++) {
            run_policy(site, &jobs, peer_policies[p], &options, &peer);
            if (peer_policies[p]->keeps_groups && peer.rejected == 0 && ours.rejected > 0)
                fail_msg("seed %d: %s placed all, gputopo not", (int)seed, peer_policies[p]->name);
        }
    }
    gt_trace_free(trace);
    gt_site_free(site);
}

static void test_draw(void **state)
{
    (void)state;
    struct gt_site *site = make_site("10x32x8");
    static const char *const names[] = {"seren", "kalos", "philly", "helios"};
    static const double mean_gpus[] = {5.68, 26.77, 1.93, 3.72}; /* published; classes round sizes up */
    for (size_t i = 0; i < GT_COUNT(names); i++) {
        struct gt_trace *trace = make_trace(names[i]);
        struct gt_draw draw = {.load = 1, .jobs = 50000, .departures = true, .seed = 5};
        gt_auto_jobs struct gt_jobs jobs = {0};
        assert_int_equal(gt_trace_draw(trace, site, &draw, &jobs, NULL), 0);
        double gpus = 0, asked = 0, last = 0;
        for (uint32_t j = 0; j < jobs.count; j++) {
            const struct gt_sim_job *job = &jobs.job[j];
            assert_true(job->submit >= last && job->pods % job->unit == 0 && job->gpus <= 8);
            assert_true(job->unit * job->gpus <= 256);
            last = job->submit;
            gpus += (double)job->pods * job->gpus / jobs.count;
            asked += (double)job->pods * job->gpus * job->duration;
        }
        assert_true(gpus > mean_gpus[i] * 0.8 && gpus < mean_gpus[i] * 1.4);
        double load = asked / last / site->gpus;
        assert_true(load > 0.7 && load < 1.3);
        gt_trace_free(trace);
    }
    gt_site_free(site);
}

/* The file's jobs by time, at the load; another seed begins elsewhere. */
static void test_replay(void **state)
{
    (void)state;
    gt_auto_free char *text =
        copy_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 10:00:30,50,2,1,a\n"
                  "2017-10-09 10:00:00,100,1,1,a\n2017-10-09 10:01:00,50,4,1,b\n");
    gt_auto_trace struct gt_trace *trace = NULL;
    struct gt_site *site = make_site("1x2x4");
    assert_int_equal(gt_trace_from_text("t", text, strlen(text), &trace, NULL), 0);
    struct gt_draw draw = {.load = 0.5, .jobs = 100, .departures = true, .replay = true};
    gt_auto_jobs struct gt_jobs jobs = {0};
    assert_int_equal(gt_trace_draw(trace, site, &draw, &jobs, NULL), 0);
    assert_int_equal(jobs.count, 3);
    assert_true(jobs.job[0].gpus == 1 && jobs.job[1].gpus == 2 && jobs.job[2].gpus == 4);
    /* 400 GPU seconds at a load of 4 GPUs */
    assert_true(jobs.job[0].submit == 0 && fabs(jobs.job[1].submit - 50) < 1e-9 &&
                fabs(jobs.job[2].submit - 100) < 1e-9);
    unsigned seen = 0;
    draw.jobs = 1;
    for (draw.seed = 1; draw.seed < 40; draw.seed++) {
        gt_auto_jobs struct gt_jobs one = {0};
        assert_int_equal(gt_trace_draw(trace, site, &draw, &one, NULL), 0);
        seen |= one.job[0].gpus;
    }
    assert_int_equal(seen, 7);
    trace->rows[1].submitted = 0;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_jobs none = {0};
    assert_int_equal(gt_trace_draw(trace, site, &draw, &none, &err), -EINVAL);
    gt_site_free(site);
}

static void test_rng(void **state)
{
    (void)state;
    struct gt_rng rng;
    uint32_t seen[6] = {0};
    double sum = 0;
    gt_rng_seed(&rng, 0);
    /* splitmix64 of 0 is published: the first state word */
    assert_true(rng.state[0] == UINT64_C(0xe220a8397b1dcdaf));
    for (unsigned i = 0; i < 60000; i++) {
        seen[gt_rng_below(&rng, 6)]++;
        sum += gt_rng_exponential(&rng, 3) / 60000;
    }
    for (unsigned i = 0; i < 6; i++)
        assert_in_range(seen[i], 9500, 10500);
    assert_true(sum > 2.9 && sum < 3.1);
    assert_int_equal(gt_rng_below(&rng, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_the_holder_is_served),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_supernodes_of_jobs),
        cmocka_unit_test(test_leaves_of_jobs),
        cmocka_unit_test(test_torn_groups_are_counted),
        cmocka_unit_test(test_conservation_and_determinism),
        cmocka_unit_test(test_static_is_never_below),
        cmocka_unit_test(test_draw),
        cmocka_unit_test(test_rng),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
