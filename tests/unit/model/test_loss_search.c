/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/model/loss_oracle.h"
#include "tests/unit/model/loss_wirings.h"
#include "topology/model/loss_internal.h"

/* 17 to 64 GPUs: the search. */

/* Long enough under a sanitizer on a busy machine, where a test asks for an exact answer. */
enum { LONG_US = 20 * 1000 * 1000 };

static struct gt_class *class_of(const struct gt_weights *weights)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_class *class = NULL;

    if (gt_class_new(weights, &class, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return class;
}

static uint64_t all_of(unsigned n)
{
    return n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

/* Of this process: what others do meanwhile does not count. */
static unsigned long long cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* Says what it says of itself. */
static void expect_valid(const struct gt_class *class, uint64_t free, uint64_t must, unsigned k,
                         const struct gt_choice *choice)
{
    assert_int_equal(__builtin_popcountll(choice->mask), k);
    assert_int_equal(choice->mask & ~free, 0);
    assert_int_equal(must & ~choice->mask, 0);
    assert_int_equal(choice->score, gt_class_sum(class, choice->mask));
    assert_int_equal(choice->loss, gt_class_sum(class, free) - gt_class_sum(class, choice->mask) -
                                       gt_class_sum(class, free & ~choice->mask));
}

static void expect(const struct gt_choice *choice, const struct oracle *oracle)
{
    assert_true(oracle->found);
    assert_true(choice->exact);
    assert_int_equal(choice->score, oracle->score);
    assert_int_equal(choice->loss, oracle->cut);
    assert_int_equal(choice->mask, oracle->mask);
}

static void against_oracle(const struct gt_weights *w, unsigned rounds, uint64_t *random)
{
    gt_auto_class struct gt_class *class = class_of(w);

    for (unsigned i = 0; i < rounds; i++) {
        uint64_t taken = random_next(random), free = all_of(w->n);
        uint64_t must = i % 2 ? UINT64_C(1) << random_next(random) % w->n : 0;
        unsigned size, k = (unsigned)(random_next(random) % 5);
        struct gt_choice choice, two[2];
        struct oracle best, second;
        bool there;

        taken &= random_next(random); /* a quarter */
        if (i)
            free &= ~taken;
        size = (unsigned)__builtin_popcountll(free);
        if (i % 4 == 3)
            must |= UINT64_C(1) << random_next(random) % w->n;
        if (i % 3 == 2 && k < 4)
            k = size - k; /* nearly all of them */
        oracle_choose(w, free, must, k, &best, &second);
        if (k > size)
            best.found = false;
        there = gt_choose(class, free, must, k, LONG_US, &choice);
        assert_int_equal(there, best.found);
        if (!there)
            continue;
        expect(&choice, &best);
        expect_valid(class, free, must, k, &choice);
        if (must)
            continue;
        assert_int_equal(gt_choose_two(class, free, k, LONG_US, two), 1 + second.found);
        expect(&two[0], &best);
        if (second.found)
            expect(&two[1], &second);
    }
}

static void few_of_17_to_24(void **state)
{
    uint64_t random = test_seed();
    struct gt_weights w;

    (void)state;
    for (unsigned n = 17; n <= 24; n++) {
        wire_random(&w, n, 65536, &random);
        against_oracle(&w, 8, &random);
        wire_random(&w, n, 3, &random); /* many ties */
        against_oracle(&w, 8, &random);
        wire_meshes(&w, n, 5, 64, 8);
        against_oracle(&w, 12, &random);
        wire_ring(&w, n, 64, 8);
        against_oracle(&w, 6, &random);
    }
}

/* Every k at a size where the oracle can still follow, on wirings with modules in modules and ties. */
static void any_number_of_17(void **state)
{
    uint64_t random = test_seed();
    struct gt_weights w, cube;

    (void)state;
    wire_cube_mesh(&cube, 12);
    for (unsigned round = 0; round < 4; round++) {
        gt_auto_class struct gt_class *class = NULL;

        wire_meshes(&w, 17, 8, 64, 8);
        if (round == 1) { /* dead links: a path of three within a mesh, and one beside */
            wire_set(&w, 0, 1, 12);
            wire_set(&w, 1, 2, 12);
            wire_set(&w, 2, 3, 12);
            wire_set(&w, 9, 12, 12);
        } else if (round == 2) { /* two cube meshes and one GPU more */
            for (unsigned b = 0; b < 16; b++)
                for (unsigned a = 0; a < b; a++)
                    wire_set(&w, a, b, a / 8 == b / 8 ? cube.w[a % 8][b % 8] : 8);
        } else if (round == 3) {
            wire_random(&w, 17, 4, &random);
        }
        class = class_of(&w);
        for (unsigned k = 1; k <= 17; k++) {
            uint64_t must = k > 2 && k % 2 ? 1 << 2 | 1 << 13 : 0;
            struct oracle best, second;
            struct gt_choice choice;

            oracle_choose(&w, all_of(17), must, k, &best, &second);
            assert_true(gt_choose(class, all_of(17), must, k, LONG_US, &choice));
            expect(&choice, &best);
        }
    }
}

/* Blocks of GPUs that are alike, joined at random: what is left after joining still has several GPUs a part.
 */
static void wire_blocks(struct gt_weights *ret, unsigned n, uint32_t below, uint64_t *random)
{
    struct gt_weights blocks;
    unsigned inside[GT_GPUS_MAX];

    wire_random(&blocks, n, below, random);
    wire_meshes(ret, n, n, 0, 0);
    for (unsigned i = 0; i < n; i++)
        inside[i] = (unsigned)(random_next(random) % below);
    for (unsigned b = 0; b < n; b++)
        for (unsigned a = 0; a < b; a++)
            wire_set(ret, a, b, a % 8 == b % 8 ? (uint16_t)inside[a % 8] : blocks.w[a % 8][b % 8]);
}

/* The proof alone, from a bad set on: in gt_choose a good start could hide a branch that is cut wrongly. */
static void proof_from_a_bad_start(void **state)
{
    uint64_t random = test_seed();
    struct gt_weights w;

    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        gt_auto_class struct gt_class *class = NULL;
        unsigned n = 17 + round % 2, k = 1 + (unsigned)(random_next(&random) % 16);
        uint64_t open = all_of(n) & ~(UINT64_C(1) << random_next(&random) % n);
        uint64_t must = 0;
        uint32_t deg[GT_GPUS_MAX];
        struct oracle best, second;
        struct gt_loss_option option;

        if (round % 5 == 0)
            wire_ring(&w, n, 64, 8);
        else if (round % 5 == 1)
            wire_random(&w, n, 3, &random);
        else if (round % 5 == 2)
            wire_random(&w, n, 65536, &random);
        else
            wire_blocks(&w, n, round % 5 == 3 ? 3 : 1000, &random);
        class = class_of(&w);
        for (unsigned i = 0; i < round % 3; i++)
            must |= UINT64_C(1) << random_next(&random) % n & open;
        if ((unsigned)__builtin_popcountll(must) > k)
            k = (unsigned)__builtin_popcountll(must);
        oracle_choose(&w, open, must, k, &best, &second);
        gt_degrees(class, open, deg);

        for (unsigned joined = 0; joined < 2; joined++) {
            /* with a deadline in the past only twins are joined */
            struct gt_loss_query query = {class, open, must, k, deg, joined ? UINT64_MAX : 0};
            struct gt_parts *parts = malloc(sizeof(*parts));

            assert_non_null(parts);
            gt_parts_make(&query, parts);
            query.deadline_ns = UINT64_MAX;
            option = (struct gt_loss_option){0, UINT32_MAX, UINT64_MAX};
            assert_true(gt_parts_search(&query, parts, &option));
            assert_int_equal(option.mask, best.mask);
            assert_int_equal(option.score, best.score);
            assert_int_equal(option.deg - 2 * option.score, best.cut);
            /* and from the second best, which differs least */
            if (second.found) {
                option.mask = second.mask;
                option.score = (uint32_t)second.score;
                option.deg = (uint32_t)(second.cut + 2 * second.score);
                assert_true(gt_parts_search(&query, parts, &option));
                assert_int_equal(option.mask, best.mask);
            }
            free(parts);
        }
    }
}

/* k GPUs of equal meshes, all free: whole meshes first, and the lowest of them. */
static void expect_meshes(const struct gt_choice *choice, unsigned size, unsigned near, unsigned far,
                          unsigned k)
{
    unsigned whole = k / size, rest = k % size, pairs = k * (k - 1) / 2;
    unsigned inside = whole * size * (size - 1) / 2 + (rest ? rest * (rest - 1) / 2 : 0);

    assert_true(choice->exact);
    assert_int_equal(choice->score, inside * near + (pairs - inside) * far);
    assert_int_equal(choice->mask, all_of(k));
}

static void meshes_of_64(void **state)
{
    static const unsigned sizes[] = {64, 32, 16, 8, 4, 2, 1};

    (void)state;
    for (unsigned i = 0; i < GT_COUNT(sizes); i++) {
        gt_auto_class struct gt_class *class = NULL;
        struct gt_weights w;

        wire_meshes(&w, 64, sizes[i], 64, 8);
        class = class_of(&w);
        for (unsigned k = 1; k <= 64; k++) {
            struct gt_choice choice;

            assert_true(gt_choose(class, ~UINT64_C(0), 0, k, 0, &choice));
            expect_meshes(&choice, sizes[i], 64, 8, k);
            expect_valid(class, ~UINT64_C(0), 0, k, &choice);
            assert_int_equal(gt_class_best_score(class, k), choice.score);
            /* any free set, any GPUs that must be in: exact within the limit as well */
            assert_true(gt_choose(class, UINT64_C(0xfeff7fff3ff7ffff), 1 << 7, k < 59 ? k : 58, 0, &choice));
            assert_true(choice.exact);
        }
    }
}

/* No modules, and every set of neighbours is as good as the next. */
static void ring_of_64(void **state)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_choice choice;
    struct gt_weights w;

    (void)state;
    wire_ring(&w, 64, 64, 8);
    class = class_of(&w);
    for (unsigned k = 3; k < 64; k++) {
        assert_true(gt_choose(class, ~UINT64_C(0), 0, k, LONG_US, &choice));
        assert_true(choice.exact);
        assert_int_equal(choice.score, k * (k - 1) / 2 * 8 + (k - 1) * (64 - 8));
        assert_int_equal(choice.mask, all_of(k));
    }
}

/* A machine of boards: eight cube meshes of eight, two of them with dead links, sockets above. */
static void boards_of_64(void **state)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_choice choice, two[2];
    struct gt_weights w, cube;

    (void)state;
    wire_cube_mesh(&cube, 16);
    wire_meshes(&w, 64, 32, 12, 8);
    for (unsigned b = 0; b < 64; b++)
        for (unsigned a = 0; a < b; a++)
            if (a / 8 == b / 8)
                wire_set(&w, a, b, cube.w[a % 8][b % 8]);
    wire_set(&w, 8, 11, 16);
    wire_set(&w, 41, 42, 16);
    class = class_of(&w);
    for (unsigned k = 1; k <= 64; k++) {
        assert_true(gt_choose(class, ~UINT64_C(0), 0, k, LONG_US, &choice));
        assert_true(choice.exact);
        expect_valid(class, ~UINT64_C(0), 0, k, &choice);
    }
    assert_int_equal(gt_choose_two(class, ~UINT64_C(0), 8, LONG_US, two), 2);
    assert_true(two[0].exact && two[1].exact);
    assert_int_equal(two[0].mask, 0xff);
    assert_int_equal(two[1].mask, 0xff0000); /* the second board has a dead link */
    assert_int_equal(two[0].score, two[1].score);
    assert_int_equal(two[0].loss, two[1].loss);
}

static void hostile_64_ends_in_time(void **state)
{
    uint64_t random = test_seed();
    gt_auto_class struct gt_class *class = NULL;
    struct gt_weights w;

    (void)state;
    wire_random(&w, 64, 65536, &random);
    class = class_of(&w);
    for (unsigned k = 24; k <= 40; k += 8) {
        uint64_t must = UINT64_C(1) << 63 | 1 << 5;
        unsigned long long before = cpu_us(), took;
        struct gt_choice choice, two[2];

        assert_true(gt_choose(class, ~UINT64_C(0), must, k, 20000, &choice));
        took = cpu_us() - before;
        assert_false(choice.exact);
        expect_valid(class, ~UINT64_C(0), must, k, &choice);
        /* Some time more than the limit, and not the hours of a whole search. */
        assert_in_range(took, 0, 30000000);

        before = cpu_us();
        assert_int_equal(gt_choose_two(class, ~UINT64_C(0), k, 20000, two), 2);
        took = cpu_us() - before;
        assert_false(two[0].exact || two[1].exact);
        assert_true(two[0].mask != two[1].mask && two[0].score >= two[1].score);
        assert_in_range(took, 0, 30000000);
    }
}

static void largest_sums(void **state)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_choice choice;
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 64, 64, UINT16_MAX, UINT16_MAX);
    class = class_of(&w);
    assert_int_equal(gt_class_sum(class, ~UINT64_C(0)), 2016U * UINT16_MAX);
    for (unsigned k = 1; k <= 64; k++) {
        assert_true(gt_choose(class, ~UINT64_C(0), 0, k, 0, &choice));
        assert_int_equal(choice.score, k * (k - 1) / 2 * UINT16_MAX);
        assert_int_equal(choice.loss, k * (64 - k) * UINT16_MAX);
        assert_true(choice.exact);
    }
    /* a ring has no modules: the bound meets the largest sums as well */
    wire_ring(&w, 20, UINT16_MAX, UINT16_MAX - 1);
    gt_class_unref(class);
    class = class_of(&w);
    assert_true(gt_choose(class, all_of(20), 0, 10, LONG_US, &choice));
    assert_int_equal(choice.score, 45U * (UINT16_MAX - 1) + 9);
    assert_int_equal(choice.mask, 0x3ff);
    assert_true(choice.exact);
}

static void refused(void **state)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_choice choice = {.mask = 12345};
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 20, 5, 64, 8);
    class = class_of(&w);
    assert_false(gt_choose(class, all_of(20), 0, 0, 0, &choice));
    assert_false(gt_choose(class, all_of(20), 0, 21, 0, &choice));
    assert_false(gt_choose(class, all_of(3), 1 << 5, 2, 0, &choice));
    assert_false(gt_choose(class, all_of(20), 7, 2, 0, &choice));
    assert_false(gt_choose(class, 0, 0, 1, 0, &choice));
    assert_int_equal(choice.mask, 12345);
    assert_true(gt_choose(class, ~UINT64_C(0), 0, 20, 0, &choice));
    assert_int_equal(choice.mask, all_of(20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_of_17_to_24),
        cmocka_unit_test(any_number_of_17),
        cmocka_unit_test(proof_from_a_bad_start),
        cmocka_unit_test(meshes_of_64),
        cmocka_unit_test(boards_of_64),
        cmocka_unit_test(ring_of_64),
        cmocka_unit_test(largest_sums),
        cmocka_unit_test(hostile_64_ends_in_time),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
