/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/core/core_world.h"

/* Nodes, supernodes and names: what is refused, how ids are used again, how many there can be. */

static void refused(int r, struct gt_err **err, int code, const char *part)
{
    assert_int_equal(r, -code);
    if (!strstr(gt_err_text(*err), part))
        fail_msg("\"%s\" does not say \"%s\"", gt_err_text(*err), part);
    gt_err_free(*err);
    *err = NULL;
}

static void refuses_what_makes_no_sense(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct gt_promise_id promise = {0};
    struct gt_err *err = NULL;
    uint32_t id = 7, class = world_class(cluster, 8, 4), low = world_super(cluster, "low", 1, GT_NONE),
             high = world_super(cluster, "high", 2, GT_NONE);
    char name[300];
    (void)state;

    memset(name, 'x', sizeof(name));
    name[254] = '\0';
    refused(gt_cluster_add_node(cluster, name, class, GT_NONE, &id, &err), &err, EINVAL, "too many");
    refused(gt_cluster_add_node(cluster, "", class, GT_NONE, &id, &err), &err, EINVAL, "0 characters");
    refused(gt_cluster_add_node(cluster, "n", 1, GT_NONE, &id, &err), &err, EINVAL, "hardware class 1");
    refused(gt_cluster_add_node(cluster, "n", class, 99, &id, &err), &err, EINVAL, "does not exist");
    world_node(cluster, "n", class, GT_NONE);
    refused(gt_cluster_add_node(cluster, "n", class, GT_NONE, &id, &err), &err, EEXIST, "node n");
    refused(gt_cluster_add_supernode(cluster, "low", 1, GT_NONE, &id, &err), &err, EEXIST, "low");
    refused(gt_cluster_add_supernode(cluster, "t", 0, GT_NONE, &id, &err), &err, EINVAL, "tier 0");
    refused(gt_cluster_add_supernode(cluster, "t", 9, GT_NONE, &id, &err), &err, EINVAL, "tier 9");
    refused(gt_cluster_add_supernode(cluster, "t", 2, high, &id, &err), &err, EINVAL, "above 2");
    refused(gt_cluster_add_supernode(cluster, "t", 1, low, &id, &err), &err, EINVAL, "above 1");
    refused(gt_cluster_add_supernode(cluster, "t", 1, 99, &id, &err), &err, EINVAL, "above 1");
    /* The supernode that a node is of itself is no place for others. */
    struct gt_cluster_node node;
    assert_true(gt_cluster_get_node(cluster, 0, &node));
    refused(gt_cluster_add_node(cluster, "m", class, node.supernode, &id, &err), &err, EINVAL, "supernode");
    refused(gt_cluster_remove_supernode(cluster, node.supernode, &err), &err, ENOENT, "no supernode");
    refused(gt_cluster_promise(cluster, &(struct gt_promise){.place = {0, 0}}, &promise, &err), &err, EBUSY,
            "node n");
    refused(gt_cluster_promise(cluster, &(struct gt_promise){.place = {0, 0x100}}, &promise, &err), &err,
            EBUSY, "not available");
    refused(gt_cluster_promise(cluster, &(struct gt_promise){.place = {5, 1}}, &promise, &err), &err, ENOENT,
            "no node 5");
    assert_int_equal(id, 7);
    name[253] = '\0';
    world_node(cluster, name, class, low);
    gt_cluster_confirm(cluster, (struct gt_promise_id){12, 1});
    gt_cluster_end_promise(cluster, (struct gt_promise_id){0});
    gt_cluster_remove_node(cluster, 77);
    world_check(cluster);
    gt_cluster_free(cluster);
    gt_cluster_free(NULL);
}

static void uses_ids_again(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4), zone = world_super(cluster, "zone", 2, GT_NONE);
    struct gt_promise_id assumption;
    struct gt_cluster_supernode super;
    struct gt_err *err = NULL;
    (void)state;

    world_nodes(cluster, "n", 4, class, zone);
    assert_int_equal(gt_cluster_promise(cluster, &(struct gt_promise){.place = {2, 1}}, &assumption, NULL),
                     0);
    gt_cluster_remove_node(cluster, 2);
    assert_int_equal(gt_cluster_assumptions(cluster), 0);
    assert_int_equal(gt_cluster_find_node(cluster, "n-2"), GT_NONE);
    assert_false(gt_cluster_get_node(cluster, 2, &(struct gt_cluster_node){0}));
    gt_cluster_end_promise(cluster, assumption); /* too late, and harmless */
    assert_true(gt_cluster_get_supernode(cluster, zone, &super));
    assert_int_equal(super.nodes, 3);
    assert_int_equal(super.available, 24);
    assert_int_equal(world_node(cluster, "other", class, zone), 2);
    assert_int_equal(gt_cluster_find_node(cluster, "other"), 2);
    world_check(cluster);
    refused(gt_cluster_remove_supernode(cluster, zone, &err), &err, EBUSY, "zone");
    uint32_t below = world_super(cluster, "below", 1, zone);
    for (uint32_t n = 0; n < 4; n++)
        gt_cluster_remove_node(cluster, n);
    refused(gt_cluster_remove_supernode(cluster, zone, &err), &err, EBUSY, "zone");
    assert_int_equal(gt_cluster_remove_supernode(cluster, below, NULL), 0);
    assert_int_equal(gt_cluster_remove_supernode(cluster, zone, NULL), 0);
    assert_int_equal(gt_cluster_find_supernode(cluster, "zone"), GT_NONE);
    assert_false(gt_cluster_get_supernode(cluster, zone, &super));
    world_check(cluster);
    gt_cluster_free(cluster);
}

/* A handle of an ended promise never ends the one that has its slot now. */
static void keeps_handles_apart(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct gt_promise_id old, new;
    (void)state;

    world_node(cluster, "n", world_class(cluster, 8, 4), GT_NONE);
    const struct gt_promise promise = {GT_PROMISE_RESERVED, {0, 0x3}, 1, 0, 0, 0};
    assert_int_equal(gt_cluster_promise(cluster, &promise, &old, NULL), 0);
    gt_cluster_end_promise(cluster, old);
    assert_int_equal(gt_cluster_promise(cluster, &promise, &new, NULL), 0);
    assert_int_equal(old.slot, new.slot);
    assert_null(gt_cluster_find_promise(cluster, old));
    gt_cluster_end_promise(cluster, old);
    assert_non_null(gt_cluster_find_promise(cluster, new));

    /* Of GPUs that come free, those are taken that are available, and all of them are promised. */
    struct gt_cluster_node node;
    assert_int_equal(gt_cluster_promise(
                         cluster, &(struct gt_promise){GT_PROMISE_VACATED, {0, 0xe}, 2, 0, 0, 0}, &old, NULL),
                     0);
    assert_true(gt_cluster_get_node(cluster, 0, &node));
    assert_int_equal(node.assumed, 0xf);
    assert_int_equal(gt_cluster_promised(cluster, 0, GT_PROMISE_VACATED), 0xe);
    gt_cluster_end_promise(cluster, old);
    assert_true(gt_cluster_get_node(cluster, 0, &node));
    assert_int_equal(node.assumed, 0x3);
    world_check(cluster);
    gt_cluster_free(cluster);
}

static void assumptions_end(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct gt_cluster_node node;
    struct gt_promise_id id[4];
    (void)state;

    world_node(cluster, "n", world_class(cluster, 8, 4), GT_NONE);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(
            gt_cluster_promise(cluster,
                               &(struct gt_promise){GT_PROMISE_RESERVED, {0, 3u << (2 * i)}, i % 2, 0, 0, 0},
                               &id[i], NULL),
            0);
    gt_cluster_get_node(cluster, 0, &node);
    assert_int_equal(node.available, 0);
    assert_int_equal(node.free, 0xff);
    gt_cluster_end_promise(cluster, id[0]);
    assert_int_equal(gt_cluster_end_promises(cluster, GT_PROMISE_PLANNED, 0), 0);
    assert_null(gt_cluster_promise_of(cluster, 0, 1));
    const struct gt_promise *told = gt_cluster_promise_of(cluster, 0, 3);
    assert_non_null(told);
    assert_int_equal(told->kind, GT_PROMISE_RESERVED);
    assert_int_equal(told->place.mask, 0x0c);
    assert_ptr_equal(gt_cluster_find_promise(cluster, id[1]), told);
    assert_int_equal(gt_cluster_promised(cluster, 0, GT_PROMISE_RESERVED), 0xfc);
    assert_int_equal(gt_cluster_promised(cluster, 0, GT_PROMISE_PLANNED), 0);
    struct gt_promise_id
        whole; /* for a waiting job: others go on there, and it is named where they are not */
    const struct gt_promise node_promise = {GT_PROMISE_NODE, {0, UINT64_MAX}, 7, 0, 0, 0};
    assert_int_equal(gt_cluster_promise(cluster, &node_promise, &whole, NULL), 0);
    gt_cluster_get_node(cluster, 0, &node);
    assert_int_equal(node.available, 0x03);
    assert_int_equal(gt_cluster_promise_of(cluster, 0, 1)->kind, GT_PROMISE_NODE);
    assert_int_equal(gt_cluster_promise_of(cluster, 0, 3)->kind, GT_PROMISE_RESERVED);
    assert_int_equal(gt_cluster_kept_from(cluster, 0, 6)->kind, GT_PROMISE_NODE);
    assert_null(gt_cluster_kept_from(cluster, 0, 7));
    gt_cluster_end_promise(cluster, whole);
    assert_null(gt_cluster_kept_from(cluster, 0, 6));
    struct gt_node_set nodes = {0};
    assert_int_equal(gt_node_set_add(&nodes, 0, NULL), 0);
    gt_cluster_promise_nodes(cluster, GT_PROMISE_SPARE, 0, &nodes, 0);
    gt_cluster_promise_nodes(cluster, GT_PROMISE_SPARE, 0, &nodes, 0);
    assert_int_equal(gt_cluster_end_promises(cluster, GT_PROMISE_SPARE, 0), 1);
    gt_node_set_done(&nodes);
    gt_cluster_confirm(cluster, id[1]);
    gt_cluster_confirm(cluster, id[1]); /* once is enough */
    gt_cluster_get_node(cluster, 0, &node);
    assert_int_equal(node.free, 0xf3);
    assert_int_equal(node.available, 0x03);
    assert_int_equal(gt_cluster_end_promises(cluster, GT_PROMISE_RESERVED, 0), 1); /* the third */
    assert_int_equal(gt_cluster_end_promises(cluster, GT_PROMISE_RESERVED, 1), 1);
    gt_cluster_get_node(cluster, 0, &node);
    assert_int_equal(node.available, 0xf3);
    world_check(cluster);
    gt_cluster_free(cluster);
}

/* A promise is since the time when it was made, also when it is renewed, alone or with others. */
static void times_of_promises(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct gt_promise_id id;
    struct gt_node_set nodes = {0};
    (void)state;

    for (unsigned i = 0; i < 3; i++)
        world_node(cluster, (const char *[]){"a", "b", "c"}[i], world_class(cluster, 8, 4), GT_NONE);
    gt_cluster_set_time(cluster, 100);
    struct gt_promise promise = {.kind = GT_PROMISE_RESERVED, .place = {0, 3}, .owner = 1, .until_ms = 500};
    assert_int_equal(gt_cluster_promise(cluster, &promise, &id, NULL), 0);
    gt_cluster_set_time(cluster, 200);
    gt_cluster_renew_promise(cluster, id, 600);
    assert_int_equal(gt_cluster_find_promise(cluster, id)->since_ms, 100);
    assert_int_equal(gt_cluster_find_promise(cluster, id)->until_ms, 600);
    gt_cluster_end_promise(cluster, id);
    gt_cluster_renew_promise(cluster, id, 700); /* too late, and harmless */
    assert_int_equal(gt_node_set_add(&nodes, 0, NULL), 0);
    assert_int_equal(gt_node_set_add(&nodes, 1, NULL), 0);
    gt_cluster_promise_nodes(cluster, GT_PROMISE_NODE, 7, &nodes, 900);
    gt_cluster_set_time(cluster, 300);
    gt_node_set_clear(&nodes);
    assert_int_equal(gt_node_set_add(&nodes, 1, NULL), 0);
    assert_int_equal(gt_node_set_add(&nodes, 2, NULL), 0);
    gt_cluster_promise_nodes(cluster, GT_PROMISE_NODE, 7, &nodes, 950);
    assert_null(gt_cluster_promise_of(cluster, 0, 0));
    assert_int_equal(gt_cluster_promise_of(cluster, 1, 0)->since_ms, 200);
    assert_int_equal(gt_cluster_promise_of(cluster, 1, 0)->until_ms, 950);
    assert_int_equal(gt_cluster_promise_of(cluster, 2, 0)->since_ms, 300);
    gt_cluster_renew_promises(cluster, GT_PROMISE_NODE, 8, 1000);
    assert_int_equal(gt_cluster_promise_of(cluster, 2, 0)->until_ms, 950);
    gt_cluster_renew_promises(cluster, GT_PROMISE_NODE, 7, 1000);
    assert_int_equal(gt_cluster_promise_of(cluster, 1, 0)->until_ms, 1000);
    assert_int_equal(gt_cluster_promise_of(cluster, 2, 0)->until_ms, 1000);
    assert_int_equal(gt_cluster_end_promises(cluster, GT_PROMISE_NODE, 7), 2);
    gt_node_set_done(&nodes);
    gt_cluster_free(cluster);
}

/* Names that come and go, against a plain list. */
static void finds_names(void **state)
{
    enum { NAMES = 300 };
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4), id[NAMES];
    uint64_t random = test_seed();
    char name[280];
    (void)state;

    memset(id, 0xff, sizeof(id));
    for (unsigned step = 0; step < test_rounds(20000); step++) {
        unsigned at = (unsigned)(random_next(&random) % NAMES);

        /* Short ones, and long ones that differ at the front. */
        if (at % 3)
            snprintf(name, sizeof(name), "%u", at);
        else
            snprintf(name, sizeof(name), "%0*u-%0*u", 1 + (int)at % 100, 0u, 1 + (int)at, at);
        name[at % 3 ? 20 : 200] = '\0';
        if (at % 3 == 0)
            memcpy(name, &(char[2]){(char)('a' + at % 26), (char)('a' + at / 26)}, 2);
        assert_int_equal(gt_cluster_find_node(cluster, name), id[at]);
        if (id[at] == GT_NONE)
            id[at] = world_node(cluster, name, class, GT_NONE);
        else {
            gt_cluster_remove_node(cluster, id[at]);
            id[at] = GT_NONE;
        }
        if (step % 500 == 0)
            world_check(cluster);
    }
    world_check(cluster);
    gt_cluster_free(cluster);
}

/* 50,000 nodes of up to 64 GPUs, and no more classes than there is room for, those in use excepted. */
static void large_clusters(void **state)
{
    enum { NODES = TEST_SANITIZED ? 5000 : 50000 };
    struct gt_cluster *cluster = world_new();
    struct world_job job;
    uint32_t super = GT_NONE, class = world_class(cluster, 64, 8);
    char name[32];
    (void)state;

    for (unsigned n = 0; n < NODES; n++) {
        snprintf(name, sizeof(name), "s%u", n);
        if (n % 50 == 0)
            super = world_super(cluster, name, 1, GT_NONE);
        snprintf(name, sizeof(name), "n%u", n);
        assert_int_equal(world_node(cluster, name, class, super), n);
    }
    world_check(cluster);
    world_job(&job, 8, 50, 64, 0);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(gt_cluster_find_node(cluster, "n4321"), 4321);
    gt_cluster_free(cluster);
}

static void classes_give_way(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t first = world_class(cluster, 8, 4), id;
    struct gt_weights weights = {.n = 2};
    struct gt_class *class = NULL;
    struct gt_err *err = NULL;
    char name[16];
    (void)state;

    world_node(cluster, "first", first, GT_NONE);
    for (unsigned i = 1; i < 3 * GT_CLUSTER_CLASSES_MAX; i++) {
        weights.w[0][1] = weights.w[1][0] = (uint16_t)i;
        assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
        assert_int_equal(gt_cluster_add_class(cluster, class, &id, NULL), 0);
        assert_int_not_equal(id, first);
        gt_class_unref(class);
    }
    for (unsigned i = 1; i < GT_CLUSTER_CLASSES_MAX; i++) {
        weights.w[0][1] = weights.w[1][0] = (uint16_t)(5000 + i);
        assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
        assert_int_equal(gt_cluster_add_class(cluster, class, &id, NULL), 0);
        gt_class_unref(class);
        snprintf(name, sizeof(name), "n%u", i);
        world_node(cluster, name, id, GT_NONE);
    }
    assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
    refused(gt_cluster_add_class(cluster, class, &id, &err), &err, E2BIG, "1024 hardware classes");
    gt_cluster_remove_node(cluster, 5);
    assert_int_equal(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    gt_class_unref(class);
    world_check(cluster);
    gt_cluster_free(cluster);
}

static void moves_nodes(void **state)
{
    enum { NODES = 12 };
    struct gt_cluster *cluster = world_new();
    struct gt_cluster_node before, after;
    struct gt_cluster_supernode of;
    struct gt_err *err = NULL;
    uint64_t random = test_seed();
    uint32_t class = world_class(cluster, 8, 4), row = world_super(cluster, "row", 2, GT_NONE),
             to[] = {world_super(cluster, "a", 1, row), world_super(cluster, "b", 1, GT_NONE), row, GT_NONE};
    struct gt_promise_id id;
    (void)state;

    world_nodes(cluster, "n", NODES, class, GT_NONE);
    for (unsigned step = 0; step < test_rounds(2000); step++) {
        uint32_t node = (uint32_t)(random_next(&random) % NODES), super = to[random_next(&random) % 4];
        gt_cluster_set_free(cluster, node, random_next(&random));
        gt_cluster_set_eligible(cluster, node, random_next(&random) % 4);
        gt_cluster_end_promises(cluster, GT_PROMISE_PLANNED, node);
        gt_cluster_promise(
            cluster,
            &(struct gt_promise){GT_PROMISE_PLANNED, {node, 1u << random_next(&random) % 8}, node, 0, 0, 0},
            &id, NULL);
        assert_true(gt_cluster_get_node(cluster, node, &before));
        assert_int_equal(gt_cluster_move_node(cluster, node, super, NULL), 0);
        assert_true(gt_cluster_get_node(cluster, node, &after));
        assert_int_equal(after.assumed, before.assumed);
        assert_int_equal(after.available, before.available);
        assert_int_equal(after.eligible, before.eligible);
        assert_true(gt_cluster_get_supernode(cluster, after.supernode, &of));
        assert_int_equal(of.is_node, super == row || super == GT_NONE);
        assert_int_equal(of.is_node ? of.parent : after.supernode, super);
        world_check(cluster);
    }
    refused(gt_cluster_move_node(cluster, 3, 99, &err), &err, EINVAL, "n-3: its supernode");
    refused(gt_cluster_move_node(cluster, NODES, row, &err), &err, ENOENT, "no node 12");
    for (uint32_t node = 0; node < NODES; node++)
        assert_int_equal(gt_cluster_move_node(cluster, node, GT_NONE, NULL), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(gt_cluster_remove_supernode(cluster, to[i], NULL), 0);
    world_check(cluster);
    gt_cluster_free(cluster);
}

static void widens_to_the_lowest_common_supernode(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4), zone = world_super(cluster, "zone", 3, GT_NONE),
             row = world_super(cluster, "row", 2, zone), a = world_super(cluster, "a", 1, row),
             b = world_super(cluster, "b", 1, row), c = world_super(cluster, "c", 1, zone);
    uint32_t a1 = world_node(cluster, "a1", class, a), a2 = world_node(cluster, "a2", class, a),
             b1 = world_node(cluster, "b1", class, b), c1 = world_node(cluster, "c1", class, c),
             alone = world_node(cluster, "alone", class, GT_NONE), common = GT_NONE;
    (void)state;
    assert_true(gt_cluster_widen(cluster, a1, &common) && gt_cluster_widen(cluster, a2, &common));
    assert_int_equal(common, a);
    assert_true(gt_cluster_widen(cluster, b1, &common));
    assert_int_equal(common, row);
    assert_true(gt_cluster_widen(cluster, c1, &common) && gt_cluster_widen(cluster, a1, &common));
    assert_int_equal(common, zone);
    assert_false(gt_cluster_widen(cluster, alone, &common));
    assert_false(gt_cluster_widen(cluster, 99, &common));
    assert_int_equal(common, zone);
    common = GT_NONE;
    assert_true(gt_cluster_widen(cluster, alone, &common) && gt_cluster_widen(cluster, alone, &common));
    assert_false(gt_cluster_widen(cluster, a1, &common));
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_makes_no_sense),
        cmocka_unit_test(uses_ids_again),
        cmocka_unit_test(assumptions_end),
        cmocka_unit_test(times_of_promises),
        cmocka_unit_test(keeps_handles_apart),
        cmocka_unit_test(finds_names),
        cmocka_unit_test(large_clusters),
        cmocka_unit_test(classes_give_way),
        cmocka_unit_test(moves_nodes),
        cmocka_unit_test(widens_to_the_lowest_common_supernode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
