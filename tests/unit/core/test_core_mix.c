/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/score.h"
#include "tests/unit/core/core_world.h"

/* The value of a mix of pods for the rest of nodes, against the formula of mix.h computed by recursion. */

enum { SHAPES = 5 };
static const int64_t gib = INT64_C(1) << 30;

struct shape {
    unsigned gpus;
    int64_t cores, quads; /* of 4 GiB */
    double weight;
};

static struct gt_mix_amounts amounts(unsigned gpus, int64_t cores, int64_t quads)
{
    return (struct gt_mix_amounts){.gpus = gpus,
                                   .of = {[GT_MIX_CPU] = 1000 * cores, [GT_MIX_MEMORY] = 4 * gib * quads}};
}

static double worth(const struct shape *shapes, bool memory, unsigned gpus, int64_t left)
{
    double sum = 0, likely = 0, all = 0;
    for (unsigned i = 0; i < SHAPES; i++)
        all += shapes[i].weight;
    for (unsigned i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        int64_t asked = memory ? s->quads : s->cores;
        if (!s->gpus || s->gpus > gpus || asked > left)
            continue;
        sum += s->weight / all * (s->gpus + worth(shapes, memory, gpus - s->gpus, left - asked));
        likely += s->weight / all;
    }
    return sum / (likely + 0.01);
}

static void follows_the_formula(void **state)
{
    (void)state;
    srand(7);
    for (unsigned round = 0; round < test_rounds(200); round++) {
        GT_CLEANUP(gt_mix_free) struct gt_mix *mix = NULL;
        struct shape shapes[SHAPES] = {{0}};
        assert_int_equal(gt_mix_new(&mix, NULL), 0);
        for (unsigned i = 0; i < SHAPES; i++) {
            shapes[i] = (struct shape){1 + (unsigned)rand() % 4, rand() % 20, rand() % 20, 0};
            for (unsigned j = 0; j < i; j++) /* one shape is there once */
                if (shapes[j].gpus == shapes[i].gpus && shapes[j].cores == shapes[i].cores)
                    shapes[i].cores += 20;
        }
        unsigned pods = 64 + (unsigned)rand() % 300;
        for (unsigned i = 0; i < pods; i++) {
            struct shape *shape = &shapes[(unsigned)rand() % SHAPES];
            struct gt_mix_amounts pod = amounts(shape->gpus, shape->cores, shape->quads);
            gt_mix_came(mix, &pod);
            shape->weight += shape->gpus * exp2(i / (double)GT_MIX_HALF_LIFE);
        }
        for (unsigned i = 0; i < 20; i++) {
            unsigned has = (unsigned)rand() % 7, asked = has ? (unsigned)rand() % has : 0;
            int64_t cores = rand() % 100, quads = rand() % 100;
            int64_t takes = cores ? rand() % cores : 0, takes_quads = quads ? rand() % quads : 0;
            struct gt_mix_amounts left = amounts(has, cores, quads), pod = amounts(asked, takes, takes_quads);
            unsigned rest = has - asked;
            double before = fmin(worth(shapes, false, has, cores), worth(shapes, true, has, quads)),
                   after = fmin(worth(shapes, false, rest, cores - takes),
                                worth(shapes, true, rest, quads - takes_quads)),
                   expected = before - after - asked;
            double got = gt_mix_stranded(mix, &left, &pod);
            if (fabs(got - expected) > 0.001)
                fail_msg("round %u: %g, expected %g", round, got, expected);
        }
    }
}

static void knows_nothing_at_first(void **state)
{
    (void)state;
    GT_CLEANUP(gt_mix_free) struct gt_mix *mix = NULL;
    assert_int_equal(gt_mix_new(&mix, NULL), 0);
    struct gt_mix_amounts left = amounts(8, 96, 96), pod = amounts(1, 12, 1), none = amounts(0, 12, 1);
    assert_true(gt_mix_stranded(mix, &left, &pod) == 0);
    gt_mix_came(mix, &none); /* one without GPUs says nothing of what GPUs need */
    assert_true(gt_mix_stranded(mix, &left, &none) == 0);
    for (unsigned i = 0; i < 63; i++)
        gt_mix_came(mix, &pod);
    assert_true(gt_mix_stranded(mix, &left, &pod) == 0);
    gt_mix_came(mix, &pod);
    assert_true(gt_mix_stranded(mix, &left, &pod) != 0);
    left.gpus = 0; /* a node without GPUs */
    gt_mix_came(mix, &pod);
    assert_true(gt_mix_stranded(mix, &left, &none) == 0);
}

/* Amounts may be anything: of what is not told there is enough. */
static void takes_any_amount(void **state)
{
    (void)state;
    GT_CLEANUP(gt_mix_free) struct gt_mix *mix = NULL;
    assert_int_equal(gt_mix_new(&mix, NULL), 0);
    static const int64_t edge[] = {INT64_MIN, -1, 0, 1, 999, 1000, 511000, INT64_MAX / 2, INT64_MAX};
    for (unsigned a = 0; a < GT_COUNT(edge); a++)
        for (unsigned b = 0; b < GT_COUNT(edge); b++) {
            struct gt_mix_amounts pod = {.gpus = 1 + a,
                                         .of = {edge[a] < 0 ? 0 : edge[a], edge[b] < 0 ? 0 : edge[b]}},
                                  left = {.gpus = 64, .of = {edge[b], edge[a]}};
            gt_mix_came(mix, &pod);
            assert_true(isfinite(gt_mix_stranded(mix, &left, &pod)));
        }
    for (unsigned i = 0; i < 200; i++) { /* more shapes than are kept */
        struct gt_mix_amounts pod = amounts(1 + i % 8, i, 200 - i), left = amounts(8, 96, 96);
        gt_mix_came(mix, &pod);
        assert_true(isfinite(gt_mix_stranded(mix, &left, &pod)));
    }
    struct gt_mix_amounts one = amounts(1, 1, 1), free = {.gpus = 8, .of = {INT64_MAX, INT64_MAX}};
    for (unsigned i = 0; i < 50000; i++) /* weights grow, and are brought back */
        gt_mix_came(mix, &one);
    assert_true(fabs(gt_mix_stranded(mix, &free, &one)) < 0.1);
}

/* Pods of a GPU and 12 cores. A pod of a GPU that asks for little goes where there are GPUs without cores,
 * one that needs many where there are cores without GPUs. An exact fit comes first all the same. */
static void scores_follow_it(void **state)
{
    (void)state;
    GT_CLEANUP(gt_mix_free) struct gt_mix *mix = NULL;
    assert_int_equal(gt_mix_new(&mix, NULL), 0);
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 8);
    for (unsigned i = 0; i < 100; i++) {
        struct gt_mix_amounts usual = amounts(1, 12, 0);
        gt_mix_came(mix, &usual);
    }
    uint32_t ids[3];
    for (unsigned i = 0; i < 3; i++)
        ids[i] = world_node(cluster, (const char *[]){"poor", "even", "rich"}[i], class, GT_NONE);
    const int64_t cores[] = {20, 48, 90};
    double values[3];
    const struct gt_mix_amounts small = amounts(1, 1, 0), large = amounts(1, 40, 0), none = amounts(0, 40, 0);
    const struct {
        const struct gt_mix_amounts *pod;
        unsigned best;
    } cases[] = {{&small, 0}, {&large, 2}, {&none, 2}};
    for (unsigned c = 0; c < GT_COUNT(cases); c++) {
        for (unsigned i = 0; i < 3; i++) {
            gt_cluster_set_free(cluster, ids[i], 0x0f);
            struct gt_mix_amounts left = amounts(4, cores[i], 100);
            struct gt_score_parts parts = {0};
            if (cases[c].pod->gpus)
                assert_true(gt_score_one(cluster, ids[i], 1, &parts));
            values[i] = cores[i] * 1000 < cases[c].pod->of[GT_MIX_CPU]
                            ? (double)NAN
                            : gt_score_strand(cluster, mix, &left, cases[c].pod, parts.value);
        }
        assert_int_equal(gt_score_first(cluster, values, ids, 3), cases[c].best);
    }
    gt_cluster_free(cluster);
}

static void an_exact_fit_stays_first(void **state)
{
    (void)state;
    srand(8);
    for (unsigned round = 0; round < test_rounds(2000); round++) {
        GT_CLEANUP(gt_mix_free) struct gt_mix *mix = NULL;
        assert_int_equal(gt_mix_new(&mix, NULL), 0);
        struct gt_cluster *cluster = world_new();
        struct gt_aware_weights weights = {1 + rand() % 3, 0.5 * (1 + rand() % 4), 0.25 * (1 + rand() % 80),
                                           0, 0};
        assert_int_equal(gt_score_set_weights(cluster, &weights, NULL), 0);
        struct gt_aware_range range = gt_score_range(&weights);
        uint32_t class = world_class(cluster, 8, 1U << rand() % 4);
        unsigned k = 1 + (unsigned)rand() % 4;
        for (unsigned i = 0; i < 64; i++) {
            struct gt_mix_amounts pod = amounts(1 + (unsigned)rand() % 8, rand() % 40, rand() % 40);
            gt_mix_came(mix, &pod);
        }
        for (unsigned i = 0; i < 10; i++) {
            char name[16];
            snprintf(name, sizeof(name), "n%u", i);
            uint32_t id = world_node(cluster, name, class, GT_NONE);
            gt_cluster_set_free(cluster, id, (uint64_t)rand());
            struct gt_score_parts parts;
            if (!gt_score_one(cluster, id, k, &parts))
                continue;
            struct gt_mix_amounts pod = amounts(k, rand() % 20, rand() % 20),
                                  left = amounts(gt_cluster_available(cluster)[id], 20 + rand() % 80, 20);
            double value = gt_score_strand(cluster, mix, &left, &pod, parts.value);
            assert_true(value >= range.least && value <= range.most);
            assert_true((value >= range.exact) == parts.exact);
        }
        gt_cluster_free(cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_formula),      cmocka_unit_test(knows_nothing_at_first),
        cmocka_unit_test(takes_any_amount),         cmocka_unit_test(scores_follow_it),
        cmocka_unit_test(an_exact_fit_stays_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
