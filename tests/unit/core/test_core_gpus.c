/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/plan_work.h"
#include "tests/unit/core/core_world.h"

/*
 * The GPUs that pods of one job get on one node. The oracle tries every way to give them out; nothing of the
 * product is in it but the weights.
 */
enum { PODS_MAX = 16 };

struct worth {
    unsigned long pods, batches, together, left;
};

struct oracle_node {
    const struct gt_weights *weights;
    uint64_t free, own;
    unsigned pods, gpus[PODS_MAX], batch[PODS_MAX];

    uint64_t now[PODS_MAX], best[PODS_MAX];
    struct worth worth;
    bool found;
};

static unsigned long sum_of(const struct gt_weights *weights, uint64_t mask)
{
    unsigned long sum = 0;

    for (unsigned a = 0; a < weights->n; a++)
        for (unsigned b = 0; b < a; b++)
            if (mask >> a & mask >> b & 1)
                sum += weights->w[a][b];
    return sum;
}

static struct worth worth_of(const struct oracle_node *node, const uint64_t *masks)
{
    struct worth worth = {0};
    uint64_t all = 0, batches[PODS_MAX] = {0};

    for (unsigned p = 0; p < node->pods; p++) {
        worth.pods += sum_of(node->weights, masks[p]);
        batches[node->batch[p]] |= masks[p];
        all |= masks[p];
    }
    for (unsigned q = 0; q < PODS_MAX; q++)
        worth.batches += sum_of(node->weights, batches[q]);
    worth.together = sum_of(node->weights, all | node->own);
    worth.left = sum_of(node->weights, node->free & ~all); /* the cut of equal `together` is least */
    return worth;
}

static int compare(const struct worth *a, const struct worth *b)
{
    const unsigned long x[] = {a->pods, a->batches, a->together, a->left};
    const unsigned long y[] = {b->pods, b->batches, b->together, b->left};

    for (unsigned i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] > y[i] ? 1 : -1;
    return 0;
}

/* The lowest mask of all; then the lowest masks, party after party. */
static bool is_lower(const struct oracle_node *node)
{
    uint64_t all = 0, all_best = 0, batches[PODS_MAX] = {0}, batches_best[PODS_MAX] = {0};

    for (unsigned p = 0; p < node->pods; p++) {
        all |= node->now[p];
        all_best |= node->best[p];
        batches[node->batch[p]] |= node->now[p];
        batches_best[node->batch[p]] |= node->best[p];
    }
    if (all != all_best)
        return all < all_best;
    for (unsigned q = 0; q < PODS_MAX; q++)
        if (batches[q] != batches_best[q])
            return batches[q] < batches_best[q];
    for (unsigned p = 0; p < node->pods; p++)
        if (node->now[p] != node->best[p])
            return node->now[p] < node->best[p];
    return false;
}

static void try_all(struct oracle_node *node, unsigned pod, uint64_t left)
{
    if (pod == node->pods) {
        struct worth worth = worth_of(node, node->now);
        int order = node->found ? compare(&worth, &node->worth) : 1;

        if (order > 0 || (order == 0 && is_lower(node))) {
            memcpy(node->best, node->now, sizeof(node->best));
            node->worth = worth;
            node->found = true;
        }
        return;
    }
    for (uint64_t mask = left; mask; mask = (mask - 1) & left)
        if ((unsigned)__builtin_popcountll(mask) == node->gpus[pod]) {
            node->now[pod] = mask;
            try_all(node, pod + 1, left & ~mask);
        }
}

/* How many ways there are, at most `limit`. */
static unsigned long ways_of(const struct oracle_node *node, unsigned long limit)
{
    unsigned left = (unsigned)__builtin_popcountll(node->free);
    unsigned long ways = 1;

    for (unsigned p = 0; p < node->pods; p++) {
        for (unsigned i = 0; i < node->gpus[p]; i++) {
            ways = ways * (left - i) / (i + 1);
            if (ways > limit)
                return limit + 1;
        }
        left -= node->gpus[p];
    }
    return ways;
}

static void wire(struct gt_weights *weights, unsigned n, uint64_t *random)
{
    static const unsigned sizes[] = {2, 4, 8, 3};

    switch (random_next(random) % 5) {
    case 0:
        wire_meshes(weights, n, sizes[random_next(random) % 4], 64, 8);
        break;
    case 1:
        wire_random(weights, n, 3, random); /* many are equal */
        break;
    case 2:
        wire_random(weights, n, 65536, random);
        break;
    case 3:
        wire_ring(weights, n, 5, 1);
        break;
    default:
        wire_meshes(weights, n, 4, 64, 8);
        for (unsigned i = 0; i < 3; i++) { /* dead links */
            unsigned a = (unsigned)(random_next(random) % n), b = (unsigned)(random_next(random) % n);

            if (a != b)
                wire_set(weights, a, b, 8);
        }
    }
}

static uint32_t class_of(struct gt_cluster *cluster, const struct gt_weights *weights)
{
    gt_auto_class struct gt_class *class = NULL;
    uint32_t id;

    assert_int_equal(gt_class_new(weights, &class, NULL), 0);
    assert_int_equal(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    return id;
}

/* Parties of a node with so many free GPUs, in the order that a question has. */
static void any_batches(struct oracle_node *node, struct pod_gpus_query *query, uint64_t *random)
{
    unsigned left = (unsigned)__builtin_popcountll(node->free), gpus = 16;

    node->pods = query->batches = 0;
    while (left && (!query->batches || random_next(random) % 3)) {
        unsigned k = 1 + (unsigned)(random_next(random) % (left < gpus ? left : gpus));
        unsigned most = left / k, pods = 1 + (unsigned)(random_next(random) % most);
        const struct pod_batch *before = query->batches ? &query->batch[query->batches - 1] : NULL;

        if (before && before->gpus == k && before->pods < pods)
            pods = before->pods;
        gpus = k;
        left -= k * pods;
        for (unsigned p = 0; p < pods; p++) {
            node->gpus[node->pods] = k;
            node->batch[node->pods++] = query->batches;
        }
        query->batch[query->batches++] = (struct pod_batch){(uint8_t)pods, (uint8_t)k};
    }
}

static void is_what_trying_all_finds(void **state)
{
    uint64_t random = test_seed();
    unsigned compared = 0, of_16 = 0, rounds = test_rounds(300);
    (void)state;

    for (unsigned round = 0; compared < rounds; round++) {
        struct gt_cluster *cluster = world_new();
        struct gt_weights weights;
        struct oracle_node node = {.weights = &weights};
        struct pod_gpus_query query = {0};
        unsigned n = round % 3 ? 2 + (unsigned)(random_next(&random) % 9) : 16;

        wire(&weights, n, &random);
        query.class = class_of(cluster, &weights);
        for (unsigned i = 0; i < 8; i++) { /* several on the same tables */
            uint64_t masks[PODS_MAX];

            node.free = query.free = world_mask(1 + (unsigned)(random_next(&random) % n), n, &random);
            node.own = query.own = i % 2 ? random_next(&random) & ~node.free & ((UINT64_C(1) << n) - 1) : 0;
            any_batches(&node, &query, &random);
            if (ways_of(&node, 20000) > 20000)
                continue;
            node.found = false;
            try_all(&node, 0, node.free);
            for (unsigned again = 0; again < 2; again++) { /* computed, then remembered */
                gt_choose_pod_gpus(cluster, &query, masks);
                for (unsigned p = 0; p < node.pods; p++)
                    assert_int_equal(masks[p], node.best[p]);
            }
            compared++;
            of_16 += n == 16;
        }
        gt_cluster_free(cluster);
    }
    assert_true(of_16 > 0);
}

/* On an empty node of two meshes of four, two pods of 3: each has its mesh. */
static void each_pod_has_its_mesh(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct world_job job;
    (void)state;

    world_node(cluster, "n", world_class(cluster, 8, 4), GT_NONE);
    for (unsigned units = 1; units <= 2; units++) {
        world_job(&job, units, 2 / units, 3, 0);
        assert_true(world_plan(cluster, &job));
        assert_int_equal(job.pods[0].place.mask, 0x07);
        assert_int_equal(job.pods[1].place.mask, 0x70);
    }
    gt_cluster_free(cluster);
}

/* Units are placed one after the other, and yet their pods get GPUs together: the larger pod first. */
static void pods_of_two_templates_share_a_node(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct world_job job;
    (void)state;

    world_node(cluster, "n", world_class(cluster, 8, 4), GT_NONE);
    world_job(&job, 1, 2, 2, 0);
    job.units[1] = (struct gt_plan_unit){.first = 2, .pods = 1, .gpus = 3};
    job.unit_count = 2;
    job.pod_count = 3;
    gt_cluster_set_free(cluster, 0, 0xf7); /* 0-2, 4-7 */
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.pods[0].place.mask, 0x30);
    assert_int_equal(job.pods[1].place.mask, 0xc0);
    assert_int_equal(job.pods[2].place.mask, 0x07);
    gt_cluster_free(cluster);
}

/* A new pod comes near those of its job; without them it would break the smaller rest. */
static void a_later_pod_comes_near_its_job(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct world_job job;
    (void)state;

    world_node(cluster, "n", world_class(cluster, 8, 4), GT_NONE);
    world_job(&job, 1, 2, 2, 0);
    job.pods[0] = (struct gt_plan_pod){.running = true, .place = {0, 0x30}};
    gt_cluster_set_free(cluster, 0, 0xc3); /* 0, 1, 6, 7 */
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.pods[1].place.mask, 0xc0);
    job.pods[0].place.mask = 0; /* nobody knows where it runs */
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.pods[1].place.mask, 0x03);
    gt_cluster_free(cluster);
}

/* The search for large nodes, where trying all can tell: it gives each GPU once, and how often it is right is
 * bounded below. */
static void the_search_is_mostly_right(void **state)
{
    uint64_t random = test_seed();
    unsigned right = 0, rounds = test_rounds(400);
    (void)state;

    for (unsigned round = 0; round < rounds; round++) {
        struct gt_cluster *cluster = world_new();
        gt_auto_class struct gt_class *class = NULL;
        struct gt_weights weights;
        struct oracle_node node = {.weights = &weights};
        struct pod_gpus_query query = {0};
        uint64_t masks[PODS_MAX], all = 0;

        wire(&weights, 16, &random);
        query.class = class_of(cluster, &weights);
        assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
        node.free = query.free = world_mask(2 + (unsigned)(random_next(&random) % 15), 16, &random);
        any_batches(&node, &query, &random);
        gt_choose_pod_gpus(cluster, &query, node.best);
        node.worth = worth_of(&node, node.best);
        gt_search_pod_gpus(class, &query, masks);
        for (unsigned p = 0; p < node.pods; p++) {
            assert_int_equal(__builtin_popcountll(masks[p]), node.gpus[p]);
            assert_int_equal(masks[p] & (all | ~node.free), 0);
            all |= masks[p];
        }
        struct worth worth = worth_of(&node, masks);
        assert_true(compare(&worth, &node.worth) <= 0);
        right += compare(&worth, &node.worth) == 0;
        gt_cluster_free(cluster);
    }
    print_message("the search found the best %u times of %u\n", right, rounds);
    assert_true(right * 2 > rounds);
}

static void large_nodes(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct world_job job;
    (void)state;

    world_node(cluster, "n", world_class(cluster, 32, 4), GT_NONE);
    world_job(&job, 1, 8, 3, 0);
    assert_true(world_plan(cluster, &job));
    for (unsigned p = 0; p < 8; p++)
        assert_int_equal(job.pods[p].place.mask, UINT64_C(7) << 4 * p);
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_what_trying_all_finds),
        cmocka_unit_test(each_pod_has_its_mesh),
        cmocka_unit_test(pods_of_two_templates_share_a_node),
        cmocka_unit_test(a_later_pod_comes_near_its_job),
        cmocka_unit_test(the_search_is_mostly_right),
        cmocka_unit_test(large_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
