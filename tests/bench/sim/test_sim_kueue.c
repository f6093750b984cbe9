/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"
#include "tests/unit/sim/sim_test.h"

/* 4 supernodes of 4 nodes: the free GPUs of each node, a job, and how many of its pods Kueue itself puts on
 * each node; empty: none. Written by kueue/record. */
enum { NODES = 16, PODS_MAX = 32 };

static const struct {
    const char *policy, *free;
    unsigned gpus, unit, pods;
    const char *to;
} cases[] = {
#include "tests/bench/sim/kueue/cases.inc"
};

static void test_as_kueue_itself(void **state)
{
    (void)state;
    struct gt_site *site = make_site("4x4x8");
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_world struct gt_world *world = NULL;
        struct gt_place places[PODS_MAX];
        struct gt_sim_job job = {
            .duration = 1, .pods = cases[i].pods, .unit = cases[i].unit, .gpus = (uint8_t)cases[i].gpus};
        char to[NODES + 1] = "0000000000000000";
        assert_int_equal(gt_world_new(site, &world, NULL), 0);
        assert_int_equal(gt_world_track(world, job.gpus, NULL), 0);
        for (uint32_t node = 0; node < NODES; node++)
            gt_world_take(world, node, UINT64_C(0xff) >> (cases[i].free[node] - '0'));
        if (!peer_policy(cases[i].policy)->place(NULL, world, &job, places)) {
            assert_string_equal(cases[i].to, "");
            continue;
        }
        for (uint32_t pod = 0; pod < job.pods; pod++)
            to[places[pod].node]++;
        assert_string_equal(to, cases[i].to);
        assert_true(gt_world_check(world));
    }
    gt_site_free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_kueue_itself)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
