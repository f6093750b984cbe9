/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/core/core_world.h"

/* The unit sizes in play, learned. */

static struct gt_chain_sizes sizes_of(struct gt_cluster *cluster)
{
    gt_core_refresh_chain(cluster);
    return cluster->chain.sizes;
}

static void expect(struct gt_cluster *cluster, const char *expected)
{
    char text[256] = "";
    const struct gt_chain_sizes sizes = sizes_of(cluster);
    for (unsigned i = 0; i < sizes.count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", i ? "," : "", sizes.size[i]);
    assert_string_equal(text, expected);
}

static void learns_from_jobs(void **state)
{
    struct gt_cluster *cluster = world_new();
    (void)state;
    expect(cluster, "");
    gt_chain_came(cluster, 24, 72);
    gt_chain_came(cluster, 8, 8);
    gt_chain_came(cluster, 72, 144);
    gt_chain_came(cluster, 0, 1000);
    expect(cluster, "8,24,72");
    gt_chain_gone(cluster, 24, 72); /* recent */
    expect(cluster, "8,24,72");
    gt_chain_gone(cluster, 40, 72); /* never came */
    expect(cluster, "8,24,72");
    gt_cluster_free(cluster);
}

static void forgets_what_comes_no_more(void **state)
{
    struct gt_cluster *cluster = world_new();
    unsigned gone = 0;
    struct gt_chain_sizes sizes;
    (void)state;
    gt_chain_came(cluster, 24, 24);
    gt_chain_gone(cluster, 24, 24);
    do {
        gt_chain_came(cluster, 8, 8);
        gt_chain_gone(cluster, 8, 8);
        sizes = sizes_of(cluster);
        gone++;
    } while (sizes.count == 2 && gone < 10000);
    expect(cluster, "8");
    /* Its 24 GPUs against a hundredth of those of `gone` jobs, all of which fade. */
    assert_in_range(gone, 100, GT_CHAIN_HALF_LIFE);
    gt_chain_came(cluster, 24, 240);
    for (unsigned i = 0; i < 10000; i++) {
        gt_chain_came(cluster, 8, 8);
        gt_chain_gone(cluster, 8, 8);
    }
    expect(cluster, "8,24"); /* it is there still */
    gt_cluster_free(cluster);
}

/* One odd job among many is not worth room. */
static void leaves_out_what_is_rare(void **state)
{
    struct gt_cluster *cluster = world_new();
    (void)state;
    gt_chain_came(cluster, 8, 2000);
    gt_chain_came(cluster, 24, 20);
    expect(cluster, "8");
    gt_chain_came(cluster, 24, 1);
    expect(cluster, "8,24");
    gt_cluster_free(cluster);
}

static void keeps_the_heaviest(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct gt_chain_sizes sizes;
    (void)state;
    for (unsigned i = 1; i <= 40; i++)
        gt_chain_came(cluster, i, 100 + i % 7);
    sizes = sizes_of(cluster);
    assert_int_equal(sizes.count, GT_CHAIN_MAX);
    for (unsigned i = 0; i < sizes.count; i++) {
        assert_true(sizes.size[i] % 7 >= 4);
        assert_true(i == 0 || sizes.size[i] > sizes.size[i - 1]);
    }
    /* More sizes than there are places: those that nobody has any more give way. */
    for (unsigned i = 1; i <= 40; i++)
        gt_chain_gone(cluster, i, 100 + i % 7);
    for (unsigned i = 1000; i < 1200; i++) {
        gt_chain_came(cluster, i, 100);
        gt_chain_gone(cluster, i, 100);
    }
    gt_chain_came(cluster, 4000, 1000000);
    expect(cluster, "4000");
    gt_cluster_free(cluster);
}

static void expect_alike(struct gt_cluster *a, struct gt_cluster *b)
{
    struct gt_chain_seen x, y;
    unsigned i = 0;
    for (; gt_chain_get_seen(a, i, &x); i++) {
        assert_true(gt_chain_get_seen(b, i, &y));
        assert_int_equal(x.size, y.size);
        assert_int_equal(x.present, y.present);
        assert_true(x.past == y.past);
    }
    assert_false(gt_chain_get_seen(b, i, &y));
    const struct gt_chain_sizes sizes = sizes_of(a), others = sizes_of(b);
    assert_memory_equal(sizes.size, others.size, sizes.count * sizeof(sizes.size[0]));
    assert_int_equal(sizes.count, others.count);
}

/* A chain that takes over another one's data behaves as that one. */
static void another_takes_over(void **state)
{
    struct gt_cluster *from = world_new(), *to = world_new();
    struct gt_chain_seen seen;
    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        gt_chain_came(from, 8U << i % 4, 64 + i);
        if (i % 3)
            gt_chain_gone(from, 8U << i % 4, 64 + i);
    }
    gt_chain_came(to, 8, 24); /* counts no more */
    for (unsigned i = 0; gt_chain_get_seen(from, i, &seen); i++)
        gt_chain_adopt(to, &seen);
    expect_alike(from, to);
    for (unsigned i = 0; i < 50; i++) {
        gt_chain_came(from, 24, 240);
        gt_chain_came(to, 24, 240);
        gt_chain_gone(from, 16, 80);
        gt_chain_gone(to, 16, 80);
        expect_alike(from, to);
    }
    gt_cluster_free(from);
    gt_cluster_free(to);
}

static void a_given_list_stays(void **state)
{
    struct gt_cluster *cluster = world_new();
    (void)state;
    gt_chain_came(cluster, 24, 72);
    assert_int_equal(gt_chain_set(cluster, &(struct gt_chain_sizes){2, {8, 32}}, NULL), 0);
    gt_chain_came(cluster, 72, 72);
    gt_chain_gone(cluster, 24, 72);
    expect(cluster, "8,32");
    gt_cluster_free(cluster);
}

/* Four racks of 18 nodes of 4 GPUs, one used a little: it takes a job of small units. With sizes in play that
 * nobody asks for the job breaks the three empty racks. */
static void keeps_no_room_for_what_nobody_asks_for(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 4, 4);
    struct world_job job;
    (void)state;
    for (unsigned s = 0; s < 4; s++) {
        char name[8];
        snprintf(name, sizeof(name), "r%u", s);
        world_nodes(cluster, name, 18, class, world_super(cluster, name, 1, GT_NONE));
    }
    for (unsigned n = 0; n < 3; n++)
        gt_cluster_set_free(cluster, 2 * 18 + n, 0);
    uint32_t used = gt_cluster_find_supernode(cluster, "r2");
    world_job(&job, 3, 2, 4, 0);
    gt_chain_came(cluster, 8, 24);
    assert_true(world_plan(cluster, &job));
    for (unsigned u = 0; u < 3; u++)
        assert_int_equal(job.units[u].supernode, used);
    assert_int_equal(gt_chain_set(cluster, &(struct gt_chain_sizes){5, {8, 16, 32, 64, 128}}, NULL), 0);
    assert_true(world_plan(cluster, &job));
    for (unsigned u = 0; u < 3; u++)
        assert_int_not_equal(job.units[u].supernode, used);
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_from_jobs),
        cmocka_unit_test(forgets_what_comes_no_more),
        cmocka_unit_test(keeps_the_heaviest),
        cmocka_unit_test(leaves_out_what_is_rare),
        cmocka_unit_test(a_given_list_stays),
        cmocka_unit_test(another_takes_over),
        cmocka_unit_test(keeps_no_room_for_what_nobody_asks_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
