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
    assert_int_equal(job.pods[0].place.mask, 0x03);
    assert_int_equal(job.pods[1].place.mask, 0x30);
    gt_cluster_set_free(cluster, 0, 0x3f);
    assert_true(plans(cluster, &job, 1, 4));
    assert_int_equal(job.pods[0].place.mask, 0x0f);
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
    assert_return_code(gt_capacity_empty(single, &(struct gt_empty_spec){.pod.gpus = 8}, &room, NULL), 0);
    assert_int_equal(room[0], 0);
    assert_true(plans(restricted, &job, 1, 8));
    gt_cluster_set_free(restricted, 0, 0x33); /* 4 GPUs would fit on one NUMA node */
    assert_false(plans(restricted, &job, 1, 4));
    gt_cluster_free(single);
    gt_cluster_free(restricted);
}

static uint64_t requests_of(unsigned a, unsigned b, unsigned c)
{
    return a | (uint64_t)b << 8 | (uint64_t)c << 16;
}

static bool plans_one(struct gt_cluster *cluster, unsigned gpus, uint64_t requests, uint64_t *ret_mask)
{
    struct world_job job;
    world_job(&job, 1, 1, gpus, 0);
    job.pods[0].requests = requests;
    bool placed = world_plan(cluster, &job);
    *ret_mask = job.pods[0].place.mask;
    return placed;
}

/* With the scope container, each container has its own NUMA node. */
static void containers_are_judged_one_by_one(void **state)
{
    (void)state;
    struct gt_cluster *single = world_of(true, false, 1), *by_pod = world_of(true, true, 1);
    uint64_t mask;
    double value;
    assert_true(plans_one(single, 8, requests_of(4, 4, 0), &mask));
    assert_false(plans_one(by_pod, 8, requests_of(4, 4, 0), &mask));
    assert_false(plans_one(single, 8, requests_of(5, 3, 0), &mask));
    assert_true(plans_one(single, 6, requests_of(3, 3, 0), &mask));
    assert_int_equal(gt_bit_count(mask & 0x0f), 3);
    gt_cluster_set_free(single, 0, 0x33); /* 2 + 2 */
    assert_false(plans_one(single, 4, 0, &mask));
    assert_true(plans_one(single, 4, requests_of(2, 2, 0), &mask));
    assert_int_equal(mask, 0x33);
    assert_false(plans_one(single, 4, requests_of(3, 1, 0), &mask));
    struct gt_score_parts parts;
    assert_true(gt_score_left(single, 0, UINT64_MAX, (struct gt_numa_pod){4, requests_of(2, 2, 0)}, &parts));
    assert_int_equal(parts.choice.mask, 0x33);
    assert_int_equal(gt_score_ids(single, 4, (const uint32_t[]){0}, 1, &value), 0);
    gt_cluster_set_free(single, 0, 0xff);
    gt_cluster_set_slow(single, 0, 0x01);
    const struct gt_numa_pod seven = {7, requests_of(3, 4, 0)}, eight = {8, requests_of(4, 4, 0)};
    assert_true(gt_score_slow(single, 0, UINT64_MAX, seven, GT_SLOW_AVOID, -1) > -1); /* without that GPU */
    assert_true(gt_score_slow(single, 0, UINT64_MAX, eight, GT_SLOW_AVOID, -1) < -1);
    gt_cluster_free(single);
    gt_cluster_free(by_pod);
}

/* What an init container got goes to the next one, and so do its NUMA nodes. */
static void init_containers_bind_the_next(void **state)
{
    (void)state;
    struct gt_cluster *single = world_of(true, false, 1), *restricted = world_of(false, false, 1);
    uint64_t mask, requests = requests_of(2 | GT_NUMA_INIT, 4, 0);
    gt_cluster_set_free(single, 0, 0xf3); /* 2 and 4: the init container gets the 2 */
    assert_true(plans_one(single, 4, 0, &mask));
    assert_false(plans_one(single, 4, requests, &mask));
    assert_false(plans_one(single, 4, requests_of(1 | GT_NUMA_INIT, 4, 0), &mask));
    assert_true(plans_one(single, 4, requests_of(4 | GT_NUMA_INIT, 4, 0), &mask));
    assert_true(plans_one(single, 4, requests_of(4 | GT_NUMA_INIT, 2, 2), &mask));
    assert_int_equal(mask, 0xf0);
    gt_cluster_set_free(single, 0, 0xf1); /* nor the 1 */
    assert_true(plans_one(single, 4, requests, &mask));
    assert_int_equal(mask, 0xf0);
    assert_true(plans_one(restricted, 8, requests_of(8 | GT_NUMA_INIT, 8, 0), &mask));
    assert_false(plans_one(restricted, 8, requests_of(8 | GT_NUMA_INIT, 4, 0), &mask));
    gt_cluster_free(single);
    gt_cluster_free(restricted);
}

/* The first container of a pod that is promised 2 + 2 takes 2 of 3 GPUs: a pod of 3 is refused. */
static void promised_pods_have_containers(void **state)
{
    (void)state;
    struct gt_cluster *cluster = world_of(true, false, 1);
    struct gt_promise promise = {.kind = GT_PROMISE_PLANNED, .owner = 7, .place.mask = 0xf0};
    struct gt_promise_id id;
    gt_cluster_set_free(cluster, 0, 0xf7);
    assert_return_code(gt_cluster_promise(cluster, &promise, &id, NULL), 0);
    assert_int_equal(gt_numa_pods(cluster, 0, 0x07, (struct gt_numa_pod){3, 0}), 1);
    gt_cluster_end_promise(cluster, id);
    promise.requests = requests_of(2, 2, 0);
    assert_return_code(gt_cluster_promise(cluster, &promise, &id, NULL), 0);
    assert_int_equal(gt_numa_pods(cluster, 0, 0x07, (struct gt_numa_pod){3, 0}), 0);
    gt_cluster_free(cluster);
}

/* With too many containers to be told apart, the kubelet is not predicted. */
static void too_many_containers_are_left_to_the_kubelet(void **state)
{
    (void)state;
    struct gt_cluster *single = world_of(true, false, 1), *by_pod = world_of(true, true, 1);
    uint64_t mask;
    assert_true(plans_one(single, 8, GT_NUMA_TOO_MANY, &mask));
    assert_int_equal(gt_numa_pods(single, 0, 0xff, (struct gt_numa_pod){8, GT_NUMA_TOO_MANY}), 1);
    assert_false(plans_one(by_pod, 8, GT_NUMA_TOO_MANY, &mask));
    gt_cluster_free(single);
    gt_cluster_free(by_pod);
}

/* Of pods with several requests in one job, those that divide each other are placed; init containers of other
 * sizes are not, beside other pods. */
static void jobs_of_unequal_pods(void **state)
{
    (void)state;
    struct gt_cluster *cluster = world_of(true, false, 1);
    struct world_job job;
    world_job(&job, 2, 1, 4, 0);
    job.pods[0].requests = requests_of(2, 2, 0);
    assert_true(world_plan(cluster, &job));
    job.pods[0].requests = requests_of(4 | GT_NUMA_INIT, 4, 0);
    assert_true(world_plan(cluster, &job));
    job.pods[0].requests = requests_of(3, 1, 0);
    assert_false(world_plan(cluster, &job)); /* 3 does not divide 4 */
    job.pods[0].requests = requests_of(2 | GT_NUMA_INIT, 4, 0);
    assert_false(world_plan(cluster, &job));
    gt_cluster_free(cluster);
}

/* Against a kubelet that draws what is left to chance: what is served is admitted, each time; and where one
 * NUMA node must do, what is not served is refused. */
static void serving_is_what_the_kubelet_does(void **state)
{
    unsigned served = 0, refused = 0, several = 0;
    uint64_t random = 3;
    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        struct gt_cluster_node node;
        struct gt_cluster *cluster = world_new();
        unsigned parts = random_next(&random) % 2 ? 2 : 4, gpus = 2 + random_next(&random) % 7;
        struct gt_numa numa = {.count = parts, .single = random_next(&random) % 2};
        for (unsigned d = 0; d < parts; d++)
            numa.gpus[d] = parts == 2 ? 0x0fu << 4 * d : 3u << 2 * d;
        add_nodes(cluster, numa, 8, 1);
        assert_true(gt_cluster_get_node(cluster, 0, &node));
        uint64_t free = random_next(&random) & 0xff, masks[GT_NUMA_REQUESTS_MAX], all = 0;
        struct gt_numa_pod pod = world_numa_pod(gpus, &random);
        uint64_t mask = gt_numa_serve(node.class, free, pod, masks);
        unsigned count = 0, admitted = 0;
        for (unsigned i = 0; i < 8; i++) {
            uint64_t left = free;
            admitted += world_kubelet_admits(node.class, &left, pod, &random);
        }
        for (uint64_t requests = mask ? pod.requests : 0; requests; requests >>= 8, count++) {
            assert_int_equal(gt_bit_count(masks[count]), requests & 0x7f);
            all |= masks[count];
        }
        assert_int_equal(mask & ~free, 0);
        assert_int_equal(mask ? 8 : numa.single ? 0 : admitted, admitted);
        assert_true(!mask || gt_bit_count(mask) == gpus);
        assert_true(!count || all == mask);
        if (mask && count) { /* the same again, of these GPUs alone */
            uint64_t again[GT_NUMA_REQUESTS_MAX];
            assert_int_equal(gt_numa_serve(node.class, mask, pod, again), mask);
            for (unsigned i = 0; i < count; i++)
                assert_int_equal(gt_bit_count(again[i]), gt_bit_count(masks[i]));
        }
        served += mask != 0;
        several += mask && pod.requests;
        refused += !mask;
        gt_cluster_free(cluster);
    }
    assert_true(served > 2000 && several > 1000 && refused > 2000);
}

/* The kubelet does not know of promises: a pod of 2 that comes first would get GPUs of the first NUMA node,
 * and the pod of 4 that they were promised to would be refused. */
static void pods_to_come_are_served_in_any_order(void **state)
{
    (void)state;
    struct gt_cluster *cluster = world_of(true, false, 1);
    struct gt_promise_id id;
    gt_cluster_set_free(cluster, 0, 0x3f);
    assert_int_equal(gt_numa_pods(cluster, 0, 0x3f, (struct gt_numa_pod){2, 0}), 3);
    assert_return_code(gt_cluster_promise(cluster,
                                          &(struct gt_promise){GT_PROMISE_PLANNED, {0, 0x0f}, 7, 0, 0, 0},
                                          &id, NULL),
                       0);
    assert_int_equal(gt_numa_pods(cluster, 0, 0x30, (struct gt_numa_pod){2, 0}), 0);
    gt_cluster_end_promise(cluster, id);
    gt_cluster_set_free(cluster, 0, 0xff);
    assert_return_code(gt_cluster_promise(cluster,
                                          &(struct gt_promise){GT_PROMISE_PLANNED, {0, 0x0f}, 7, 0, 0, 0},
                                          &id, NULL),
                       0);
    assert_int_equal(gt_numa_pods(cluster, 0, 0xf0, (struct gt_numa_pod){2, 0}), 2);
    assert_int_equal(gt_numa_pods(cluster, 0, 0xf0, (struct gt_numa_pod){1, 0}), 4);
    gt_cluster_free(cluster);
}

/* Likewise pods that do not exist yet: their GPUs are reserved, or Kueue has let them in. */
static void places_of_pods_that_do_not_exist(void **state)
{
    static const struct {
        enum gt_promise_kind kind;
        unsigned pods; /* of 1 GPU */
    } cases[] = {{GT_PROMISE_PLANNED, 0},
                 {GT_PROMISE_RESERVED, 0},
                 {GT_PROMISE_ADMITTED, 0},
                 {GT_PROMISE_FOREIGN, 2}}; /* nobody knows of which pods */
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        struct gt_cluster *cluster = world_of(true, false, 1);
        struct gt_promise_id id;
        gt_cluster_set_free(cluster, 0, 0x3f);
        const struct gt_promise promise = {.kind = cases[i].kind, .owner = 7, .place.mask = 0x0f};
        assert_return_code(gt_cluster_promise(cluster, &promise, &id, NULL), 0);
        assert_int_equal(gt_numa_pods(cluster, 0, 0x30, (struct gt_numa_pod){1, 0}), cases[i].pods);
        gt_cluster_free(cluster);
    }
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
        job.pods[0] = (struct gt_plan_pod){.running = true, .place.node = 1};
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
        assert_int_equal(job.pods[0].place.node, used);
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

static void plans_are_admitted_in_any_order(void **state)
{
    (void)state;
    uint64_t random = 1;
    unsigned placed = 0, several = 0;
    for (unsigned round = 0; round < 3000; round++) {
        struct gt_cluster *cluster = world_of(true, false, 2);
        struct gt_numa_pod come[2][16];
        unsigned count[2] = {0, 0};
        uint64_t free[2];
        struct gt_cluster_node node;
        for (unsigned n = 0; n < 2; n++) {
            free[n] = draw(&random, 256);
            gt_cluster_set_free(cluster, n, free[n]);
        }
        for (unsigned jobs = 0; jobs < 4; jobs++) {
            struct world_job job;
            struct gt_numa_pod pod = world_numa_pod(1 + draw(&random, 4), &random);
            world_job(&job, 1 + draw(&random, 3), 1, pod.gpus, 0);
            for (uint32_t i = 0; i < job.pod_count; i++)
                job.pods[i].requests =
                    draw(&random, 4) ? pod.requests : world_numa_pod(pod.gpus, &random).requests;
            if (!world_plan(cluster, &job))
                continue;
            for (uint32_t i = 0; i < job.pod_count; i++) {
                struct gt_promise_id id;
                const struct gt_plan_pod *at = &job.pods[i];
                assert_true(gt_cluster_get_node(cluster, at->place.node, &node));
                const struct gt_promise promise = {GT_PROMISE_PLANNED, at->place, jobs, at->requests, 0, 0};
                assert_return_code(gt_cluster_promise(cluster, &promise, &id, NULL), 0);
                come[at->place.node][count[at->place.node]++] = (struct gt_numa_pod){pod.gpus, at->requests};
                placed++;
                several += at->requests != 0;
            }
        }
        for (unsigned n = 0; n < 2; n++)
            for (; count[n]; count[n]--) {
                unsigned next = draw(&random, count[n]);
                assert_true(gt_cluster_get_node(cluster, n, &node));
                if (!world_kubelet_admits(node.class, &free[n], come[n][next], &random))
                    fail_msg("round %u: a pod of %u is refused (%#llx)", round, come[n][next].gpus,
                             (unsigned long long)come[n][next].requests);
                come[n][next] = come[n][count[n] - 1];
            }
        gt_cluster_free(cluster);
    }
    assert_true(placed > 3000 && several > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pod_is_spread),
        cmocka_unit_test(the_whole_node_is_only_for_restricted),
        cmocka_unit_test(containers_are_judged_one_by_one),
        cmocka_unit_test(init_containers_bind_the_next),
        cmocka_unit_test(promised_pods_have_containers),
        cmocka_unit_test(too_many_containers_are_left_to_the_kubelet),
        cmocka_unit_test(jobs_of_unequal_pods),
        cmocka_unit_test(serving_is_what_the_kubelet_does),
        cmocka_unit_test(pods_to_come_are_served_in_any_order),
        cmocka_unit_test(places_of_pods_that_do_not_exist),
        cmocka_unit_test(sizes_of_running_pods_do_not_count),
        cmocka_unit_test(sizes_divide_each_other),
        cmocka_unit_test(smaller_pods_need_room_of_their_own),
        cmocka_unit_test(idle_nodes_are_idle),
        cmocka_unit_test(plans_are_admitted_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
