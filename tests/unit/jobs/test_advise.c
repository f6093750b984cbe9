/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/advise.h"
#include "scheduler-ext/core/capacity.h"
#include "scheduler-ext/core/plan.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/jobs/mesh_cluster.h"
#include "tests/unit/seed.h"

enum { NODES = MESH_NODES, GPUS = MESH_GPUS, PODS_MAX = 12 };

static uint64_t seed;

static unsigned below(unsigned n)
{
    return mesh_below(&seed, n);
}

struct world {
    struct gt_cluster *cluster;
    uint32_t nodes[NODES];
    struct gt_running_pod pods[PODS_MAX];
    uint32_t pod_count;
};

static void world_new(struct world *world, unsigned supernodes, const struct gt_numa *numa)
{
    unsigned supers[NODES] = {0};
    *world = (struct world){0};
    for (unsigned i = 0; i < NODES && supernodes; i++)
        supers[i] = below(supernodes);
    world->cluster = mesh_cluster_new(supernodes, supers, numa, world->nodes);
}

static void add_pod(struct world *world, unsigned node, uint64_t mask, bool movable)
{
    mesh_cluster_take(world->cluster, world->nodes[node], mask);
    world->pods[world->pod_count++] =
        (struct gt_running_pod){.place = {world->nodes[node], mask}, .movable = movable};
}

static void fill(struct world *world, unsigned tries)
{
    for (unsigned i = 0; i < tries && world->pod_count < PODS_MAX; i++) {
        unsigned node = below(NODES), size = 1 + below(GPUS), shift = below(GPUS + 1 - size);
        uint64_t mask = ((UINT64_C(1) << size) - 1) << shift;
        struct gt_cluster_node n;
        gt_cluster_get_node(world->cluster, world->nodes[node], &n);
        if ((n.free & mask) == mask)
            add_pod(world, node, mask, below(4) != 0);
    }
    for (unsigned i = 0; i < NODES; i++)
        if (below(4) == 0)
            gt_cluster_set_healthy(world->cluster, world->nodes[i], ~(UINT64_C(1) << below(GPUS)));
}

/* To a pod that has not come yet. */
static void promise(struct world *world)
{
    struct gt_promise_id id;
    struct gt_cluster_node n;
    uint32_t node = world->nodes[below(NODES)];
    gt_cluster_get_node(world->cluster, node, &n);
    uint64_t mask = 0;
    for (unsigned k = 1 + below(3); k; k--)
        mask |= (n.available & ~mask) & -(n.available & ~mask);
    if (mask)
        assert_int_equal(gt_cluster_promise(world->cluster,
                                            &(struct gt_promise){.place.node = node,
                                                                 .owner = 1,
                                                                 .place.mask = mask,
                                                                 .kind = GT_PROMISE_PLANNED},
                                            &id, NULL),
                         0);
}

/* Sets the pods of `set` free or in use again. */
static void set_gone(const struct world *world, unsigned set, bool gone)
{
    for (uint32_t i = 0; i < world->pod_count; i++) {
        if (!(set >> i & 1))
            continue;
        struct gt_cluster_node n;
        gt_cluster_get_node(world->cluster, world->pods[i].place.node, &n);
        uint64_t mask = world->pods[i].place.mask;
        gt_cluster_set_free(world->cluster, world->pods[i].place.node, gone ? n.free | mask : n.free & ~mask);
    }
}

/* Whether the planner itself places the job without the pods of `set`. */
static bool fits_without(const struct world *world, unsigned set, const struct gt_advise_job *job)
{
    struct gt_plan_unit units[64];
    struct gt_plan_pod pods[256] = {{0}};
    struct gt_plan_failure failure;
    assert_true(job->runs <= GT_COUNT(units) && job->runs * job->pods <= GT_COUNT(pods));
    for (uint32_t u = 0; u < job->runs; u++)
        units[u] = (struct gt_plan_unit){.first = u * job->pods, .pods = job->pods, .gpus = job->gpus};
    for (uint32_t i = 0; i < job->runs * job->pods; i++)
        pods[i].requests = job->requests;
    set_gone(world, set, true);
    bool fits = gt_plan_job(
        world->cluster,
        &(struct gt_plan_request){
            .units = units, .unit_count = job->runs, .pods = pods, .pod_count = job->runs * job->pods},
        &failure);
    set_gone(world, set, false);
    return fits;
}

static unsigned set_of(const struct gt_advice *advice)
{
    unsigned set = 0;
    for (uint32_t i = 0; i < advice->count; i++) {
        assert_true(i == 0 || advice->moved[i] > advice->moved[i - 1]);
        set |= 1U << advice->moved[i];
    }
    return set;
}

static unsigned freed_by(const struct world *world, unsigned set)
{
    unsigned freed = 0;
    for (uint32_t i = 0; i < world->pod_count; i++) {
        struct gt_cluster_node n;
        gt_cluster_get_node(world->cluster, world->pods[i].place.node, &n);
        if (set >> i & 1)
            freed += (unsigned)__builtin_popcountll(world->pods[i].place.mask & n.healthy);
    }
    return freed;
}

/* Every set of movable pods, by number of pods, then GPUs. */
static bool brute_force(const struct world *world, const struct gt_advise_job *job, unsigned *ret_pods,
                        unsigned *ret_gpus)
{
    unsigned movable = 0, best = UINT32_MAX;
    for (uint32_t i = 0; i < world->pod_count; i++)
        movable |= (unsigned)world->pods[i].movable << i;
    for (unsigned set = 0; set < 1U << world->pod_count; set++) {
        if (set & ~movable)
            continue;
        unsigned cost = (unsigned)__builtin_popcount(set) << 16 | freed_by(world, set);
        if (cost < best && fits_without(world, set, job))
            best = cost;
    }
    *ret_pods = best >> 16;
    *ret_gpus = best & 0xffff;
    return best != UINT32_MAX;
}

static void check_random(unsigned rounds, bool judged)
{
    uint64_t start = seed;
    unsigned moved = 0;
    for (unsigned round = 0; round < rounds; round++) {
        struct world world;
        world_new(&world, below(4), judged ? mesh_numa(below(MESH_NUMAS)) : NULL);
        fill(&world, 30);
        struct gt_advise_job job = {.runs = 1 + below(3), .pods = 1 + below(3), .gpus = 1U << below(4)};
        if (judged && job.gpus > 1 && below(2)) /* two containers */
            job.requests = below(2) ? job.gpus / 2 * UINT64_C(0x101) : job.gpus - 1 + UINT64_C(0x100);
        for (unsigned k = judged ? below(5) : 0; k; k--)
            promise(&world);
        unsigned pods = 0, gpus = 0;
        bool possible = brute_force(&world, &job, &pods, &gpus);
        struct gt_advice advice;
        assert_int_equal(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL), 0);
        bool right = advice.possible == possible;
        if (right && possible) {
            unsigned set = set_of(&advice);
            right = fits_without(&world, set, &job) && advice.gpus == freed_by(&world, set) &&
                    advice.count == pods && advice.gpus == gpus;
            moved += advice.count;
        }
        if (!right)
            fail_msg("seed %llu, round %u: possible %d, %u pods, %u GPUs; expected %d, %u, %u",
                     (unsigned long long)start, round, advice.possible, advice.count, advice.gpus, possible,
                     pods, gpus);
        assert_int_equal(gt_cluster_check(world.cluster, NULL), 0);
        free(advice.moved);
        gt_cluster_free(world.cluster);
    }
    assert_true(moved > rounds / 4); /* the worlds are full enough to need advice */
}

static void test_exact(void **state)
{
    (void)state;
    check_random(400, false);
}

/* Kubelets that refuse pods spread over NUMA nodes. */
static void test_exact_where_kubelets_judge(void **state)
{
    (void)state;
    check_random(400, true);
}

static void test_fewest_then_smallest(void **state)
{
    (void)state;
    struct world world;
    world_new(&world, 0, NULL);
    for (unsigned node = 2; node < NODES; node++)
        add_pod(&world, node, 0xff, false);
    add_pod(&world, 0, 0x0f, true); /* 4: two GPUs each */
    add_pod(&world, 0, 0xf0, true);
    add_pod(&world, 1, 0x3f, true); /* 6: one pod, more GPUs */
    struct gt_advise_job job = {.runs = 1, .pods = 1, .gpus = 8};
    struct gt_advice advice;
    assert_int_equal(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL), 0);
    assert_true(advice.possible);
    assert_int_equal(advice.count, 1);
    assert_int_equal(advice.moved[0], 6);
    assert_int_equal(advice.gpus, 6);
    free(advice.moved);
    job.gpus = 4; /* node 0 frees 4 for 1 pod as node 1 does, with fewer GPUs */
    assert_int_equal(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL), 0);
    assert_int_equal(advice.count, 1);
    assert_int_equal(advice.gpus, 4);
    free(advice.moved);
    job = (struct gt_advise_job){.runs = 3, .pods = 1, .gpus = 8};
    assert_int_equal(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL), 0);
    assert_false(advice.possible);
    assert_null(advice.moved);
    job = (struct gt_advise_job){.runs = 1, .pods = 2, .gpus = 1}; /* fits already */
    assert_int_equal(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL), 0);
    assert_true(advice.possible);
    assert_int_equal(advice.count, 0);
    job.gpus = 0;
    assert_true(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL) < 0);
    job = (struct gt_advise_job){.runs = 1, .pods = 1, .gpus = 8, .work = 1};
    assert_int_equal(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL), -E2BIG);
    job = (struct gt_advise_job){.runs = 1, .pods = 1, .gpus = 100}; /* no node has them, whoever leaves */
    assert_int_equal(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL), 0);
    assert_false(advice.possible);
    /* Pods that claim the same GPUs or unknown nodes count once and not at all. */
    world.pods[world.pod_count++] = (struct gt_running_pod){.place = {world.nodes[0], 0xff}, .movable = true};
    world.pods[world.pod_count++] = (struct gt_running_pod){.place = {77, 0xff}, .movable = true};
    job = (struct gt_advise_job){.runs = 2, .pods = 1, .gpus = 8};
    assert_int_equal(gt_advise(world.cluster, world.pods, world.pod_count, &job, &advice, NULL), 0);
    assert_true(advice.possible);
    assert_int_equal(advice.gpus, 14);
    free(advice.moved);
    gt_cluster_free(world.cluster);
}

static void test_bounds(void **state)
{
    (void)state;
    static const uint32_t room[] = {0, 5, 0, 9, 3, 2};
    struct gt_bounds bounds = gt_bounds_of(room, 6, 4);
    assert_int_equal(bounds.slots, 19);
    assert_int_equal(bounds.whole, 3);
    assert_int_equal(bounds.largest, 9);
    assert_int_equal(gt_bounds_of(room, 6, 16).whole, 0);
    assert_int_equal(gt_bounds_of(room, 0, 1).slots, 0);
}

int main(void)
{
    seed = test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_exact_where_kubelets_judge),
        cmocka_unit_test(test_fewest_then_smallest),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
