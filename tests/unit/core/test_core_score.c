/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "scheduler-ext/core/internal.h"
#include "scheduler-ext/core/score.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/core/core_world.h"
#include "tests/unit/model/loss_oracle.h"

/* gpu-aware against its definition, worked out here from the weights by brute force. */

enum { CLASSES = 4, NODES = 40 };

struct world {
    struct gt_cluster *cluster;
    struct gt_weights weights[CLASSES];
    unsigned of[NODES]; /* class */
    char names[NODES][24];
    uint64_t free[NODES];
    bool there[NODES];
};

static void add_class(struct world *world, unsigned c)
{
    struct gt_class *class = NULL;
    uint32_t id;

    assert_int_equal(gt_class_new(&world->weights[c], &class, NULL), 0);
    assert_int_equal(gt_cluster_add_class(world->cluster, class, &id, NULL), 0);
    assert_int_equal(id, c);
    gt_class_unref(class);
}

static void make(struct world *world, bool named_in_order, uint64_t *random)
{
    memset(world, 0, sizeof(*world));
    world->cluster = world_new();
    wire_meshes(&world->weights[0], 8, 4, 64, 8);
    wire_random(&world->weights[1], 6, 5, random);
    wire_meshes(&world->weights[2], 4, 4, 0, 0); /* no links at all */
    wire_meshes(&world->weights[3], 4, 2, 64, 0);
    for (unsigned c = 0; c < CLASSES; c++)
        add_class(world, c);
    for (unsigned n = 0; n < NODES; n++) {
        world->of[n] = (unsigned)(random_next(random) % CLASSES);
        snprintf(world->names[n], sizeof(world->names[n]), "n%02u-%u", named_in_order ? n : n * 17 % NODES,
                 n);
        assert_int_equal(world_node(world->cluster, world->names[n], world->of[n], GT_NONE), n);
        world->there[n] = true;
    }
}

static void reshuffle(struct world *world, uint64_t *random)
{
    for (unsigned n = 0; n < NODES; n++) {
        unsigned gpus = world->weights[world->of[n]].n;

        world->free[n] = random_next(random) & ((1u << gpus) - 1);
        if (random_next(random) % 3 == 0) /* many equal ones, for ties */
            world->free[n] = (1u << gpus) - 1;
        if (world->there[n])
            gt_cluster_set_free(world->cluster, n, world->free[n]);
        else
            world->free[n] = 0;
    }
}

static unsigned long sum_of(const struct gt_weights *weights, uint64_t mask)
{
    unsigned long sum = 0;

    for (unsigned a = 0; a < weights->n; a++)
        for (unsigned b = 0; b < a; b++)
            sum += mask >> a & mask >> b & 1 ? weights->w[a][b] : 0;
    return sum;
}

struct expected {
    double score, loss, value; /* value NAN: not feasible */
    bool exact;
};

static struct expected expect(const struct world *world, unsigned node, unsigned k,
                              const struct gt_aware_weights *weights)
{
    const struct gt_weights *w = &world->weights[world->of[node]];
    struct oracle choice[17], second[17], idle[17];
    struct expected ret = {1, 0, NAN, false};
    unsigned free = (unsigned)__builtin_popcountll(world->free[node]);

    if (!world->there[node] || free < k || k == 0)
        return ret;
    oracle_all(w, world->free[node], choice, second);
    oracle_all(w, (UINT64_C(1) << w->n) - 1, idle, second);
    double pairs = k * (k - 1) / 2.0, all_pairs = free * (free - 1) / 2.0;
    double left = (double)(sum_of(w, world->free[node]) - choice[k].score) / 64 + 3 * (all_pairs - pairs);
    if (k > 1) {
        double b = (double)choice[k].score / pairs;

        ret.score = 2 * b / (b + 64);
    }
    ret.loss = 2 * (left / 112) / (left / 112 + 1);
    ret.exact = free == k && 4 * choice[k].score >= idle[k].score && weights->loss_weight > 0;
    ret.value = weights->weight *
                (weights->score_weight * (ret.score + 2 * ret.exact) - weights->loss_weight * ret.loss);
    return ret;
}

/* Whether a goes before b: by value, then fewer free GPUs, then more in all, then the name. */
static bool goes_before(const struct world *world, unsigned a, unsigned b, double value_a, double value_b)
{
    int free_a = __builtin_popcountll(world->free[a]), free_b = __builtin_popcountll(world->free[b]);
    unsigned n_a = world->weights[world->of[a]].n, n_b = world->weights[world->of[b]].n;

    if (value_a != value_b)
        return value_a > value_b;
    if (free_a != free_b)
        return free_a < free_b;
    if (n_a != n_b)
        return n_a > n_b;
    return strcmp(world->names[a], world->names[b]) < 0;
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-12 * (1 + fabs(a));
}

static void check_k(const struct world *world, unsigned k, const struct gt_aware_weights *weights)
{
    double all[NODES], by_id[NODES + 1];
    uint32_t ids[NODES + 1];
    uint32_t best = GT_NONE, feasible = 0;
    struct expected expected[NODES];

    gt_score_all(world->cluster, k, all); /* for the order: two roundings of one value must not decide it */

    for (unsigned n = 0; n < NODES; n++) {
        expected[n] = expect(world, n, k, weights);
        ids[n] = n;
        if (isnan(expected[n].value))
            continue;
        feasible++;
        if (best == GT_NONE || goes_before(world, n, best, all[n], all[best]))
            best = n;
    }
    ids[NODES] = GT_NONE;
    assert_int_equal(gt_score_best(world->cluster, NULL, k), best);
    assert_int_equal(gt_score_all(world->cluster, k, all), feasible);
    assert_int_equal(gt_score_ids(world->cluster, k, ids, NODES + 1, by_id), feasible);
    assert_true(isnan(by_id[NODES]));
    for (unsigned n = 0; n < NODES; n++) {
        struct gt_score_parts parts;
        bool fits = gt_score_one(world->cluster, n, k, &parts);

        assert_true(same(all[n], expected[n].value));
        assert_true(same(by_id[n], expected[n].value));
        assert_int_equal(fits, !isnan(expected[n].value));
        if (!fits)
            continue;
        assert_true(same(parts.score_part, expected[n].score) && same(parts.loss_part, expected[n].loss) &&
                    parts.value == all[n] && parts.exact == expected[n].exact);
        assert_true(parts.score_part >= 0 && parts.score_part < 2 && parts.loss_part >= 0 &&
                    parts.loss_part < 2);
        assert_int_equal(__builtin_popcountll(parts.choice.mask), k);
    }
}

static void as_defined(void **state)
{
    static struct world world;
    uint64_t random = test_seed();
    static const double some[] = {0, 0.25, 0.5, 1, 2, 10};
    (void)state;

    for (unsigned round = 0; round < test_rounds(60); round++) {
        make(&world, round % 2, &random);
        struct gt_aware_weights weights = GT_AWARE_DEFAULT; /* of a new cluster */

        for (unsigned step = 0; step < 4; step++) {
            unsigned gone = (unsigned)(random_next(&random) % NODES);

            if (step == 1) {
                weights = (struct gt_aware_weights){.weight = some[1 + random_next(&random) % 5],
                                                    .score_weight = some[random_next(&random) % 6],
                                                    .loss_weight = some[random_next(&random) % 6]};
                assert_int_equal(gt_score_set_weights(world.cluster, &weights, NULL), 0);
            }
            if (step == 2) { /* other best scores where all nodes of a class leave */
                for (unsigned n = 0; n < NODES; n++)
                    if (world.of[n] == world.of[gone]) {
                        gt_cluster_remove_node(world.cluster, n);
                        world.there[n] = false;
                    }
            }
            if (step == 3) /* and where they come back, to their old ids */
                for (unsigned n = NODES; n-- > 0;)
                    if (!world.there[n]) {
                        assert_int_equal(world_node(world.cluster, world.names[n], world.of[n], GT_NONE), n);
                        world.there[n] = true;
                    }
            reshuffle(&world, &random);
            for (unsigned k = 1; k <= 9; k++)
                check_k(&world, k, &weights);
        }
        gt_cluster_free(world.cluster);
    }
}

static void bad_questions(void **state)
{
    struct gt_cluster *cluster = world_new();
    gt_auto_err struct gt_err *err = NULL;
    double value = 0;
    struct gt_score_parts parts;
    (void)state;

    assert_int_equal(gt_score_best(cluster, NULL, 1), GT_NONE);
    world_node(cluster, "a", world_class(cluster, 8, 4), GT_NONE);
    for (unsigned k = 0; k < 300; k = k ? k * 9 : 9) {
        assert_int_equal(gt_score_best(cluster, NULL, k), GT_NONE);
        assert_int_equal(gt_score_all(cluster, k, &value), 0);
        assert_true(isnan(value));
        assert_false(gt_score_one(cluster, 0, k, &parts));
    }
    assert_false(gt_score_one(cluster, 1, 1, &parts));
    static const struct gt_aware_weights bad[] = {{-1, 1, 1, 0, 0},
                                                  {1, -0.5, 1, 0, 0},
                                                  {1, 1, -1, 0, 0},
                                                  {(double)NAN, 1, 1, 0, 0},
                                                  {1, (double)INFINITY, 1, 0, 0},
                                                  {1, 1, 1, -1, 0}};
    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_true(gt_score_set_weights(cluster, &bad[i], NULL) < 0);
    assert_true(gt_score_set_weights(cluster, &bad[2], &err) < 0);
    assert_string_equal(gt_err_text(err), "loss.weight: -1, expected a number of 0 or more");
    gt_cluster_free(cluster);
}

/* A node whose free GPUs are just what is asked for beats every other, unless its links are too poor. */
static void exact_fit_wins(void **state)
{
    uint64_t random = test_seed();
    (void)state;

    for (unsigned round = 0; round < test_rounds(2000); round++) {
        struct gt_cluster *cluster = world_new();
        uint32_t class = world_class(cluster, 8, 4);
        unsigned k = 1 + (unsigned)(random_next(&random) % 7), exact = (unsigned)(random_next(&random) % 9);
        struct gt_score_parts parts, other;

        world_nodes(cluster, "n", 9, class, GT_NONE);
        for (unsigned n = 0; n < 9; n++)
            gt_cluster_set_free(
                cluster, n,
                world_mask(n == exact ? k : k + 1 + (unsigned)(random_next(&random) % (8 - k)), 8, &random));
        uint32_t best = gt_score_best(cluster, NULL, k);
        struct gt_cluster_node node;
        assert_true(gt_cluster_get_node(cluster, exact, &node));
        assert_true(gt_score_one(cluster, exact, k, &parts));
        uint32_t idle = gt_class_best_score(node.class, k);
        assert_true(gt_score_one(cluster, best, k, &other));
        assert_int_equal(parts.exact, 4 * parts.choice.score >= idle);
        assert_true(best == exact || (!parts.exact && other.score_part > parts.score_part));
        assert_true(parts.loss_part == 0);
        gt_cluster_free(cluster);
    }
}

/* The manual's example: four GPUs are free as two pairs, and four are asked for. */
static void exact_fit_of_two_pairs(void **state)
{
    struct gt_cluster *cluster = world_new();
    struct gt_aware_weights weights = GT_AWARE_DEFAULT;
    (void)state;

    world_nodes(cluster, "n", 3, world_class(cluster, 8, 4), GT_NONE);
    gt_cluster_set_free(cluster, 1, 0x33);
    assert_int_equal(gt_score_best(cluster, NULL, 4), 1);
    gt_cluster_set_free(cluster, 2, 0x0f); /* better links, and as exact */
    assert_int_equal(gt_score_best(cluster, NULL, 4), 2);
    gt_cluster_set_free(cluster, 1, 0x11); /* two that no direct link joins: an eighth of a pair's links */
    gt_cluster_set_free(cluster, 2, 0x1f);
    assert_int_equal(gt_score_best(cluster, NULL, 2), 2);
    gt_cluster_set_free(cluster, 2, 0);
    assert_int_equal(gt_score_best(cluster, NULL, 2), 0);
    weights.loss_weight = 0; /* links alone */
    assert_int_equal(gt_score_set_weights(cluster, &weights, NULL), 0);
    gt_cluster_set_free(cluster, 1, 0x33);
    assert_int_equal(gt_score_best(cluster, NULL, 4), 0);
    gt_cluster_free(cluster);
}

/* What any third node is, has free, or whether it is there, never changes the value of another. */
static void no_third_node_matters(void **state)
{
    static struct world world;
    uint64_t random = test_seed();
    (void)state;

    for (unsigned round = 0; round < test_rounds(40); round++) {
        double before[NODES], after[NODES];
        make(&world, true, &random);
        uint32_t large = world_class(world.cluster, 16, 16);
        reshuffle(&world, &random);
        unsigned third = (unsigned)(random_next(&random) % NODES);
        for (unsigned k = 1; k <= 8; k++)
            for (unsigned change = 0; change < 4; change++) {
                gt_score_all(world.cluster, k, before);
                if (change == 0)
                    gt_cluster_set_free(world.cluster, third, random_next(&random));
                else if (change == 3)
                    gt_cluster_remove_node(world.cluster, third);
                else {
                    gt_cluster_remove_node(world.cluster, third);
                    assert_int_equal(world_node(world.cluster, "other", change == 1 ? large : 2, GT_NONE),
                                     third);
                }
                gt_score_all(world.cluster, k, after);
                for (unsigned n = 0; n < NODES; n++)
                    assert_true(n == third || (isnan(before[n]) && isnan(after[n])) || before[n] == after[n]);
                if (change == 3)
                    assert_int_equal(world_node(world.cluster, "other", 0, GT_NONE), third);
            }
        gt_cluster_free(world.cluster);
    }
}

/* Next to an exact fit the nearest: a single GPU comes from a broken group, though a pair of links is cut by
 * it, and not from the last one beside a whole group, though only slow paths are. */
static void a_node_with_more_left_loses(void **state)
{
    struct gt_cluster *cluster = world_new();
    (void)state;

    world_nodes(cluster, "n", 3, world_class(cluster, 8, 4), GT_NONE);
    gt_cluster_set_free(cluster, 0, 0x1f);
    gt_cluster_set_free(cluster, 1, 0x03);
    assert_int_equal(gt_score_best(cluster, NULL, 1), 1);
    gt_cluster_set_free(cluster, 1, 0);
    assert_int_equal(gt_score_best(cluster, NULL, 1), 0);
    gt_cluster_free(cluster);
}

/* Nodes of 16 and 64 GPUs, more tables than are kept: the values stay those of the parts. */
static void large_nodes(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint64_t random = test_seed();
    uint32_t large[6] = {world_class(cluster, 64, 8),  world_class(cluster, 64, 16),
                         world_class(cluster, 16, 4),  world_class(cluster, 16, 8),
                         world_class(cluster, 16, 16), world_class(cluster, 16, 2)};
    char name[16];
    double values[60];
    struct gt_score_parts parts;
    (void)state;

    for (unsigned n = 0; n < 60; n++) {
        snprintf(name, sizeof(name), "n%u", n);
        world_node(cluster, name, large[n % 6], GT_NONE);
        gt_cluster_set_free(cluster, n, random_next(&random));
    }
    for (unsigned k = 1; k <= 64; k += k < 16 ? 1 : 8) {
        uint32_t feasible = gt_score_all(cluster, k, values), seen = 0;

        for (unsigned n = 0; n < 60; n++) {
            bool fits = gt_score_one(cluster, n, k, &parts);

            assert_int_equal(fits, !isnan(values[n]));
            /* Above 16 GPUs the time limit may end two searches differently. */
            assert_true(!fits || values[n] == parts.value || !parts.choice.exact);
            seen += fits;
        }
        assert_int_equal(seen, feasible);
        assert_true(cluster->values_bytes < 24 << 20);
    }
    /* More masks than the cache of a table keeps apart. */
    for (unsigned round = 0; round < test_rounds(300); round++) {
        for (unsigned n = 0; n < 60; n += 6)
            gt_cluster_set_free(cluster, n, random_next(&random) | random_next(&random));
        gt_score_all(cluster, 8, values);
        for (unsigned n = 0; n < 60; n += 6) {
            assert_true(gt_score_one(cluster, n, 8, &parts));
            assert_true(values[n] == parts.value || !parts.choice.exact);
        }
    }
    gt_cluster_free(cluster);
}

/* ---- loss.weight ---- */

/* For one decision: the more a loss weighs, the less of it is taken. */
static void loss_falls_with_its_weight(void **state)
{
    static struct world world;
    static const double weights[] = {0, 0.1, 0.5, 1, 3, 20};
    uint64_t random = test_seed();
    unsigned fell = 0;
    (void)state;

    make(&world, true, &random);
    for (unsigned round = 0; round < test_rounds(5000); round++) {
        unsigned k = 1 + (unsigned)(random_next(&random) % 4);
        double before = 2;

        reshuffle(&world, &random);
        for (unsigned i = 0; i < sizeof(weights) / sizeof(*weights); i++) {
            struct gt_aware_weights w = {1, 1, weights[i], 0, 0};
            struct gt_score_parts parts;

            assert_int_equal(gt_score_set_weights(world.cluster, &w, NULL), 0);
            uint32_t best = gt_score_best(world.cluster, NULL, k);
            if (best == GT_NONE)
                break;
            assert_true(gt_score_one(world.cluster, best, k, &parts));
            if (i)
                assert_true(parts.loss_part <= before + 1e-12);
            fell += i && parts.loss_part < before;
            before = parts.loss_part;
        }
    }
    assert_true(fell > 0);
    gt_cluster_free(world.cluster);
}

/* What a stream of pods that come and go leaves, in the mean, of the GPUs that are free. */
struct lost {
    double links; /* bandwidth that is gone: of what they would have on idle nodes of their kinds */
    double room;  /* the part that pods of 8 cannot use */
};

static struct lost fragmentation(const unsigned *meshes, double loss_weight, uint64_t random)
{
    enum { EACH = 10, LIVE = 90, STEPS = 1600, MEASURED = 8 };
    static const unsigned sizes[] = {1, 2, 3, 4, 5, 6, 8};
    struct gt_cluster *cluster = world_new();
    struct gt_aware_weights weights = {1, 1, loss_weight, 0, 0};
    struct {
        uint32_t node;
        uint64_t mask;
    } pods[LIVE];
    unsigned live = 0, measured = 0, used = 0;
    struct lost sum = {0, 0};

    for (unsigned i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof(name), "k%u", i);
        world_nodes(cluster, name, EACH, world_class(cluster, 8, meshes[i]), GT_NONE);
    }
    assert_int_equal(gt_score_set_weights(cluster, &weights, NULL), 0);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned k = sizes[random_next(&random) % 7], free = 0, whole = 0;
        uint64_t pick = random_next(&random);
        double links = 0, idle = 0;
        struct gt_cluster_node node;
        struct gt_score_parts parts;

        if (live == LIVE || used + k > 3 * EACH * 8 * 4 / 5) {
            unsigned at = (unsigned)(pick % live);

            gt_cluster_get_node(cluster, pods[at].node, &node);
            gt_cluster_set_free(cluster, pods[at].node, node.free | pods[at].mask);
            used -= (unsigned)__builtin_popcountll(pods[at].mask);
            pods[at] = pods[--live];
        } else {
            uint32_t best = gt_score_best(cluster, NULL, k);

            if (best == GT_NONE)
                continue;
            assert_true(gt_score_one(cluster, best, k, &parts));
            gt_cluster_get_node(cluster, best, &node);
            gt_cluster_set_free(cluster, best, node.free & ~parts.choice.mask);
            used += k;
            pods[live].node = best;
            pods[live++].mask = parts.choice.mask;
        }
        if (step % MEASURED || step < STEPS / 5)
            continue;
        for (uint32_t n = 0; n < 3 * EACH; n++) {
            gt_cluster_get_node(cluster, n, &node);
            unsigned here = (unsigned)__builtin_popcountll(node.free);
            free += here;
            whole += 8 * (here == 8);
            links += gt_class_sum(node.class, node.free);
            idle += gt_class_sum(node.class, 0xff) * here / 8.0;
        }
        if (free) {
            sum.links += 1 - links / idle;
            sum.room += 1 - (double)whole / free;
            measured++;
        }
    }
    gt_cluster_free(cluster);
    return (struct lost){sum.links / measured, sum.room / measured};
}

/* Neither rises with the weight, by more than chance; both fall from the first to the last. */
static void fragmentation_falls_with_its_weight(void **state)
{
    enum { SEEDS = 60 };
    static const double weights[] = {0, 0.5, 2, 4, 16};
    static const unsigned kinds[][3] = {{4, 4, 4}, {8, 4, 1}};
    struct lost mean[5] = {{0, 0}};
    (void)state;

    for (unsigned kind = 0; kind < 2; kind++) {
        memset(mean, 0, sizeof(mean));
        for (unsigned i = 0; i < 5; i++) {
            for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                struct lost lost = fragmentation(kinds[kind], weights[i], seed);
                mean[i].links += lost.links / SEEDS;
                mean[i].room += lost.room / SEEDS;
            }
            printf(
                "%s, loss.weight %g: of the free GPUs %.3f of the links are gone, %.3f are no use to pods of "
                "8\n",
                kind ? "three kinds" : "one kind", weights[i], mean[i].links, mean[i].room);
            assert_true(!i || mean[i].links <= mean[i - 1].links + 0.01);
            assert_true(!i || mean[i].room <= mean[i - 1].room + 0.01);
        }
        assert_true(mean[4].links < mean[0].links && mean[4].room < mean[0].room);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_defined),
        cmocka_unit_test(bad_questions),
        cmocka_unit_test(exact_fit_wins),
        cmocka_unit_test(exact_fit_of_two_pairs),
        cmocka_unit_test(no_third_node_matters),
        cmocka_unit_test(a_node_with_more_left_loses),
        cmocka_unit_test(large_nodes),
        cmocka_unit_test(loss_falls_with_its_weight),
        cmocka_unit_test(fragmentation_falls_with_its_weight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
