/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "scheduler-ext/sim/group/run.h"
#include "tests/unit/sim/sim_test.h"

/* A pod of 2, on a node with one free GPU in each group and on one with a whole group free: the links decide
 * while loss.weight is small, what others lose where it is large. */
static void test_gpu_aware(void **state)
{
    (void)state;
    struct gt_site *site = make_site("1x2x8");
    const struct {
        double weight;
        uint32_t node;
        uint64_t mask;
    } cases[] = {{0.5, 1, 0x30}, {16, 0, 0x11}};
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct gt_world *world = NULL;
        struct gt_group_setup setup = {.pods_max = 3, .loss_weight = cases[i].weight};
        void *policy_state = NULL;
        const struct gt_group_policy *policy = &gt_group_gpu_aware;
        struct gt_place place[3];
        struct gt_sim_job job = {.pods = 1, .unit = 1, .gpus = 2}, three = {.pods = 3, .unit = 1, .gpus = 3};
        assert_int_equal(gt_world_new(site, &world, NULL), 0);
        assert_int_equal(policy->open(world, &setup, &policy_state, NULL), 0);
        gt_world_take(world, 0, 0xee);
        gt_world_take(world, 1, 0x0f);
        for (uint32_t node = 0; node < 2; node++)
            policy->changed(policy_state, world, node);
        assert_false(policy->place(policy_state, world, &three, place)); /* one fits, then it is undone */
        assert_int_equal(world->free_gpus, 6);
        assert_true(policy->place(policy_state, world, &job, place));
        assert_int_equal(place[0].node, cases[i].node);
        assert_int_equal(place[0].mask, cases[i].mask);
        policy->close(policy_state);
        gt_world_free(world);
    }
    gt_site_free(site);
}

static uint64_t mask_of(const void *masks, uint32_t node)
{
    return ((const uint64_t *)masks)[node];
}

/* A node of 8 with all linked, one with groups of 4, one of 2 without direct links: 28 x 64 = 1792,
 * 12 x 64 + 16 x 8 = 896, and 8. */
static void test_links(void **state)
{
    (void)state;
    struct gt_site *site = make_site("1x1x8x8+1x1x8x4+1x1x2x1");
    struct gt_links links = {0};
    assert_int_equal(gt_links_open(&links, site, NULL), 0);
    uint64_t all[] = {0xff, 0xff, 0x3}, none[] = {0, 0, 0}, some[] = {0x0f, 0x11, 0};
    assert_true(fabs(gt_links_fragmentation(&links, mask_of, all)) < 1e-12);
    assert_true(gt_links_fragmentation(&links, mask_of, none) == 0);
    /* left 6 x 64 and 8; of 1792 / 2 and 896 / 4 */
    assert_true(fabs(gt_links_fragmentation(&links, mask_of, some) - (1 - 392.0 / 1120)) < 1e-12);
    assert_true(gt_links_share(&links) == 1);
    gt_links_add(&links, 0, 0x01); /* one GPU: nothing to link */
    assert_true(gt_links_share(&links) == 1);
    gt_links_add(&links, 0, 0x81);
    gt_links_add(&links, 1, 0x81);
    assert_true(fabs(gt_links_share(&links) - (1 + 8.0 / 64) / 2) < 1e-12);
    gt_links_done(&links);
    gt_site_free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpu_aware), cmocka_unit_test(test_links)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
