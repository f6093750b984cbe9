/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "scheduler-ext/core/chain.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/core/core_world.h"

/* Jobs by hand: what a plan says, why one fails, jobs that partly run, pods of several sizes. */

/* One supernode after the other, named s1, s2, ..., of so many free nodes of 8. */
static struct gt_cluster *cluster_of(const unsigned *nodes, unsigned supers)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4);
    char name[16];

    for (unsigned s = 0; s < supers; s++) {
        snprintf(name, sizeof(name), "s%u", s + 1);
        world_nodes(cluster, name, nodes[s], class, world_super(cluster, name, 1, GT_NONE));
    }
    return cluster;
}

static uint32_t node_named(const struct gt_cluster *cluster, const char *name)
{
    uint32_t node = gt_cluster_find_node(cluster, name);

    assert_int_not_equal(node, GT_NONE);
    return node;
}

static void expect_text(const struct gt_cluster *cluster, const struct world_job *job, const char *expected)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4096);

    if (job->placed)
        for (uint32_t u = 0; u < job->unit_count; u++) {
            gt_plan_unit_text(cluster, &job->units[u], u, &text);
            gt_buf_puts(&text, "\n");
        }
    else
        gt_plan_failure_text(cluster, &job->failure, &text);
    assert_string_equal(text.data, expected);
}

/* ---- failures say what is short, to the GPU ---- */

static void says_what_supernodes_hold(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){4, 5, 1, 1, 1, 1, 3}, 7);
    struct world_job job;
    (void)state;

    world_job(&job, 3, 4, 8, 0);
    assert_false(world_plan(cluster, &job));
    assert_int_equal(job.failure.reason, GT_PLAN_NO_SUPERNODE);
    expect_text(cluster, &job,
                "3 units of 32 GPUs needed, supernodes can hold 2; those placed, largest free 24 in "
                "supernode s7; the "
                "cluster has 128 GPUs for pods of 8, 4 units if they lay together");
    /* GPUs that hold no whole pod do not count. */
    gt_cluster_set_free(cluster, node_named(cluster, "s7-0"), 0x7f);
    assert_false(world_plan(cluster, &job));
    expect_text(cluster, &job,
                "3 units of 32 GPUs needed, supernodes can hold 2; those placed, largest free 16 in "
                "supernode s7; the "
                "cluster has 120 GPUs for pods of 8, 3 units if they lay together");
    gt_cluster_free(cluster);
}

static void says_when_the_cluster_is_too_small(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){4, 3}, 2);
    struct world_job job;
    (void)state;

    world_job(&job, 2, 4, 8, 0);
    assert_false(world_plan(cluster, &job));
    assert_int_equal(job.failure.reason, GT_PLAN_TOO_FEW_GPUS);
    expect_text(cluster, &job,
                "2 units of 32 GPUs needed, supernodes can hold 1; those placed, largest free 24 in "
                "supernode s2; 64 GPUs "
                "are needed in all, the cluster has 56 for pods of 8");
    world_job(&job, 1, 1, 128, 0); /* no node is that large */
    assert_false(world_plan(cluster, &job));
    expect_text(cluster, &job,
                "1 unit of 128 GPUs needed, supernodes can hold 0; 128 GPUs are needed in all, the cluster "
                "has 0 for pods of 128");
    world_job(&job, 1, 1, UINT32_MAX, 0);
    assert_false(world_plan(cluster, &job));
    world_job(&job, 1, 1, 0, 0);
    assert_false(world_plan(cluster, &job));
    gt_cluster_free(cluster);
    cluster = world_new(); /* nothing at all */
    world_job(&job, 1, 1, 8, 0);
    assert_false(world_plan(cluster, &job));
    expect_text(cluster, &job,
                "1 unit of 8 GPUs needed, supernodes can hold 0; 8 GPUs are needed in all, the cluster has 0 "
                "for pods of 8");
    gt_cluster_free(cluster);
}

static void counts_atoms_of_soft_units(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){3, 3, 1, 1}, 4);
    struct world_job job;
    (void)state;

    world_job(&job, 1, 4, 8, 2);
    assert_true(world_plan(cluster, &job));
    expect_text(cluster, &job,
                "unit 0: 32 GPUs over 2 supernodes, which no supernode has all, in atoms of 16 GPUs; no "
                "supernode had room for all; 2 had room for an atom, no fewer than 2 could do\n");
    world_job(&job, 2, 4, 8, 2);
    assert_false(world_plan(cluster, &job));
    expect_text(
        cluster, &job,
        "4 atoms of 16 GPUs needed, supernodes can hold 2; those placed, largest free 8 in supernode s1; the "
        "cluster has 64 GPUs for pods of 8, 4 atoms if they lay together");
    gt_cluster_free(cluster);
}

static void larger_units_come_first(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){4, 2}, 2);
    struct world_job job = {.unit_count = 3, .pod_count = 8};
    (void)state;

    job.units[0] = (struct gt_plan_unit){.first = 0, .pods = 2, .gpus = 8};
    job.units[1] = (struct gt_plan_unit){.first = 2, .pods = 4, .gpus = 8};
    job.units[2] = (struct gt_plan_unit){.first = 6, .pods = 2, .gpus = 8};
    assert_false(world_plan(cluster, &job));
    gt_cluster_free(cluster);
    cluster = cluster_of((const unsigned[]){4, 3, 1}, 3);
    assert_false(world_plan(cluster, &job));
    expect_text(cluster, &job,
                "2 units of 16 GPUs needed, supernodes can hold 1 beside the rest of the job; those placed, "
                "largest free 8 "
                "in supernode s2; the cluster has 64 GPUs for pods of 8, 4 units if they lay together");
    gt_cluster_free(cluster);
    cluster = cluster_of((const unsigned[]){5, 3, 2}, 3);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[1].supernode, gt_cluster_find_supernode(cluster, "s1"));
    gt_cluster_free(cluster);
}

static void explains_a_choice(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){4, 5, 8, 2}, 4);
    struct world_job job;
    (void)state;

    assert_int_equal(gt_chain_set(cluster, &(struct gt_chain_sizes){4, {8, 16, 32, 64}}, NULL), 0);
    world_job(&job, 1, 1, 8, 0);
    assert_true(world_plan(cluster, &job));
    expect_text(
        cluster, &job,
        "unit 0: 8 GPUs in supernode s2, which had room for 5 such pods: no larger size loses a place "
        "there; 4 supernodes could hold it, next best s4 with room for 2 (1 larger size loses a place "
        "there, it reaches into the room of 1 larger size)\n");
    gt_cluster_set_rule(cluster, GT_RULE_STATIC);
    assert_true(world_plan(cluster, &job));
    expect_text(
        cluster, &job,
        "unit 0: 8 GPUs in supernode s2, which had room for 5 such pods: no larger size loses a place "
        "there; 4 supernodes could hold it, next best s4 with room for 2 (1 larger size loses a place "
        "there)\n");
    world_job(&job, 1, 8, 8, 0);
    assert_true(world_plan(cluster, &job));
    expect_text(cluster, &job,
                "unit 0: 64 GPUs in supernode s3, which had room for 8 such pods: no larger size loses a "
                "place there; no other supernode had room for it\n");
    gt_cluster_free(cluster);
}

/* ---- jobs that partly run ---- */

static void returns_to_its_supernode(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){8, 8, 4}, 3);
    struct world_job job;
    (void)state;

    world_job(&job, 2, 4, 8, 0);
    assert_true(world_plan(cluster, &job));
    world_bind(cluster, &job, 1);
    uint32_t home = job.units[1].supernode, node = job.pods[6].place.node;
    job.pods[6].running = false; /* its pod is replaced; the node is free again */
    gt_cluster_set_free(cluster, node, 0xff);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[1].supernode, home);
    assert_int_equal(job.pods[6].place.node, node);
    gt_auto_buf struct gt_buf text = GT_BUF(1000);
    gt_plan_unit_text(cluster, &job.units[0], 0, &text);
    assert_non_null(strstr(text.data, ", where its running pods are"));
    gt_cluster_free(cluster);
}

static void says_torn_and_stuck(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){4, 4}, 2);
    struct world_job job;
    (void)state;

    world_job(&job, 2, 4, 8, 0);
    job.pods[4].running = job.pods[5].running = true;
    job.pods[4].place.node = node_named(cluster, "s1-0");
    job.pods[5].place.node = node_named(cluster, "s2-0");
    assert_false(world_plan(cluster, &job));
    assert_int_equal(job.failure.reason, GT_PLAN_UNIT_TORN);
    expect_text(cluster, &job, "unit 1: running pods of one unit of 32 GPUs lie in different supernodes");

    job.pods[5].place.node = node_named(cluster, "s1-1");
    gt_cluster_set_free(cluster, node_named(cluster, "s1-0"), 0);
    gt_cluster_set_free(cluster, node_named(cluster, "s1-1"), 0);
    gt_cluster_set_free(cluster, node_named(cluster, "s1-2"), 0x7f);
    assert_false(world_plan(cluster, &job));
    assert_int_equal(job.failure.reason, GT_PLAN_UNIT_STUCK);
    expect_text(cluster, &job,
                "unit 1: 2 more pods of 8 GPUs must go to supernode s1, where its running pods are; it has "
                "room for 1");
    gt_cluster_set_free(cluster, node_named(cluster, "s1-2"), 0xff);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[1].supernode, gt_cluster_find_supernode(cluster, "s1"));
    assert_int_equal(job.units[0].supernode, gt_cluster_find_supernode(cluster, "s2"));
    gt_cluster_free(cluster);
}

/* Its pods run, wherever that is: others of the job must not wait for ever. */
static void torn_unit_without_gaps_blocks_nobody(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){4, 4}, 2);
    struct world_job job;
    (void)state;

    world_job(&job, 2, 4, 8, 0);
    for (unsigned p = 4; p < 8; p++)
        job.pods[p].running = true;
    for (unsigned p = 4; p < 7; p++)
        job.pods[p].place.node = node_named(cluster, "s1-0");
    job.pods[7].place.node = node_named(cluster, "s2-0");
    struct gt_plan_request request = world_request(&job);

    assert_true(gt_plan_job(cluster, &request, &job.failure));
    assert_int_equal(job.units[0].supernodes, 1);
    assert_int_equal(job.units[1].supernodes, 2);
    gt_cluster_free(cluster);
}

/* The unit that runs in s1 needs its room; a unit that is new must not take it first. */
static void started_units_go_first(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){3, 6}, 2);
    struct world_job job;
    (void)state;

    assert_int_equal(gt_chain_set(cluster, &(struct gt_chain_sizes){0}, NULL), 0);
    gt_cluster_set_free(cluster, node_named(cluster, "s1-0"), 0);
    world_job(&job, 2, 3, 8, 0);
    job.pods[4].running = true;
    job.pods[4].place.node = node_named(cluster, "s1-0");
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[1].supernode, gt_cluster_find_supernode(cluster, "s1"));
    assert_int_equal(job.units[0].supernode, gt_cluster_find_supernode(cluster, "s2"));
    gt_cluster_free(cluster);
}

static void a_pod_on_an_unknown_node_binds_nothing(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){3, 6}, 2);
    struct world_job job;
    (void)state;

    world_job(&job, 1, 3, 8, 0);
    job.pods[0].running = true;
    job.pods[0].place.node = 4711;
    struct gt_plan_request request = world_request(&job);

    assert_true(gt_plan_job(cluster, &request, &job.failure));
    assert_int_equal(job.units[0].supernodes, 1);
    for (unsigned p = 0; p < 3; p++)
        job.pods[p].running = true;
    job.pods[1].place.node = job.pods[2].place.node = GT_NONE;
    assert_true(gt_plan_job(cluster, &request, &job.failure));
    assert_int_equal(job.units[0].supernodes, 0);
    gt_auto_buf struct gt_buf text = GT_BUF(1000);
    gt_plan_unit_text(cluster, &job.units[0], 0, &text);
    gt_cluster_free(cluster);
}

/* ---- pods and nodes ---- */

static void ranks_lie_side_by_side(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4), super = world_super(cluster, "s", 1, GT_NONE);
    struct world_job job;
    (void)state;

    world_nodes(cluster, "n", 4, class, super);
    gt_cluster_set_free(cluster, 0, 0x0f);
    gt_cluster_set_free(cluster, 2, 0xf3);
    world_job(&job, 1, 5, 2, 0);
    assert_true(world_plan(cluster, &job));
    /* A whole node of 4 pods first, then the fullest node for the one that is left. */
    static const uint32_t nodes[] = {1, 1, 1, 1, 0};
    for (unsigned p = 0; p < 5; p++)
        assert_int_equal(job.pods[p].place.node, nodes[p]);
    /* Pairs stay in their mesh. */
    for (unsigned p = 0; p < 5; p++)
        assert_true((job.pods[p].place.mask & 0x0f) == 0 || (job.pods[p].place.mask & 0xf0) == 0);
    world_job(&job, 1, 3, 2, 0);
    assert_true(world_plan(cluster, &job)); /* all on the fullest node that holds them */
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(job.pods[p].place.node, 2);
    gt_cluster_free(cluster);
}

static void pods_of_two_sizes(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4), super = world_super(cluster, "s", 1, GT_NONE);
    struct world_job job = {.unit_count = 2, .pod_count = 17};
    (void)state;

    /* 16 pods of one GPU take whole nodes first, and the pod of 8 finds none: the other order places all. */
    world_nodes(cluster, "n", 4, class, super);
    gt_cluster_set_free(cluster, 0, 0x0f);
    gt_cluster_set_free(cluster, 1, 0x0f);
    gt_cluster_set_free(cluster, 2, 0xff);
    job.units[0] = (struct gt_plan_unit){.first = 0, .pods = 16, .gpus = 1};
    job.units[1] = (struct gt_plan_unit){.first = 16, .pods = 1, .gpus = 8};
    assert_true(world_plan(cluster, &job));
    gt_cluster_free(cluster);
}

static void many_pod_sizes(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){12, 4}, 2);
    struct world_job job = {.unit_count = 16, .pod_count = 16};
    (void)state;

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned u = 0; u < 16; u++)
            job.units[u] = (struct gt_plan_unit){.first = u, .pods = 1, .gpus = 1 + (u * 3 + round) % 8};
        assert_true(world_plan(cluster, &job));
        world_check(cluster);
    }
    gt_cluster_free(cluster);
}

static void nodes_of_64_and_eight_tiers(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 64, 8), parent = GT_NONE, tier_of_root = 8;
    struct world_job job;
    char name[16];
    (void)state;

    for (unsigned tier = tier_of_root; tier > 1; tier--) {
        snprintf(name, sizeof(name), "t%u", tier);
        parent = world_super(cluster, name, tier, parent);
        snprintf(name, sizeof(name), "alone%u", tier); /* a node that hangs in the middle */
        world_node(cluster, name, class, parent);
    }
    world_nodes(cluster, "n", 2, class, world_super(cluster, "t1", 1, parent));
    world_job(&job, 1, 16, 8, 0);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[0].supernode, gt_cluster_find_supernode(cluster, "t1"));
    world_job(&job, 1, 9, 64, 1); /* every node: only the root has all */
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[0].tier, 8);
    assert_int_equal(job.units[0].supernodes, 8);
    world_job(&job, 1, 4, 64, 1);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[0].tier, 3);
    world_job(&job, 1, 10, 64, 1);
    assert_false(world_plan(cluster, &job));
    world_job(&job, 1, 1, 64, 0);
    assert_true(world_plan(cluster, &job));
    assert_true(job.pods[0].place.mask == UINT64_MAX);
    world_check(cluster);
    gt_cluster_free(cluster);
}

static void assumes_all_or_nothing(void **state)
{
    struct gt_cluster *cluster = cluster_of((const unsigned[]){4}, 1);
    struct world_job job;
    struct gt_promise_id assumptions[4];
    gt_auto_err struct gt_err *err = NULL;
    (void)state;

    world_job(&job, 1, 4, 8, 0);
    assert_true(world_plan(cluster, &job));
    gt_cluster_set_healthy(cluster, job.pods[2].place.node, 0xfe); /* in the meantime */
    assert_true(gt_plan_assume(cluster, job.pods, 4, 1, assumptions, &err) < 0);
    assert_non_null(strstr(gt_err_text(err), "not available"));
    assert_int_equal(gt_cluster_assumptions(cluster), 0);
    gt_cluster_set_healthy(cluster, job.pods[2].place.node, 0xff);
    assert_int_equal(gt_plan_assume(cluster, job.pods, 4, 1, assumptions, NULL), 0);
    assert_int_equal(gt_cluster_assumptions(cluster), 4);
    world_check(cluster);
    world_job(&job, 1, 1, 8, 0);
    assert_false(world_plan(cluster, &job));
    gt_cluster_free(cluster);
}

static void splits_over_containers(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct gt_cluster_node node;
    uint64_t masks[3];
    (void)state;

    world_node(cluster, "n", world_class(cluster, 8, 4), GT_NONE);
    gt_cluster_get_node(cluster, 0, &node);
    gt_plan_split(node.class, 0xf7, (const unsigned[]){4, 0, 3}, 3, masks);
    assert_int_equal(masks[0], 0xf0);
    assert_int_equal(masks[1], 0);
    assert_int_equal(masks[2], 0x07);
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_supernodes_hold),
        cmocka_unit_test(says_when_the_cluster_is_too_small),
        cmocka_unit_test(counts_atoms_of_soft_units),
        cmocka_unit_test(larger_units_come_first),
        cmocka_unit_test(explains_a_choice),
        cmocka_unit_test(returns_to_its_supernode),
        cmocka_unit_test(says_torn_and_stuck),
        cmocka_unit_test(torn_unit_without_gaps_blocks_nobody),
        cmocka_unit_test(started_units_go_first),
        cmocka_unit_test(a_pod_on_an_unknown_node_binds_nothing),
        cmocka_unit_test(ranks_lie_side_by_side),
        cmocka_unit_test(pods_of_two_sizes),
        cmocka_unit_test(many_pod_sizes),
        cmocka_unit_test(nodes_of_64_and_eight_tiers),
        cmocka_unit_test(assumes_all_or_nothing),
        cmocka_unit_test(splits_over_containers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
