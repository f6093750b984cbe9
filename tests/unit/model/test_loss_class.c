/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/model/loss_wirings.h"

/* Classes, their cache, the maps for HAMi. */

static struct gt_class *class_of(const struct gt_weights *weights)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_class *class = NULL;

    if (gt_class_new(weights, &class, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return class;
}

static void expect_refused(const struct gt_weights *weights, const char *text)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_class *class = NULL;

    assert_int_equal(gt_class_new(weights, &class, &err), -EINVAL);
    assert_null(class);
    assert_string_equal(gt_err_text(err), text);
    assert_int_equal(gt_class_new(weights, &class, NULL), -EINVAL);
}

static void bad_weights(void **state)
{
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 8, 4, 64, 8);
    w.w[2][5] = 9;
    expect_refused(&w, "pair weights are not symmetric: 9 from GPU 2 to 5, 8 back");
    wire_meshes(&w, 8, 4, 64, 8);
    w.w[3][3] = 1;
    expect_refused(&w, "GPU 3 has a pair weight of 1 with itself");
    w.n = 65;
    expect_refused(&w, "pair weights of 65 GPUs, at most 64 are supported");
    /* what lies beyond n does not count */
    wire_meshes(&w, 8, 4, 64, 8);
    w.w[8][1] = 7;
    gt_class_unref(class_of(&w));
}

static void weights_of_a_node(void **state)
{
    struct gt_link links[3] = {
        {.a = 0, .b = 1, .weight = 64}, {.a = 0, .b = 2, .weight = 70000}, {.a = 1, .b = 2, .weight = 8}};
    struct gt_node node = {.gpu_count = 3, .links = links, .link_count = 3};
    struct gt_weights w;

    (void)state;
    gt_weights_of(&node, &w);
    assert_int_equal(w.n, 3);
    assert_int_equal(w.w[0][1], 64);
    assert_int_equal(w.w[1][0], 64);
    assert_int_equal(w.w[2][0], 65535);
    assert_int_equal(w.w[2][1], 8);
    assert_int_equal(w.w[1][1], 0);
}

static void one_class(void **state)
{
    gt_auto_class struct gt_class *class = NULL, *again = NULL;
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 8, 4, 64, 8);
    class = class_of(&w);
    again = gt_class_ref(class);
    assert_ptr_equal(class, again);
    assert_int_equal(gt_class_gpus(class), 8);
    assert_in_range(malloc_usable_size(class), 1, 10240);
    assert_int_equal(gt_class_best_score(class, 0), 0);
    assert_int_equal(gt_class_best_score(class, 4), 6 * 64);
    assert_int_equal(gt_class_best_score(class, 9), 0);
    gt_class_unref(NULL);
}

static void cache_is_bounded(void **state)
{
    gt_auto_class_cache struct gt_class_cache *cache = NULL;
    gt_auto_class struct gt_class *first = NULL, *second = NULL, *third = NULL, *again = NULL;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_weights a, b, c, bad;

    (void)state;
    assert_int_equal(gt_class_cache_new(0, &cache, &err), -EINVAL);
    assert_null(cache);
    assert_int_equal(gt_class_cache_new(2, &cache, NULL), 0);
    wire_meshes(&a, 4, 4, 64, 8);
    wire_meshes(&b, 4, 2, 64, 8);
    wire_meshes(&c, 5, 4, 64, 8);
    assert_int_equal(gt_class_cache_get(cache, &a, &first, NULL), 0);
    assert_int_equal(gt_class_cache_get(cache, &b, &second, NULL), 0);
    assert_ptr_not_equal(first, second);

    assert_int_equal(gt_class_cache_get(cache, &a, &again, NULL), 0);
    assert_ptr_equal(again, first);
    gt_class_unref(gt_steal(again));

    /* b was unused for the longest time: it is dropped, a stays; holders of b may still use it */
    assert_int_equal(gt_class_cache_get(cache, &c, &third, NULL), 0);
    assert_int_equal(gt_class_cache_get(cache, &a, &again, NULL), 0);
    assert_ptr_equal(again, first);
    gt_class_unref(gt_steal(again));
    assert_int_equal(gt_class_sum(second, 3), 64);
    assert_int_equal(gt_class_cache_get(cache, &b, &again, NULL), 0);
    assert_ptr_not_equal(again, second);
    assert_int_equal(gt_class_sum(again, 3), 64);
    gt_class_unref(gt_steal(again));

    bad = a;
    bad.w[1][1] = 1;
    gt_err_free(gt_steal(err));
    assert_int_equal(gt_class_cache_get(cache, &bad, &again, &err), -EINVAL);
    assert_null(again);
}

struct worker {
    struct gt_class_cache *cache;
    struct gt_class *large;
    unsigned number;
    uint32_t best;
    bool right;
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    worker->right = true;
    for (unsigned i = 0; i < 400; i++) {
        gt_auto_class struct gt_class *class = NULL;
        unsigned near = 1 + (i * (worker->number + 1)) % 7;
        struct gt_choice choice;
        struct gt_weights w;

        wire_meshes(&w, 6, 3, (uint16_t)near, 0);
        if (gt_class_cache_get(worker->cache, &w, &class, NULL) < 0 ||
            !gt_choose(class, 0x3f, 0, 3, 0, &choice) || choice.score != 3 * near || choice.mask != 7)
            worker->right = false;
    }
    worker->best = gt_class_best_score(worker->large, 12);
    return NULL;
}

static void cache_in_threads(void **state)
{
    gt_auto_class_cache struct gt_class_cache *cache = NULL;
    gt_auto_class struct gt_class *large = NULL;
    struct worker workers[4];
    pthread_t threads[4];
    struct gt_weights w;

    (void)state;
    assert_int_equal(gt_class_cache_new(3, &cache, NULL), 0);
    wire_unequal(&w, 20);
    large = class_of(&w);
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker){.cache = cache, .large = large, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(workers[i].right);
        assert_int_equal(workers[i].best, workers[0].best);
    }
}

static void hami_maps(void **state)
{
    gt_auto_class struct gt_class *class = NULL, *bare = NULL;
    struct gt_hami_maps maps;
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 8, 4, 10, 0); /* S of all is 120 */
    class = class_of(&w);
    gt_hami_maps(class, 0x1f, &maps); /* 4 and 1 free */
    assert_int_equal(maps.n, 8);
    assert_int_equal(maps.losses[1], 0);
    assert_int_equal(maps.scores[1], 0);
    assert_int_equal(maps.losses[2], 1999 * 40 / 120);
    assert_int_equal(maps.scores[2], 1999 * 10 / 120);
    assert_int_equal(maps.losses[3], 1999 * 30 / 120);
    assert_int_equal(maps.scores[3], 1999 * 30 / 120);
    assert_int_equal(maps.losses[4], 0);
    assert_int_equal(maps.scores[4], 1999 * 60 / 120);
    assert_int_equal(maps.scores[5], 1999 * 60 / 120);
    for (unsigned k = 6; k <= 8; k++) { /* more than are free */
        assert_int_equal(maps.losses[k], 1999);
        assert_int_equal(maps.scores[k], 0);
    }
    gt_hami_maps(class, 0xff, &maps);
    assert_int_equal(maps.scores[8], 1999);
    assert_int_equal(maps.losses[8], 0);
    gt_hami_maps(class, 0, &maps);
    assert_int_equal(maps.losses[1], 1999);

    wire_meshes(&w, 4, 4, 0, 0); /* no links: nothing to lose, but three are still too many for two */
    bare = class_of(&w);
    gt_hami_maps(bare, 3, &maps);
    for (unsigned k = 1; k <= 4; k++) {
        assert_int_equal(maps.losses[k], k <= 2 ? 0 : 1999);
        assert_int_equal(maps.scores[k], 0);
    }
}

static void hami_maps_of_64(void **state)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_hami_maps maps;
    struct gt_weights w;

    (void)state;
    wire_meshes(&w, 64, 64, UINT16_MAX, 0);
    class = class_of(&w);
    gt_hami_maps(class, ~UINT64_C(0), &maps);
    for (unsigned k = 1; k <= 64; k++) {
        assert_int_equal(maps.scores[k], 1999 * k * (k - 1) / 4032);
        assert_int_equal(maps.losses[k], 1999 * k * (64 - k) / 2016);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_weights),      cmocka_unit_test(weights_of_a_node), cmocka_unit_test(one_class),
        cmocka_unit_test(cache_is_bounded), cmocka_unit_test(cache_in_threads),  cmocka_unit_test(hami_maps),
        cmocka_unit_test(hami_maps_of_64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
