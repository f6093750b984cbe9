/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cache/cache_world.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/seed.h"

/*
 * The same objects make the same cluster, in any order and after any earlier state: a restart needs that,
 * too. Random worlds; GPUTOPO_SEED repeats one.
 */
enum { NODES = 6, SUPERS = 5, PODS = 14, WORLDS = 60, ORDERS = 4, DETOURS = 40 };

static uint64_t seed_given;

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static unsigned below(uint64_t *state, unsigned limit)
{
    return (unsigned)(random_next(state) % limit);
}

static const char *const node_names[NODES] = {"n0", "n1", "n2", "n3", "n4", "n5"};
static const char *const super_names[SUPERS] = {"s0", "s1", "s2", "s3", "s4"};
static const char *const pod_names[PODS] = {"p0", "p1", "p2", "p3",  "p4",  "p5",  "p6",
                                            "p7", "p8", "p9", "p10", "p11", "p12", "p13"};
static const char *const uids[] = {"u0", "u1"};

struct world { /* one state of every object; without a name: it is not there */
    struct world_topology topologies[NODES];
    struct world_node nodes[NODES];
    struct world_supernode supers[SUPERS];
    struct world_pod pods[PODS];
};

static void make_topology(uint64_t *state, unsigned n, struct world_topology *ret)
{
    *ret = (struct world_topology){.gpus = 4U << below(state, 2)};
    if (!below(state, 6))
        return;
    ret->name = node_names[n];
    ret->unhealthy = below(state, 4) ? 0 : 1U << below(state, 8);
    ret->unnamed = below(state, 4) ? 0 : below(state, 256) & ~ret->unhealthy;
    ret->silent_on_usage = !below(state, 8);
    ret->link_down = !below(state, 6);
    ret->shared = !below(state, 12);
    ret->owners_since = below(state, 2) ? NULL : "2026-01-01T00:00:02Z";
    uint64_t left = (UINT64_C(1) << ret->gpus) - 1;
    for (unsigned o = 0; o < below(state, 4); o++) {
        uint64_t mask = random_next(state) & random_next(state) & left;
        ret->owners[o] = (struct world_owner){pod_names[below(state, PODS)], mask};
        left &= ~mask;
        if (!mask)
            ret->owners[o].mask = left & -left;
    }
}

static void make_pod(uint64_t *state, unsigned p, struct world_pod *ret)
{
    static const char *const times[] = {"2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z",
                                        "2026-01-01T00:00:03Z"};
    *ret = (struct world_pod){.gpus = 1 + below(state, 4), .uid = uids[below(state, 2)]};
    if (!below(state, 5))
        return;
    ret->name = pod_names[p];
    ret->created = times[below(state, 3)];
    ret->job = below(state, 3) ? "j" : NULL;
    if (below(state, 2))
        ret->node = node_names[below(state, NODES)];
    else
        ret->gated = below(state, 2);
    if (below(state, 2)) {
        ret->plan_node = ret->node && below(state, 4) ? ret->node : node_names[below(state, NODES)];
        for (unsigned i = 0, gpu = below(state, 8); i < ret->gpus; i++)
            ret->plan_mask |= UINT64_C(1) << (gpu + i) % 8;
    }
}

static void make_supernode(uint64_t *state, unsigned s, struct world_supernode *ret)
{
    *ret = (struct world_supernode){.tier = 1 + below(state, 3)};
    if (!below(state, 5))
        return;
    ret->name = super_names[s];
    if (below(state, 2))
        ret->parent = super_names[below(state, SUPERS)];
    if (ret->parent == ret->name)
        ret->parent = NULL;
    for (unsigned i = 0, count = below(state, 4); i < count; i++)
        ret->members[i] = node_names[below(state, NODES)];
}

static void make_world(uint64_t *state, struct world *ret)
{
    for (unsigned n = 0; n < NODES; n++) {
        make_topology(state, n, &ret->topologies[n]);
        ret->nodes[n] = (struct world_node){.name = below(state, 6) ? node_names[n] : NULL,
                                            .not_ready = !below(state, 8),
                                            .cordoned = !below(state, 8)};
    }
    for (unsigned s = 0; s < SUPERS; s++)
        make_supernode(state, s, &ret->supers[s]);
    for (unsigned p = 0; p < PODS; p++)
        make_pod(state, p, &ret->pods[p]);
}

/* Brings object number `i` into the state that the world has for it. */
static void give(struct gt_cache *cache, const struct world *world, unsigned i)
{
    if (i < NODES) {
        if (world->topologies[i].name)
            give_topology(cache, &world->topologies[i], 1);
        else
            gt_cache_topology_deleted(cache, node_names[i]);
    } else if (i < 2 * NODES) {
        if (world->nodes[i - NODES].name)
            give_node(cache, &world->nodes[i - NODES]);
        else
            gt_cache_node_deleted(cache, node_names[i - NODES]);
    } else if (i < 2 * NODES + SUPERS) {
        if (world->supers[i - 2 * NODES].name)
            give_supernode(cache, &world->supers[i - 2 * NODES]);
        else
            gt_cache_supernode_deleted(cache, super_names[i - 2 * NODES]);
    } else {
        unsigned p = i - 2 * NODES - SUPERS;
        if (world->pods[p].name)
            give_pod(cache, &world->pods[p]);
        else
            gt_cache_pod_deleted(cache, "ns", pod_names[p]);
    }
    check_cache(cache);
}

enum { OBJECTS = 2 * NODES + SUPERS + PODS };

/* ---- the state as a text, with names in the place of numbers ---- */

static void write_supers(struct gt_cluster *cluster, uint32_t id, struct gt_buf *to)
{
    struct gt_cluster_supernode super;
    for (; id != GT_NONE && gt_cluster_get_supernode(cluster, id, &super); id = super.parent)
        gt_buf_printf(to, " <%s tier %u nodes %u gpus %u", super.name, super.tier, super.nodes,
                      super.available);
}

static void write_node(struct gt_cache *cache, const char *name, struct gt_buf *to)
{
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    uint32_t id = gt_cluster_find_node(cluster, name);
    struct gt_cluster_node node;
    if (!gt_cluster_get_node(cluster, id, &node))
        return;
    gt_buf_printf(to,
                  "%s all %" PRIx64 " free %" PRIx64 " healthy %" PRIx64 " assumed %" PRIx64
                  " available %" PRIx64 "%s",
                  name, node.all, node.free, node.healthy, node.assumed, node.available,
                  node.eligible ? " eligible" : "");
    for (unsigned i = 0; i < GT_GPUS_MAX; i++) {
        const struct gt_cache_pod *user = gt_cache_gpu_user(cache, id, i);
        gt_buf_printf(to, "%s%s", user ? " " : "", user ? user->meta.name : "");
    }
    write_supers(cluster, node.supernode, to);
    gt_buf_puts(to, "\n");
}

static const char *name_of(struct gt_cache *cache, uint32_t id)
{
    struct gt_cluster_node node;
    return gt_cluster_get_node(gt_cache_cluster(cache), id, &node) ? node.name : "-";
}

static void write_state(struct gt_cache *cache, struct gt_buf *to)
{
    struct gt_cache_counters counters;
    for (unsigned n = 0; n < NODES; n++)
        write_node(cache, node_names[n], to);
    for (unsigned p = 0; p < PODS; p++) {
        struct gt_cache_pod *pod = gt_cache_find_pod(cache, "ns", pod_names[p]);
        if (!pod)
            continue;
        gt_buf_printf(to, "%s uid %s job %s of %u state %d on %s (%s) plan %d on %s of %" PRIx64 "%s\n",
                      pod->meta.name, pod->uid, pod->job->key, pod->job->pod_count, pod->state,
                      name_of(cache, pod->node), pod->node_name ? pod->node_name : "-", pod->plan,
                      name_of(cache, pod->planned.node), pod->planned.mask,
                      gt_cluster_find_promise(gt_cache_cluster(cache), pod->promise) ? " assumed" : "");
    }
    gt_cache_counters(cache, &counters);
    gt_buf_printf(to, "nodes %u without %u stale %u supernodes %u jobs %u pods %u %u %u %u\n", counters.nodes,
                  counters.nodes_without_topology, counters.nodes_stale, counters.supernodes, counters.jobs,
                  counters.pods[0], counters.pods[1], counters.pods[2], counters.pods[3]);
    assert_false(to->failed);
}

/* Fails with the lines that differ. */
static void assert_same(const char *found, const char *expected, const char *what, unsigned world)
{
    if (strcmp(found, expected) == 0)
        return;
    printf("GPUTOPO_SEED=%" PRIu64 ": world %u, %s\n", seed_given, world, what);
    while (*found || *expected) {
        size_t a = strcspn(found, "\n"), b = strcspn(expected, "\n");
        if (a != b || memcmp(found, expected, a) != 0)
            printf("  found    %.*s\n  expected %.*s\n", (int)a, found, (int)b, expected);
        found += a + (found[a] != '\0');
        expected += b + (expected[b] != '\0');
    }
    fail_msg("the states differ");
}

/* What must hold of any world, worked out by itself. */
static void check_sense(struct gt_cache *cache, const struct world *world)
{
    for (unsigned n = 0; n < NODES; n++) {
        const struct world_topology *topology = &world->topologies[n];
        struct gt_cluster_node node;
        uint32_t id = gt_cluster_find_node(gt_cache_cluster(cache), node_names[n]);
        assert_int_equal(id != GT_NONE, topology->name != NULL);
        if (!topology->name)
            continue;
        assert_true(gt_cluster_get_node(gt_cache_cluster(cache), id, &node));
        uint64_t used = 0;
        for (unsigned o = 0; o < WORLD_OWNERS && topology->owners[o].pod; o++)
            used |= topology->owners[o].mask;
        used |= topology->unnamed;
        if (topology->silent_on_usage)
            used = 0;
        assert_int_equal(node.available & (used | topology->unhealthy), 0);
        assert_int_equal(node.assumed & (used | topology->unhealthy), 0);
        /* Pods on it have as many GPUs as they ask for, or nothing is left over. */
        unsigned asked = 0, had = 0;
        uint64_t planned = 0;
        for (unsigned p = 0; p < PODS; p++) {
            struct gt_cache_pod *pod = gt_cache_find_pod(cache, "ns", pod_names[p]);
            if (pod && pod->node == id) {
                asked += pod->gpus;
                had += (unsigned)__builtin_popcountll(gpus_of(cache, node_names[n], pod_names[p]));
            } else if (pod && pod->plan == GT_CACHE_PLAN_ASSUMED && pod->planned.node == id)
                planned |= pod->planned.mask;
        }
        unsigned unnamed = (unsigned)__builtin_popcountll(topology->silent_on_usage ? 0 : topology->unnamed);
        if (had + unnamed < asked)
            assert_int_equal(node.free & node.healthy & ~node.assumed, 0);
        assert_int_equal(planned & node.available, 0);
    }
}

static void shuffle(uint64_t *state, unsigned *order, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        order[i] = i;
    for (unsigned i = count; i > 1; i--) {
        unsigned j = below(state, i), t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}

static void test_any_order(void **unused)
{
    (void)unused;
    for (unsigned w = 0; w < WORLDS; w++) {
        uint64_t state = seed_given + w * 1000003;
        struct world world, other;
        unsigned order[OBJECTS];
        make_world(&state, &world);
        gt_auto_cache struct gt_cache *first = new_cache(NULL);
        gt_auto_buf struct gt_buf expected = GT_BUF(1 << 20);
        for (unsigned i = 0; i < OBJECTS; i++)
            give(first, &world, i);
        write_state(first, &expected);
        check_sense(first, &world);
        for (unsigned o = 0; o < ORDERS; o++) {
            gt_auto_cache struct gt_cache *cache = new_cache(NULL);
            gt_auto_buf struct gt_buf found = GT_BUF(1 << 20);
            make_world(&state, &other); /* what some of them were before */
            for (unsigned i = 0; i < DETOURS; i++)
                give(cache, below(&state, 2) ? &world : &other, below(&state, OBJECTS));
            shuffle(&state, order, OBJECTS);
            for (unsigned i = 0; i < OBJECTS; i++)
                give(cache, &world, order[i]);
            write_state(cache, &found);
            assert_same(found.data, expected.data, "another order", w);
        }
        /* Everything is deleted, and nothing is left. */
        memset(&other, 0, sizeof(other));
        shuffle(&state, order, OBJECTS);
        for (unsigned i = 0; i < OBJECTS; i++)
            give(first, &other, order[i]);
        assert_int_equal(gt_cluster_assumptions(gt_cache_cluster(first)), 0);
        struct gt_cache_counters counters;
        gt_cache_counters(first, &counters);
        assert_int_equal(counters.nodes + counters.supernodes + counters.jobs, 0);
        assert_null(gt_cache_next_pod(first, NULL));
    }
}

/* The caller's plans, and a new cache that reads them from the objects. */
static void test_restart(void **unused)
{
    (void)unused;
    for (unsigned w = 0; w < WORLDS; w++) {
        uint64_t state = seed_given + 77 + w * 1000003;
        struct world world;
        make_world(&state, &world);
        gt_auto_cache struct gt_cache *cache = new_cache(NULL);
        for (unsigned i = 0; i < OBJECTS; i++)
            give(cache, &world, i);
        for (unsigned i = 0; i < 60; i++) {
            struct world_pod *reported = &world.pods[below(&state, PODS)];
            struct gt_cache_pod *pod = reported->name ? gt_cache_find_pod(cache, "ns", reported->name) : NULL;
            uint32_t id = gt_cluster_find_node(gt_cache_cluster(cache), node_names[below(&state, NODES)]);
            struct gt_cluster_node node;
            struct gt_choice choice;
            if (!pod || reported->node || !gt_cluster_get_node(gt_cache_cluster(cache), id, &node))
                continue;
            if (below(&state, 4) == 0) {
                gt_cache_unplan_pod(cache, pod);
                assert_int_equal(pod->plan, GT_CACHE_PLAN_NONE);
                reported->plan_node = NULL;
                reported->plan_mask = 0;
            } else if (gt_choose(node.class, node.available, 0, pod->gpus, 0, &choice)) {
                assert_int_equal(gt_cache_plan_pod(cache, pod, id, choice.mask, NULL), 0);
                assert_int_equal(pod->plan, GT_CACHE_PLAN_ASSUMED);
                assert_int_equal(pod->planned.mask, choice.mask);
                reported->plan_node = node.name;
                for (unsigned n = 0; n < NODES; n++)
                    if (strcmp(node_names[n], reported->plan_node) == 0)
                        reported->plan_node = node_names[n];
                reported->plan_mask = choice.mask;
            }
            check_cache(cache);
        }
        gt_auto_cache struct gt_cache *again = new_cache(NULL);
        gt_auto_buf struct gt_buf before = GT_BUF(1 << 20), after = GT_BUF(1 << 20);
        for (unsigned i = OBJECTS; i-- > 0;)
            give(again, &world, i);
        write_state(cache, &before);
        write_state(again, &after);
        assert_same(after.data, before.data, "after a restart", w);
    }
}

int main(void)
{
    seed_given = test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
