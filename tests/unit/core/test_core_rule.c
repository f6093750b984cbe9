/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "scheduler-ext/core/chain.h"
#include "tests/unit/core/core_oracle.h"
#include "tests/unit/core/core_world.h"

/* Hard units against search: what fits, and that the min-loss rule rejects nothing that could be placed. */

enum { NODES = 8, GPUS = 8 }; /* a supernode; the tests shape it by what is free */

struct shape {
    struct gt_cluster *cluster;
    unsigned supers, gpus; /* in use; of a pod */
    unsigned places[ORACLE_SUPERS];
};

static void make(struct shape *shape)
{
    char name[16];

    shape->cluster = world_new();
    uint32_t class = world_class(shape->cluster, GPUS, 4);
    for (unsigned s = 0; s < ORACLE_SUPERS; s++) {
        snprintf(name, sizeof(name), "s%u", s);
        world_nodes(shape->cluster, name, NODES, class, world_super(shape->cluster, name, 1, GT_NONE));
    }
}

/* Between 0 and `most` places for pods of `gpus` in each of some supernodes, on nodes used at random. */
static void reshape(struct shape *shape, unsigned gpus, unsigned most, uint64_t *random)
{
    unsigned a_node = GPUS / gpus;

    shape->gpus = gpus;
    shape->supers = 2 + (unsigned)(random_next(random) % (ORACLE_SUPERS - 1));
    for (unsigned s = 0; s < ORACLE_SUPERS; s++) {
        unsigned left = s < shape->supers ? (unsigned)(random_next(random) % (most + 1)) : 0;

        shape->places[s] = 0;
        for (unsigned n = 0; n < NODES; n++) {
            unsigned nodes_left = NODES - 1 - n, pods = left < a_node ? left : a_node;

            /* Any number that lets the rest fit on the nodes after it, and crumbs that hold no pod. */
            if (left - pods <= nodes_left * a_node && pods)
                while (pods && left - (pods - 1) <= nodes_left * a_node && random_next(random) % 2)
                    pods--;
            left -= pods;
            unsigned crumbs = gpus > 1 && pods < a_node ? (unsigned)(random_next(random) % gpus) : 0;
            gt_cluster_set_free(shape->cluster, s * NODES + n,
                                world_mask(pods * gpus + crumbs, GPUS, random));
            shape->places[s] += pods;
        }
    }
}

struct chain {
    unsigned sizes[4], count;
};

static const struct chain chains[] = {{{1, 2, 4, 8}, 4}, {{1, 2, 6, 12}, 4}, {{1, 3, 9}, 3},
                                      {{2, 4, 16}, 3},   {{1, 4, 8}, 3},     {{1, 2, 4}, 3}};

static const struct chain *any_chain(struct gt_cluster *cluster, unsigned gpus, uint64_t *random)
{
    const struct chain *chain = &chains[random_next(random) % (sizeof(chains) / sizeof(*chains))];
    struct gt_chain_sizes sizes = {.count = chain->count};

    for (unsigned i = 0; i < chain->count; i++)
        sizes.size[i] = chain->sizes[i] * gpus;
    assert_int_equal(gt_chain_set(cluster, &sizes, NULL), 0);
    return chain;
}

/* Pods of 8 have whole nodes, pods of 1, 2 or 4 share them. */
static unsigned any_gpus(uint64_t *random)
{
    return 1u << random_next(random) % 4;
}

static unsigned most_places(unsigned gpus)
{
    unsigned all = NODES * GPUS / gpus;

    return all < 18 ? all : 18;
}

/* ---- one job of units of several sizes: the plan, the criterion and the search agree ---- */

/* The numbers of a failure, from the places alone: what the cluster holds of the size that failed once the
 * larger units have theirs; and where all units are alike, what is left in the best supernode. */
static void check_failure(const struct shape *shape, const struct world_job *job, const unsigned *sizes)
{
    const struct gt_plan_failure *failure = &job->failure;
    unsigned size = failure->size / shape->gpus, held = 0, wanted = 0, rest = 0, places = 0;
    bool alike = true;

    assert_int_equal(failure->unit < job->unit_count ? sizes[failure->unit] : 0, size);
    for (unsigned s = 0; s < shape->supers; s++) {
        held += shape->places[s] / size;
        places += shape->places[s];
        rest = shape->places[s] % size > rest ? shape->places[s] % size : rest;
    }
    assert_int_equal(failure->available, places * shape->gpus);
    assert_int_equal(failure->together, places / size);
    for (unsigned u = 0; u < job->unit_count; u++) {
        held -= sizes[u] > size ? sizes[u] / size : 0;
        wanted += sizes[u] == size;
        alike &= sizes[u] == size;
    }
    assert_int_equal(failure->fitting, held);
    assert_int_equal(failure->wanted, wanted);
    assert_int_equal(failure->beside, alike ? 0 : failure->beside);
    assert_int_equal(failure->needed, job->pod_count * shape->gpus);
    assert_int_equal(failure->reason, job->pod_count > places ? GT_PLAN_TOO_FEW_GPUS : GT_PLAN_NO_SUPERNODE);
    assert_true(held < wanted && failure->largest < failure->size);
    if (alike)
        assert_int_equal(failure->largest, rest * shape->gpus);
}

static void feasible_as_by_search(void **state)
{
    struct shape shape;
    uint64_t random = test_seed();
    unsigned yes = 0, no = 0;
    (void)state;

    make(&shape);
    for (unsigned round = 0; round < test_rounds(20000); round++) {
        gt_cluster_set_rule(shape.cluster, round % 2 ? GT_RULE_STATIC : GT_RULE_CHURN);
        unsigned gpus = any_gpus(&random), sizes[8], count = 1 + (unsigned)(random_next(&random) % 8);
        const struct chain *chain = any_chain(shape.cluster, gpus, &random);
        struct world_job job = {.unit_count = count};

        reshape(&shape, gpus, most_places(gpus) / 2 + 1, &random);
        for (unsigned u = 0; u < count; u++) {
            sizes[u] = chain->sizes[random_next(&random) % chain->count];
            job.units[u] = (struct gt_plan_unit){.first = job.pod_count, .pods = sizes[u], .gpus = gpus};
            job.pod_count += sizes[u];
        }
        bool fits = oracle_fits(shape.places, shape.supers, sizes, count);
        assert_int_equal(oracle_criterion(shape.places, shape.supers, sizes, count), fits);
        assert_int_equal(world_plan(shape.cluster, &job), fits);
        if (!fits)
            check_failure(&shape, &job, sizes);
        if (round % 64 == 0)
            world_check(shape.cluster);
        yes += fits;
        no += !fits;
    }
    printf("%u jobs fit, %u do not\n", yes, no);
    assert_true(yes > 100 && no > 100);
    gt_cluster_free(shape.cluster);
}

/* ---- arrivals ---- */

static void shuffle(unsigned *sizes, unsigned count, uint64_t *random)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned at = (unsigned)(random_next(random) % i), moving = sizes[at];

        sizes[at] = sizes[i - 1];
        sizes[i - 1] = moving;
    }
}

/* Sizes of which all fit together, as many as that, in any order. */
static unsigned placeable(const struct shape *shape, const struct chain *chain, unsigned *sizes,
                          uint64_t *random)
{
    unsigned count = 0;

    for (unsigned tries = 0; tries < 12 && count < ORACLE_UNITS; tries++) {
        sizes[count] = chain->sizes[random_next(random) % chain->count];
        count += oracle_criterion(shape->places, shape->supers, sizes, count + 1);
    }
    shuffle(sizes, count, random);
    return count;
}

/* How many units are refused when they come one job after the other, a job being up to `most` equal units. */
static unsigned refused(struct shape *shape, const unsigned *sizes, unsigned count, unsigned most,
                        uint64_t *random)
{
    unsigned refused = 0;

    for (unsigned u = 0; u < count;) {
        struct world_job job;
        unsigned units = 1, wanted = 1 + (unsigned)(random_next(random) % most);

        while (units < wanted && u + units < count && sizes[u + units] == sizes[u])
            units++;
        world_job(&job, units, sizes[u], shape->gpus, 0);
        if (world_plan(shape->cluster, &job))
            world_bind(shape->cluster, &job, u);
        else
            refused += units;
        u += units;
    }
    return refused;
}

static unsigned refused_best_fit(const struct shape *shape, const unsigned *sizes, unsigned count)
{
    unsigned places[ORACLE_SUPERS], refused = 0;

    memcpy(places, shape->places, sizeof(places));
    for (unsigned u = 0; u < count; u++)
        refused += !oracle_best_fit(places, shape->supers, sizes[u]);
    return refused;
}

/* Pods of `only` GPUs (0: any), jobs of up to `most` units. */
static void refuses_nothing(enum gt_rule rule, unsigned only, unsigned most)
{
    struct shape shape;
    uint64_t random = test_seed();
    unsigned failed = 0, best_fit = 0, sizes[ORACLE_UNITS], rounds = test_rounds(22000);

    make(&shape);
    gt_cluster_set_rule(shape.cluster, rule);
    for (unsigned round = 0; round < rounds; round++) {
        unsigned gpus = only ? only : any_gpus(&random);
        const struct chain *chain = any_chain(shape.cluster, gpus, &random);

        reshape(&shape, gpus, most_places(gpus), &random);
        unsigned count = placeable(&shape, chain, sizes, &random);
        best_fit += refused_best_fit(&shape, sizes, count) > 0;
        failed += refused(&shape, sizes, count, most, &random) > 0;
        if (round % 64 == 0)
            world_check(shape.cluster);
    }
    printf("%u instances: the rule fails in %u, best fit in %u\n", rounds, failed, best_fit);
    assert_int_equal(failed, 0);
    assert_true(best_fit > 0); /* else the instances say nothing */
    gt_cluster_free(shape.cluster);
}

static void single_units_in_any_order(void **state)
{
    (void)state;
    refuses_nothing(GT_RULE_STATIC, 0, 1);
}

static void jobs_in_any_order(void **state)
{
    (void)state;
    refuses_nothing(GT_RULE_STATIC, 0, 4);
}

/* The rule for churn is the min-loss rule there. */
static void single_units_of_whole_nodes_under_churn(void **state)
{
    (void)state;
    refuses_nothing(GT_RULE_CHURN, GPUS, 1);
}

/* ---- the counter-examples of the books ---- */

static void fill(struct gt_cluster *cluster, const unsigned *places, unsigned supers)
{
    for (unsigned s = 0; s < ORACLE_SUPERS; s++)
        for (unsigned n = 0; n < NODES; n++)
            gt_cluster_set_free(cluster, s * NODES + n,
                                s < supers && n < places[s] ? UINT64_MAX : UINT64_C(0));
}

static uint32_t chosen(struct gt_cluster *cluster, unsigned pods, unsigned *ret_lost)
{
    struct world_job job;

    world_job(&job, 1, pods, GPUS, 0);
    assert_true(world_plan(cluster, &job));
    *ret_lost = job.units[0].levels_lost;
    return job.units[0].supernode;
}

static void counter_examples(void **state)
{
    struct shape shape;
    unsigned lost;

    make(&shape);
    gt_cluster_set_rule(shape.cluster, *(const enum gt_rule *)*state);
    /* Sizes 1, 4; a 1 into the full 4 would leave room for one 4 only. */
    assert_int_equal(gt_chain_set(shape.cluster, &(struct gt_chain_sizes){2, {8, 32}}, NULL), 0);
    fill(shape.cluster, (const unsigned[]){4, 5}, 2);
    assert_int_equal(chosen(shape.cluster, 1, &lost), 1);
    assert_int_equal(lost, 0);
    /* Sizes 1, 2, 4; for a 2 both remainders are 0, only the 6 keeps both places for a 4. */
    assert_int_equal(gt_chain_set(shape.cluster, &(struct gt_chain_sizes){3, {8, 16, 32}}, NULL), 0);
    fill(shape.cluster, (const unsigned[]){4, 6}, 2);
    assert_int_equal(chosen(shape.cluster, 2, &lost), 1);
    assert_int_equal(lost, 0);
    /* Nothing is without loss: the fewest sizes. 4 loses for 2 and 4, 8 for 2, 4 and 8 (of 64). */
    assert_int_equal(gt_chain_set(shape.cluster, &(struct gt_chain_sizes){4, {8, 16, 32, 64}}, NULL), 0);
    fill(shape.cluster, (const unsigned[]){8, 4}, 2);
    assert_int_equal(chosen(shape.cluster, 1, &lost), 1);
    assert_int_equal(lost, 2);
    /* Equal loss: the fullest; then the lowest id. */
    fill(shape.cluster, (const unsigned[]){7, 5, 3, 3}, 4);
    assert_int_equal(chosen(shape.cluster, 1, &lost), 2);
    /* Sizes that do not divide one another: 3 of {4, 7} with 4s in play; 7 keeps the 4. */
    assert_int_equal(gt_chain_set(shape.cluster, &(struct gt_chain_sizes){2, {24, 32}}, NULL), 0);
    fill(shape.cluster, (const unsigned[]){4, 7}, 2);
    assert_int_equal(chosen(shape.cluster, 3, &lost), 1);
    gt_cluster_free(shape.cluster);
}

static void refuses_bad_chains(void **state)
{
    struct gt_cluster *cluster = world_new();
    gt_auto_err struct gt_err *err = NULL;
    (void)state;

    assert_true(gt_chain_set(cluster, &(struct gt_chain_sizes){2, {8, 8}}, &err) < 0);
    assert_non_null(strstr(gt_err_text(err), "8 is out of order"));
    assert_true(gt_chain_set(cluster, &(struct gt_chain_sizes){1, {0}}, NULL) < 0);
    assert_int_equal(gt_chain_set(cluster, &(struct gt_chain_sizes){0}, NULL), 0);
    gt_cluster_free(cluster);
}

int main(void)
{
    static enum gt_rule rules[] = {GT_RULE_STATIC, GT_RULE_CHURN};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feasible_as_by_search),
        cmocka_unit_test(single_units_in_any_order),
        cmocka_unit_test(jobs_in_any_order),
        cmocka_unit_test(single_units_of_whole_nodes_under_churn),
        cmocka_unit_test_prestate(counter_examples, &rules[0]),
        cmocka_unit_test_prestate(counter_examples, &rules[1]),
        cmocka_unit_test(refuses_bad_chains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
