/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "scheduler-ext/core/capacity.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/core/score.h"
#include "tests/unit/core/core_world.h"

/* Nodes whose kubelets refuse GPUs that are spread over NUMA nodes: 8 GPUs, 0 to 3 on the first one. */

static void add_nodes(struct gt_cluster *cluster, struct gt_numa numa, unsigned gpus, unsigned nodes)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_weights weights;
    uint32_t id;
    wire_meshes(&weights, gpus, gpus / 2, 64, 8);
    weights.numa = numa;
    assert_return_code(gt_class_new(&weights, &class, NULL), 0);
    assert_return_code(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    world_nodes(cluster, "n", nodes, id, GT_NONE);
}

static struct gt_cluster *world_of(bool single, bool by_pod, unsigned nodes)
{
    struct gt_cluster *cluster = world_new();
    add_nodes(cluster, (struct gt_numa){.count = 2, .single = single, .by_pod = by_pod, .gpus = {0x0f, 0xf0}},
              8, nodes);
    return cluster;
}

static bool plans(struct gt_cluster *cluster, struct world_job *job, unsigned pods, unsigned gpus)
{
    world_job(job, pods, 1, gpus, 0);
    return world_plan(cluster, job);
}

static void no_pod_is_spread(void **state)
{
    (void)state;
    struct gt_cluster *cluster = world_of(true, false, 1);
    struct world_job job;
    double value;
    gt_cluster_set_free(cluster, 0, 0x33); /* 2 + 2 */
    assert_false(plans(cluster, &job, 1, 4));
    assert_int_equal(job.failure.numa_nodes, 1);
    assert_int_equal(gt_score_ids(cluster, 4, (const uint32_t[]){0}, 1, &value), 0);
    assert_true(isnan(value));
    assert_true(plans(cluster, &job, 2, 2));
    assert_int_equal(job.pods[0].mask, 0x03);
    assert_int_equal(job.pods[1].mask, 0x30);
    gt_cluster_set_free(cluster, 0, 0x3f);
    assert_true(plans(cluster, &job, 1, 4));
    assert_int_equal(job.pods[0].mask, 0x0f);
    gt_cluster_free(cluster);
}

static void the_whole_node_is_only_for_restricted(void **state)
{
    (void)state;
    struct gt_cluster *single = world_of(true, true, 1), *restricted = world_of(false, true, 1);
    gt_auto_free uint32_t *room = NULL;
    struct world_job job;
    assert_false(plans(single, &job, 1, 8));
    assert_false(job.failure.could_fit);
    assert_return_code(gt_capacity_empty(single, &(struct gt_empty_spec){.gpus = 8}, &room, NULL), 0);
    assert_int_equal(room[0], 0);
    assert_true(plans(restricted, &job, 1, 8));
    gt_cluster_set_free(restricted, 0, 0x33); /* 4 GPUs would fit on one NUMA node */
    assert_false(plans(restricted, &job, 1, 4));
    gt_cluster_free(single);
    gt_cluster_free(restricted);
}

/* A kubelet that judges each container: what it does with several is not predicted. */
static void several_containers_are_not_judged(void **state)
{
    (void)state;
    for (unsigned by_pod = 0; by_pod < 2; by_pod++) {
        struct gt_cluster *cluster = world_of(true, by_pod, 1);
        struct world_job job;
        world_job(&job, 1, 1, 8, 0);
        struct gt_plan_request request = world_request(&job);
        request.several = true;
        assert_int_equal(gt_plan_job(cluster, &request, &job.failure), !by_pod);
        gt_cluster_free(cluster);
    }
}

/* The kubelet does not know of promises: a pod of 2 that comes first would get GPUs of the first NUMA node,
 * and the pod of 4 that they were promised to would be refused. */
static void pods_to_come_are_served_in_any_order(void **state)
{
    (void)state;
    struct gt_cluster *cluster = world_of(true, false, 1);
    struct gt_promise_id id;
    gt_cluster_set_free(cluster, 0, 0x3f);
    assert_int_equal(gt_numa_pods(cluster, 0, 0x3f, 2), 3);
    assert_return_code(
        gt_cluster_promise(cluster, &(struct gt_promise){GT_PROMISE_PLANNED, 0, 7, 0x0f}, &id, NULL), 0);
    assert_int_equal(gt_numa_pods(cluster, 0, 0x30, 2), 0);
    gt_cluster_end_promise(cluster, id);
    gt_cluster_set_free(cluster, 0, 0xff);
    assert_return_code(
        gt_cluster_promise(cluster, &(struct gt_promise){GT_PROMISE_PLANNED, 0, 7, 0x0f}, &id, NULL), 0);
    assert_int_equal(gt_numa_pods(cluster, 0, 0xf0, 2), 2);
    assert_int_equal(gt_numa_pods(cluster, 0, 0xf0, 1), 4);
    gt_cluster_free(cluster);
}

/* What runs already asks no kubelet for anything. */
static void sizes_of_running_pods_do_not_count(void **state)
{
    (void)state;
    for (unsigned gpus = 3; gpus <= 4; gpus++) {
        struct gt_cluster *cluster = world_of(true, false, 2);
        struct world_job job;
        gt_cluster_set_free(cluster, 0, 0x33);
        gt_cluster_set_free(cluster, 1, 0);
        world_job(&job, 2, 1, 2, 0);
        job.units[0].gpus = gpus;
        job.pods[0] = (struct gt_plan_pod){.running = true, .node = 1};
        assert_true(world_plan(cluster, &job));
        gt_cluster_free(cluster);
    }
}

/* 3, 2, 3, 2 and 2 GPUs, in this order, do not get twice 6, though each divides 6. */
static void sizes_divide_each_other(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct world_job job;
    (void)state;
    add_nodes(cluster, (struct gt_numa){.count = 2, .single = true, .gpus = {0x00ff, 0xff00}}, 16, 1);
    gt_cluster_set_free(cluster, 0, 0x3f3f);
    uint32_t other = world_node(cluster, "other", world_class(cluster, 8, 4), GT_NONE);
    gt_cluster_set_free(cluster, other, 0x3f);
    world_job(&job, 6, 1, 2, 0);
    job.units[0].gpus = 6;
    job.units[1].gpus = job.units[2].gpus = 3;
    assert_false(world_plan(cluster, &job));
    gt_cluster_free(cluster);
}

/* Of 3 and 3 free GPUs a restricted kubelet gives 6 to one pod, but not to three pods of 2. */
static void smaller_pods_need_room_of_their_own(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct world_job job;
    (void)state;
    uint32_t other = world_node(cluster, "other", world_class(cluster, 8, 4), GT_NONE);
    gt_cluster_set_free(cluster, other, 0x3f);
    add_nodes(cluster, (struct gt_numa){.count = 2, .gpus = {0x0f, 0xf0}}, 8, 1);
    gt_cluster_set_free(cluster, 1, 0xd7);
    world_job(&job, 4, 1, 2, 0);
    job.units[0].gpus = 6;
    assert_false(world_plan(cluster, &job));
    world_job(&job, 3, 1, 2, 0);
    job.units[0].gpus = 6;
    assert_true(world_plan(cluster, &job));
    gt_cluster_free(cluster);
}

/* A small unit leaves an idle node idle, though its kubelet admits fewer GPUs than it has. */
static void idle_nodes_are_idle(void **state)
{
    (void)state;
    for (unsigned single = 0; single < 2; single++) {
        struct gt_cluster *cluster = world_of(single, false, 1);
        unsigned gpus = single ? 3 : 5;
        struct world_job job;
        uint32_t used = world_node(cluster, "used", world_class(cluster, 8, 4), GT_NONE);
        gt_cluster_set_free(cluster, used, single ? 0x1f : 0x3f);
        assert_true(plans(cluster, &job, 1, gpus));
        assert_int_equal(job.pods[0].node, used);
        gt_cluster_set_free(cluster, used, 0);
        assert_true(plans(cluster, &job, 1, gpus));
        assert_false(job.units[0].node_in_use);
        gt_cluster_free(cluster);
    }
}

/* ---- random jobs, admitted in random orders by a kubelet that counts ---- */

static unsigned draw(uint64_t *random, unsigned below)
{
    *random = *random * UINT64_C(6364136223846793005) + 1;
    return (unsigned)(*random >> 33) % below;
}

/* The first NUMA node with room gets the pod. */
static bool kubelet_admits(unsigned free[2], unsigned gpus)
{
    unsigned at = free[0] >= gpus ? 0 : 1;
    if (free[at] < gpus)
        return false;
    free[at] -= gpus;
    return true;
}

static void plans_are_admitted_in_any_order(void **state)
{
    (void)state;
    uint64_t random = 1;
    unsigned placed = 0;
    for (unsigned round = 0; round < 3000; round++) {
        struct gt_cluster *cluster = world_of(true, false, 2);
        unsigned free[2][2], sizes[2][16], count[2] = {0, 0};
        for (unsigned n = 0; n < 2; n++) {
            uint64_t mask = draw(&random, 256);
            gt_cluster_set_free(cluster, n, mask);
            free[n][0] = gt_bit_count(mask & 0x0f);
            free[n][1] = gt_bit_count(mask & 0xf0);
        }
        for (unsigned jobs = 0; jobs < 4; jobs++) {
            struct world_job job;
            unsigned gpus = 1 + draw(&random, 4);
            if (!plans(cluster, &job, 1 + draw(&random, 3), gpus))
                continue;
            for (uint32_t i = 0; i < job.pod_count; i++) {
                struct gt_promise_id id;
                const struct gt_plan_pod *pod = &job.pods[i];
                assert_true((pod->mask & 0x0f) == pod->mask || (pod->mask & 0xf0) == pod->mask);
                assert_return_code(
                    gt_cluster_promise(cluster,
                                       &(struct gt_promise){GT_PROMISE_PLANNED, pod->node, jobs, pod->mask},
                                       &id, NULL),
                    0);
                sizes[pod->node][count[pod->node]++] = gpus;
                placed++;
            }
        }
        for (unsigned n = 0; n < 2; n++)
            for (; count[n]; count[n]--) {
                unsigned next = draw(&random, count[n]);
                if (!kubelet_admits(free[n], sizes[n][next]))
                    fail_msg("round %u: a pod of %u is refused", round, sizes[n][next]);
                sizes[n][next] = sizes[n][count[n] - 1];
            }
        gt_cluster_free(cluster);
    }
    assert_true(placed > 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pod_is_spread),
        cmocka_unit_test(the_whole_node_is_only_for_restricted),
        cmocka_unit_test(several_containers_are_not_judged),
        cmocka_unit_test(pods_to_come_are_served_in_any_order),
        cmocka_unit_test(sizes_of_running_pods_do_not_count),
        cmocka_unit_test(sizes_divide_each_other),
        cmocka_unit_test(smaller_pods_need_room_of_their_own),
        cmocka_unit_test(idle_nodes_are_idle),
        cmocka_unit_test(plans_are_admitted_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
