/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/model/loss_oracle.h"
#include "tests/unit/model/loss_wirings.h"

/* Up to 16 GPUs: the exact choice, against the oracle. */

static struct gt_class *class_of(const struct gt_weights *weights)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_class *class = NULL;

    if (gt_class_new(weights, &class, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return class;
}

static void expect(const struct gt_choice *choice, const struct oracle *oracle)
{
    assert_true(oracle->found);
    assert_int_equal(choice->score, oracle->score);
    assert_int_equal(choice->loss, oracle->cut);
    assert_int_equal(choice->mask, oracle->mask);
    assert_true(choice->exact);
}

static void check_set(const struct gt_class *class, const struct gt_weights *weights, uint64_t free)
{
    struct oracle best[17], second[17];
    struct gt_choice first, two[2];

    oracle_all(weights, free, best, second);
    for (unsigned k = 0; k <= weights->n + 1; k++) {
        bool there = k && k <= (unsigned)__builtin_popcountll(free);

        assert_int_equal(gt_choose(class, free, 0, k, 0, &first), there);
        assert_int_equal(gt_choose_two(class, free, k, 0, two), there ? 1 + second[k].found : 0);
        if (!there)
            continue;
        expect(&two[0], &best[k]);
        if (second[k].found)
            expect(&two[1], &second[k]);
        assert_true(gt_choose(class, free, 0, k, 0, &first));
        expect(&first, &best[k]);
    }
}

/* Every (free mask, k). */
static void check_all(const struct gt_weights *weights)
{
    gt_auto_class struct gt_class *class = class_of(weights);

    for (uint64_t free = 0; free < UINT64_C(1) << weights->n; free++)
        check_set(class, weights, free);
}

static void every_mask_of_known_wirings(void **state)
{
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 8, 4, 64, 8); /* two meshes of four */
    check_all(&w);
    wire_meshes(&w, 8, 4, 10, 0);
    check_all(&w);
    wire_meshes(&w, 8, 8, 64, 8); /* one mesh */
    check_all(&w);
    wire_meshes(&w, 4, 4, 64, 8);
    check_all(&w);
    wire_cube_mesh(&w, 8);
    check_all(&w);
    wire_meshes(&w, 8, 4, 64, 8); /* two meshes, a dead link in one */
    wire_set(&w, 1, 2, 12);
    check_all(&w);
    wire_ring(&w, 8, 64, 8);
    check_all(&w);
    wire_unequal(&w, 8);
    check_all(&w);
    wire_meshes(&w, 8, 8, 0, 0); /* no links */
    check_all(&w);
    wire_meshes(&w, 8, 8, UINT16_MAX, UINT16_MAX);
    check_all(&w);
    wire_meshes(&w, 1, 1, 0, 0);
    check_all(&w);
    wire_meshes(&w, 0, 1, 0, 0);
    check_all(&w);
}

static void random_matrices(void **state)
{
    uint64_t random = test_seed();
    struct gt_weights w;

    (void)state;
    for (unsigned n = 2; n <= 9; n++)
        for (unsigned below = 2; below <= 65536; below *= 32) {
            wire_random(&w, n, below, &random);
            check_all(&w);
        }
    for (unsigned n = 10; n <= 12; n++) {
        gt_auto_class struct gt_class *class = NULL;

        wire_random(&w, n, n == 11 ? 65536 : 3, &random);
        class = class_of(&w);
        for (unsigned i = 0; i < 200; i++)
            check_set(class, &w, random_next(&random) & ((UINT64_C(1) << n) - 1));
    }
}

static void samples_of_16(void **state)
{
    uint64_t random = test_seed();
    struct gt_weights w;

    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        gt_auto_class struct gt_class *class = NULL;

        if (round == 0)
            wire_meshes(&w, 16, 8, 64, 8);
        else if (round == 1)
            wire_random(&w, 16, 65536, &random);
        else if (round == 2)
            wire_meshes(&w, 16, 16, 0, 0); /* keys of 0 */
        else
            wire_meshes(&w, 16, 16, UINT16_MAX, UINT16_MAX); /* the largest sums */
        class = class_of(&w);
        check_set(class, &w, 0xffff);
        for (unsigned i = 0; i < 3; i++)
            check_set(class, &w, random_next(&random) & 0xffff);
        assert_in_range(malloc_usable_size(class), 1, 16384);
    }
}

/* Least losses of two groups of four with weight 10, by the free GPUs of each group; facts published for the
 * cut. One cell differs here, since S comes first: of 4 and 1 free GPUs, two are a linked pair that costs 40,
 * where two unlinked GPUs would cost 30. */
static void published_table(void **state)
{
    static const struct {
        unsigned a, b;
        int loss[9];
    } rows[] = {
        {4, 4, {-1, 30, 40, 30, 0, 30, 40, 30, 0}},  {4, 3, {-1, 20, 20, 0, 0, 20, 20, 0, -1}},
        {4, 2, {-1, 10, 0, 30, 0, 10, 0, -1, -1}},   {4, 1, {-1, 0, 40, 30, 0, 0, -1, -1, -1}},
        {4, 0, {-1, 30, 40, 30, 0, -1, -1, -1, -1}}, {3, 3, {-1, 20, 20, 0, 20, 20, 0, -1, -1}},
        {3, 2, {-1, 10, 0, 0, 10, 0, -1, -1, -1}},   {3, 1, {-1, 0, 20, 0, 0, -1, -1, -1, -1}},
        {3, 0, {-1, 20, 20, 0, -1, -1, -1, -1, -1}}, {2, 2, {-1, 10, 0, 10, 0, -1, -1, -1, -1}},
        {2, 1, {-1, 0, 0, 0, -1, -1, -1, -1, -1}},   {2, 0, {-1, 10, 0, -1, -1, -1, -1, -1, -1}},
        {1, 1, {-1, 0, 0, -1, -1, -1, -1, -1, -1}},
    };
    static const unsigned one_mesh[] = {0, 70, 120, 150, 160, 150, 120, 70, 0};
    gt_auto_class struct gt_class *two = NULL, *one = NULL;
    struct gt_choice choice;
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 8, 4, 10, 0);
    two = class_of(&w);
    for (unsigned i = 0; i < GT_COUNT(rows); i++)
        for (unsigned swap = 0; swap < 2; swap++) {
            unsigned a = (1U << rows[i].a) - 1, b = (1U << rows[i].b) - 1;
            uint64_t free = swap ? a << 4 | b : b << 4 | a;

            for (unsigned k = 1; k <= 8; k++) {
                bool there = gt_choose(two, free, 0, k, 0, &choice);

                assert_int_equal(there, rows[i].loss[k] >= 0);
                if (there)
                    assert_int_equal(choice.loss, rows[i].loss[k]);
            }
        }
    wire_meshes(&w, 8, 8, 10, 10);
    one = class_of(&w);
    for (unsigned k = 1; k <= 8; k++) {
        assert_true(gt_choose(one, 0xff, 0, k, 0, &choice));
        assert_int_equal(choice.loss, one_mesh[k]);
    }
}

static void must_be_included(void **state)
{
    uint64_t random = test_seed();
    struct gt_weights w;

    (void)state;
    for (unsigned round = 0; round < 6; round++) {
        gt_auto_class struct gt_class *class = NULL;
        unsigned n = round < 3 ? 8 : round == 3 ? 16 : 11;

        if (round == 0)
            wire_meshes(&w, 8, 4, 64, 8);
        else if (round == 1)
            wire_cube_mesh(&w, 8);
        else
            wire_random(&w, n, round % 2 ? 3 : 65536, &random);
        class = class_of(&w);
        for (unsigned i = 0; i < (n == 16 ? 40 : 1000); i++) {
            uint64_t all = (UINT64_C(1) << n) - 1, free = random_next(&random) & all;
            uint64_t must = random_next(&random) & all;
            unsigned k = (unsigned)(random_next(&random) % (n + 2));
            struct gt_choice choice = {.mask = 12345};
            struct oracle best, second;
            bool there;

            must &= random_next(&random);
            must &= random_next(&random); /* an eighth of all */
            if (i % 8)
                must &= free;
            oracle_choose(&w, free, must, k, &best, &second);
            there = gt_choose(class, free, must, k, 0, &choice);
            assert_int_equal(there, best.found);
            if (there)
                expect(&choice, &best);
            else
                assert_int_equal(choice.mask, 12345);
        }
    }
}

/* A class keeps fewer answers than there are questions: asked twice, in another order, each is the same. */
static void kept_answers(void **state)
{
    enum { QUESTIONS = 3000 };
    static struct gt_choice first[QUESTIONS];
    uint64_t random = test_seed(), again = random;
    gt_auto_class struct gt_class *class = NULL;
    struct gt_choice choice;
    struct gt_weights w;

    (void)state;
    wire_random(&w, 16, 4, &random);
    wire_random(&w, 16, 4, &again);
    class = class_of(&w);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        uint64_t free = (random_next(&random) & 0xffff) | 1;

        assert_true(gt_choose(class, free, 0, 1 + i % (unsigned)__builtin_popcountll(free), 0, &first[i]));
        assert_int_equal(first[i].score, gt_class_sum(class, first[i].mask));
    }
    for (unsigned i = 0; i < QUESTIONS; i++) {
        uint64_t free = (random_next(&again) & 0xffff) | 1;
        unsigned k = 1 + i % (unsigned)__builtin_popcountll(free);
        struct gt_choice two[2];

        assert_true(gt_choose(class, free, 0, k, 0, &choice));
        assert_int_equal(choice.mask, first[i].mask);
        assert_true(gt_choose_two(class, free, k, 0, two)); /* always computed */
        assert_int_equal(choice.mask, two[0].mask);
        assert_true(gt_choose(class, free, two[0].mask & -two[0].mask, k, 0, &choice));
        assert_int_equal(choice.mask, two[0].mask);
    }
}

static void bits_beyond_are_ignored(void **state)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_choice choice;
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 4, 4, 64, 8);
    class = class_of(&w);
    assert_int_equal(gt_class_sum(class, ~UINT64_C(0)), 6 * 64);
    assert_false(gt_choose(class, ~UINT64_C(0), 0, 5, 0, &choice));
    assert_true(gt_choose(class, ~UINT64_C(0), 0, 4, 0, &choice));
    assert_int_equal(choice.mask, 15);
    assert_false(gt_choose(class, ~UINT64_C(0), 0x10, 2, 0, &choice));
}

/* What must hold whatever the weights. */
static void properties(void **state)
{
    uint64_t random = test_seed();
    struct gt_weights w, moved;

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        gt_auto_class struct gt_class *class = NULL, *class_moved = NULL;
        unsigned n = 3 + (unsigned)(random_next(&random) % 9), order[16] = {0};

        wire_random(&w, n, round % 2 ? 4 : 65536, &random);
        for (unsigned i = 0; i < n; i++) {
            unsigned j = (unsigned)(random_next(&random) % (i + 1));

            order[i] = order[j];
            order[j] = i;
        }
        wire_meshes(&moved, n, n, 0, 0);
        for (unsigned b = 0; b < n; b++)
            for (unsigned a = 0; a < b; a++)
                wire_set(&moved, order[a], order[b], w.w[a][b]);
        class = class_of(&w);
        class_moved = class_of(&moved);

        for (uint64_t free = 0; free < UINT64_C(1) << n; free++) {
            uint64_t more = free | UINT64_C(1) << random_next(&random) % n, there = 0;
            uint32_t before = 0;

            for (unsigned i = 0; i < n; i++)
                there |= (free >> i & 1) << order[i];
            assert_int_equal(gt_class_sum(class, free), gt_class_sum(class_moved, there));
            for (unsigned k = 1; k <= (unsigned)__builtin_popcountll(free); k++) {
                struct gt_choice c, other;

                assert_true(gt_choose(class, free, 0, k, 0, &c));
                /* S says the same */
                assert_int_equal(c.score, gt_class_sum(class, c.mask));
                assert_int_equal(c.loss, gt_class_sum(class, free) - gt_class_sum(class, c.mask) -
                                             gt_class_sum(class, free & ~c.mask));
                /* more GPUs asked for or more free: never a lower score */
                assert_true(c.score >= before);
                before = c.score;
                assert_true(gt_choose(class, more, 0, k, 0, &other));
                assert_true(other.score >= c.score);
                assert_true(gt_class_best_score(class, k) >= c.score);
                /* other numbers for the GPUs: the same values */
                assert_true(gt_choose(class_moved, there, 0, k, 0, &other));
                assert_int_equal(other.score, c.score);
                assert_int_equal(other.loss, c.loss);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mask_of_known_wirings),
        cmocka_unit_test(random_matrices),
        cmocka_unit_test(samples_of_16),
        cmocka_unit_test(published_table),
        cmocka_unit_test(must_be_included),
        cmocka_unit_test(kept_answers),
        cmocka_unit_test(bits_beyond_are_ignored),
        cmocka_unit_test(properties),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
