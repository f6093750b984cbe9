/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/lease.h"
#include "tests/unit/cache/cache_world.h"

/* GPUs that another scheduler has reserved. */

static uint32_t id_of(struct gt_cache *cache, const char *node)
{
    return gt_cluster_find_node(gt_cache_cluster(cache), node);
}

static uint64_t foreign(struct gt_cache *cache, const char *node)
{
    struct gt_cache_node at;
    assert_true(gt_cache_get_node(cache, id_of(cache, node), &at));
    return at.foreign;
}

static void on_capacity(void *arg)
{
    ++*(unsigned *)arg;
}

/* No pod is planned there; a pod that is bound to it, or planned by its own object, has it. */
static void test_it_gives_way_to_pods(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    give_pod(cache, POD(.name = "a", .gpus = 4));
    gt_cache_set_foreign(cache, "n1=0-3 n2=* n1=4,5 n3=7", UINT64_MAX);
    check_cache(cache);
    assert_int_equal(cluster_node(cache, "n1").available, 0xc0);
    assert_int_equal(cluster_node(cache, "n2").available, 0);
    assert_int_equal(gt_cache_foreign_gpus(cache), 14);
    assert_int_equal(gt_cache_plan_pod(cache, pod_of(cache, "a"), id_of(cache, "n1"), 0xf, NULL), -EBUSY);

    give_pod(cache, POD(.name = "b", .gpus = 4, .node = "n1", .plan_node = "n1", .plan_mask = 0xf));
    assert_int_equal(gpus_of(cache, "n1", "b"), 0xf);
    assert_int_equal(foreign(cache, "n1"), 0x30);
    give_pod(cache, POD(.name = "c", .gpus = 8, .plan_node = "n2", .plan_mask = 0xff));
    assert_int_equal(gpus_of(cache, "n2", "c"), 0xff);
    assert_int_equal(foreign(cache, "n2"), 0);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 8, .owners = {{"b", 0xf}, {"d", 0x10}}), 0);
    assert_int_equal(foreign(cache, "n1"), 0x20);
    gt_cache_pod_deleted(cache, "ns", "c");
    assert_int_equal(foreign(cache, "n2"), 0xff); /* it is still reserved */
    assert_int_equal(cluster_node(cache, "n2").available, 0);
    check_cache(cache);
}

/* Waiting jobs are notified when it is given up, and when its time is over. */
static void test_its_end(void **state)
{
    (void)state;
    unsigned told = 0;
    const struct gt_cache_spec spec = {.on_capacity = on_capacity, .arg = &told};
    gt_auto_cache struct gt_cache *cache = new_cache(&spec);
    give_plain_node(cache, "n1");
    gt_cache_set_foreign(cache, "n1=0-3 n9=1", 1000); /* n9 is not known */
    told = 0;
    gt_cache_set_foreign(cache, "n1=0,1", 1000);
    assert_int_equal(told, 1);
    assert_int_equal(foreign(cache, "n1"), 3);
    gt_cache_set_foreign(cache, "n1=0,1", 2000); /* renewed */
    gt_cache_tick(cache, 1500);
    assert_int_equal(foreign(cache, "n1"), 3);
    assert_int_equal(gt_cluster_promise_of(gt_cache_cluster(cache), id_of(cache, "n1"), 0)->until_ms, 2000);
    assert_int_equal(told, 1);
    gt_cache_tick(cache, 2000);
    assert_int_equal(foreign(cache, "n1"), 0);
    assert_int_equal(gt_cache_foreign_gpus(cache), 0);
    assert_int_equal(cluster_node(cache, "n1").available, 0xff);
    assert_int_equal(told, 2);
    gt_cache_set_foreign(cache, "n1=* n9=1", UINT64_MAX);
    gt_cache_set_foreign(cache, "", 0);
    assert_int_equal(told, 3);
    check_cache(cache);
}

/* A note that is too long is none: what was there before is not renewed by it. */
static void test_a_note_too_long(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static char note[GT_LEASE_NOTE_MAX + 2];
    memset(note, ' ', sizeof(note) - 1);
    memcpy(note, "n1=0", 4);
    give_plain_node(cache, "n1");
    gt_cache_set_foreign(cache, note + 1, 1000);
    gt_cache_set_foreign(cache, "n1=0-3", 1000);
    gt_cache_set_foreign(cache, note, 9000);
    gt_cache_tick(cache, 1000);
    assert_int_equal(foreign(cache, "n1"), 0);
    check_cache(cache);
}

/* A node is added after the note, cordoned, and deleted. */
static void test_nodes_come_and_go(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    gt_cache_set_foreign(cache, "n1=0-3 n1=2", UINT64_MAX);
    assert_int_equal(gt_cache_foreign_gpus(cache), 0);
    give_plain_node(cache, "n1");
    assert_int_equal(foreign(cache, "n1"), 0xf);
    give_node(cache, NODE(.name = "n1", .cordoned = true));
    assert_int_equal(cluster_node(cache, "n1").available, 0);
    give_node(cache, NODE(.name = "n1"));
    assert_int_equal(cluster_node(cache, "n1").available, 0xf0);
    gt_cache_topology_deleted(cache, "n1");
    assert_int_equal(gt_cache_foreign_gpus(cache), 0);
    give_topology(cache, TOPOLOGY(.name = "n1", .gpus = 2), 0);
    assert_int_equal(foreign(cache, "n1"), 3);
    gt_cache_node_deleted(cache, "n1");
    gt_cache_topology_deleted(cache, "n1");
    gt_cache_set_foreign(cache, "", 0);
    assert_int_equal(gt_cache_foreign_gpus(cache), 0);
    check_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_gives_way_to_pods),
        cmocka_unit_test(test_its_end),
        cmocka_unit_test(test_a_note_too_long),
        cmocka_unit_test(test_nodes_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
