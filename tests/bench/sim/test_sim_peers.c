/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"
#include "tests/unit/sim/sim_test.h"

/*
 * Every policy on small clusters whose answer is worked out by hand. Nodes have one GPU, so that a slot is a
 * GPU and a supernode is just a number of free slots.
 */
enum { SUPERS = 4, NODES = 12 };

struct bench {
    struct gt_site *site;
    struct gt_world *world;
    const struct gt_group_policy *policy;
    void *state;
    struct gt_group_setup setup;
};

static void open_bench(struct bench *bench, const char *policy, const unsigned free[SUPERS],
                       const uint32_t *sizes, unsigned size_count)
{
    char shape[32];
    snprintf(shape, sizeof(shape), "%dx%dx1", SUPERS, NODES);
    *bench = (struct bench){.site = make_site(shape), .policy = peer_policy(policy)};
    struct gt_chain_sizes chain = {.count = size_count};
    memcpy(chain.size, sizes, size_count * sizeof(*sizes));
    bench->setup = (struct gt_group_setup){.pods_max = 64, .seed = 7, .chain = size_count ? &chain : NULL};
    assert_int_equal(gt_world_new(bench->site, &bench->world, NULL), 0);
    assert_int_equal(gt_world_track(bench->world, 1, NULL), 0);
    if (bench->policy->open)
        assert_int_equal(bench->policy->open(bench->world, &bench->setup, &bench->state, NULL), 0);
    for (uint32_t s = 0; s < SUPERS; s++)
        for (uint32_t n = free[s]; n < NODES; n++) {
            gt_world_take(bench->world, s * NODES + n, 1);
            if (bench->policy->changed)
                bench->policy->changed(bench->state, bench->world, s * NODES + n);
        }
}

static void close_bench(struct bench *bench)
{
    assert_true(gt_world_check(bench->world));
    if (bench->policy->close)
        bench->policy->close(bench->state);
    gt_world_free(bench->world);
    gt_site_free(bench->site);
}

/* Places a job of `units` units of `unit` pods; the supernode of each unit in ret_supers. */
static bool put(struct bench *bench, uint32_t units, uint32_t unit, uint32_t *ret_supers)
{
    struct gt_place places[64];
    struct gt_sim_job job = {.duration = 1, .pods = units * unit, .unit = unit, .gpus = 1};
    uint32_t before = bench->world->free_gpus;
    if (!bench->policy->place(bench->state, bench->world, &job, places)) {
        assert_int_equal(bench->world->free_gpus, before);
        return false;
    }
    assert_int_equal(bench->world->free_gpus, before - job.pods);
    for (uint32_t u = 0; u < units; u++)
        ret_supers[u] = bench->site->nodes[places[u * unit].node].super;
    return true;
}

/* Where one unit of `unit` goes; GT_NONE: nowhere. */
static uint32_t goes_to(const char *policy, const unsigned free[SUPERS], const uint32_t *sizes,
                        unsigned count, uint32_t unit)
{
    struct bench bench;
    uint32_t super = GT_NONE;
    open_bench(&bench, policy, free, sizes, count);
    put(&bench, 1, unit, &super);
    close_bench(&bench);
    return super;
}

static const uint32_t chain14[] = {1, 4}, chain124[] = {1, 2, 4};

/* Sizes 1 and 4, free 4 and 5: best fit spoils the 4, min-loss takes from the 5 and leaves room for two. */
static void test_one_and_four(void **state)
{
    (void)state;
    static const unsigned free[SUPERS] = {4, 5, 0, 0};
    assert_int_equal(goes_to("gputopo", free, chain14, 2, 1), 1);
    assert_int_equal(goes_to("gputopo-static", free, chain14, 2, 1), 1);
    assert_int_equal(goes_to("best-fit", free, chain14, 2, 1), 0);
    assert_int_equal(goes_to("kueue", free, chain14, 2, 1), 0);
    assert_int_equal(goes_to("slurm-block", free, chain14, 2, 1), 0);
    assert_int_equal(goes_to("huawei", free, chain14, 2, 1), 0);
    assert_int_equal(goes_to("volcano", free, chain14, 2, 1), 0);
    assert_int_equal(goes_to("first-fit", free, chain14, 2, 1), 0);
    assert_int_equal(goes_to("worst-fit", free, chain14, 2, 1), 1);

    struct bench bench;
    uint32_t supers[2];
    open_bench(&bench, "gputopo", free, chain14, 2);
    assert_true(put(&bench, 1, 1, supers));
    assert_true(put(&bench, 2, 4, supers));
    close_bench(&bench);
    open_bench(&bench, "best-fit", free, chain14, 2);
    assert_true(put(&bench, 1, 1, supers));
    assert_false(put(&bench, 2, 4, supers));
    close_bench(&bench);
}

/* Sizes 1, 2, 4, free 4 and 6: for a 2 the own remainders are equal; only the 6 keeps both places for 4. */
static void test_two_of_four_and_six(void **state)
{
    (void)state;
    static const unsigned free[SUPERS] = {4, 6, 0, 0};
    assert_int_equal(goes_to("gputopo", free, chain124, 3, 2), 1);
    assert_int_equal(goes_to("huawei", free, chain124, 3, 2), 0);
    assert_int_equal(goes_to("best-fit", free, chain124, 3, 2), 0);
}

static void test_ties(void **state)
{
    (void)state;
    static const unsigned free[SUPERS] = {0, 6, 6, 6};
    assert_int_equal(goes_to("first-fit", free, chain124, 3, 2), 1);
    assert_int_equal(goes_to("best-fit", free, chain124, 3, 2), 1);
    assert_int_equal(goes_to("worst-fit", free, chain124, 3, 2), 1);
    assert_int_equal(goes_to("kueue", free, chain124, 3, 2), 1);
    assert_int_equal(goes_to("slurm-block", free, chain124, 3, 2), 3); /* the later block */
    assert_int_equal(goes_to("gputopo", free, chain124, 3, 2), 1);
}

/* A job of one pod goes where kube-scheduler packs it, or to the first node with room; a group goes its way.
 */
static void test_pairs(void **state)
{
    (void)state;
    static const char *const names[] = {"kueue+most",   "kueue+first",  "huawei+most",
                                        "huawei+first", "volcano+most", "volcano+first"};
    const struct gt_sim_job pod = {.duration = 1, .pods = 1, .unit = 1, .gpus = 1};
    const struct gt_sim_job group = {.duration = 1, .pods = 2, .unit = 2, .gpus = 2};
    struct gt_site *site = make_site("2x2x4");
    for (size_t p = 0; p < GT_COUNT(names); p++) {
        const struct gt_group_policy *policy = peer_policy(names[p]);
        struct gt_group_setup setup = {.pods_max = 2, .seed = 7};
        gt_auto_world struct gt_world *world = NULL;
        struct gt_place places[2];
        void *own;
        assert_int_equal(gt_world_new(site, &world, NULL), 0);
        assert_int_equal(gt_world_track(world, 1, NULL), 0);
        assert_int_equal(gt_world_track(world, 2, NULL), 0);
        assert_int_equal(policy->open(world, &setup, &own, NULL), 0);
        gt_world_take(world, 1, 3);
        gt_world_take(world, 2, 7);
        assert_true(policy->place(own, world, &group, places));
        assert_int_equal(places[0].node, 3); /* the supernode with room for 2 of its pods, not 3 */
        assert_true(policy->place(own, world, &pod, places));
        assert_int_equal(places[0].node, p % 2 ? 0 : 2);
        policy->close(own);
    }
    gt_site_free(site);
}

/* Three units of 2: Kueue takes the one supernode that holds exactly them, Huawei the small cells of row 0.
 */
static void test_jobs_of_units(void **state)
{
    (void)state;
    static const unsigned free[SUPERS] = {9, 2, 6, 5};
    struct bench bench;
    uint32_t supers[3];
    open_bench(&bench, "kueue", free, chain124, 3);
    assert_true(put(&bench, 3, 2, supers));
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(supers[i], 2);
    close_bench(&bench);

    open_bench(&bench, "huawei", free, chain124,
               3); /* row 0: column 1 is the 2, then column 2 (4 left) ... */
    assert_true(put(&bench, 3, 2, supers));
    assert_int_equal(supers[0], 1); /* remainder 0, one block */
    assert_int_equal(supers[1], 3); /* remainder 1, two blocks: the column of the blocks still needed */
    assert_int_equal(supers[2], 3);
    close_bench(&bench);

    open_bench(&bench, "slurm-block", free, chain124, 3); /* segment by segment, best fit */
    assert_true(put(&bench, 3, 2, supers));
    assert_int_equal(supers[0], 1);
    assert_int_equal(supers[1], 3);
    assert_int_equal(supers[2], 3);
    close_bench(&bench);

    open_bench(&bench, "volcano", free, chain124, 3); /* the fullest that holds the job */
    assert_true(put(&bench, 3, 2, supers));
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(supers[i], 2);
    close_bench(&bench);
}

/* Four units of 2 in leaves of two supernodes: KAI takes the leaf where they are the largest part of the free
 * GPUs, although it counts pods: 3 + 5 hold three units, and the next leaf is tried. */
static void test_leaves_of_kai(void **state)
{
    (void)state;
    static const unsigned free[SUPERS] = {9, 2, 3, 5};
    struct bench bench;
    uint32_t supers[4];
    open_bench(&bench, "kai", free, chain124, 3);
    assert_int_equal(gt_site_group(bench.site, 0, 2, NULL), 0);
    assert_true(put(&bench, 1, 2, supers)); /* the supernode with the least room */
    assert_int_equal(supers[0], 1);
    close_bench(&bench);
    open_bench(&bench, "kai", (const unsigned[SUPERS]){7, 2, 3, 5}, chain124, 3);
    assert_int_equal(gt_site_group(bench.site, 0, 2, NULL), 0);
    assert_true(put(&bench, 4, 2, supers));
    assert_int_equal(supers[0], 1); /* unit by unit, the least room first */
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(supers[i], 0);
    close_bench(&bench);
}

/* Room that no larger unit can use goes first: of 12 slots 12 mod 8 = 4 are such for the size 8. */
static void test_churn_fills_the_remainder(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 8};
    static const unsigned free[SUPERS] = {8, 12, 10, 0};
    struct bench bench;
    uint32_t supers[3];
    open_bench(&bench, "gputopo", free, sizes, 2);
    assert_true(put(&bench, 3, 2, supers));
    assert_int_equal(supers[0], 1); /* 12 free: two units stay within the remainder */
    assert_int_equal(supers[1], 1);
    assert_int_equal(supers[2], 2);
    uint32_t large[3];
    assert_true(put(&bench, 3, 8, large)); /* and all places for 8 are left */
    close_bench(&bench);
}

/* Nothing is kept of a job that does not fit, and no unit is torn. */
static void test_all_or_nothing(void **state)
{
    (void)state;
    static const unsigned free[SUPERS] = {5, 5, 5, 3};
    for (size_t i = 0; peer_policies[i]; i++) {
        struct bench bench;
        uint32_t supers[4];
        open_bench(&bench, peer_policies[i]->name, free, chain14, 2);
        bool placed = put(&bench, 4, 4, supers);
        assert_int_equal(placed, !peer_policies[i]->keeps_groups);
        close_bench(&bench);
    }
}

/* kube-scheduler's two scores on nodes of 8 GPUs. */
static void test_allocated(void **state)
{
    (void)state;
    struct gt_site *site = make_site("1x3x8");
    const struct {
        const char *name;
        uint32_t node;
    } cases[] = {{"least-allocated", 1}, {"most-allocated", 2}};
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct gt_world *world = NULL;
        struct gt_group_setup setup = {.pods_max = 1, .seed = 1};
        void *policy_state = NULL;
        const struct gt_group_policy *policy = peer_policy(cases[i].name);
        struct gt_place place;
        struct gt_sim_job job = {.pods = 1, .unit = 1, .gpus = 2};
        assert_int_equal(gt_world_new(site, &world, NULL), 0);
        assert_int_equal(policy->open(world, &setup, &policy_state, NULL), 0);
        gt_world_take(world, 0, 0x0f);
        gt_world_take(world, 2, 0x3f);
        assert_true(policy->place(policy_state, world, &job, &place));
        assert_int_equal(place.node, cases[i].node);
        policy->close(policy_state);
        gt_world_free(world);
    }
    gt_site_free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_and_four),
        cmocka_unit_test(test_two_of_four_and_six),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_jobs_of_units),
        cmocka_unit_test(test_leaves_of_kai),
        cmocka_unit_test(test_churn_fills_the_remainder),
        cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_allocated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
