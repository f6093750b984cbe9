/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/table.h"

enum { ITEMS = 500, ROUNDS = 20000 };

struct item {
    uint32_t hash;
    int key;
    bool there;
};

static bool is(const void *item, const void *key)
{
    return ((const struct item *)item)->key == *(const int *)key;
}

/* Items come and go; few hashes, so that there are long runs with gaps to close. */
static void holds_what_was_put_in(void **state)
{
    (void)state;
    static struct item items[ITEMS];
    struct gt_table table = {0};
    uint64_t seed = 7;
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct item){.hash = (uint32_t)gt_digest_mix(1, (uint64_t)i % 40), .key = i};
    for (unsigned round = 0; round < ROUNDS; round++) {
        seed = gt_digest_mix(seed, round);
        struct item *item = &items[seed % ITEMS];
        if (item->there)
            gt_table_remove(&table, item->hash, item);
        else
            assert_int_equal(gt_table_add(&table, item->hash, item), 0);
        item->there = !item->there;
        const struct item *other = &items[seed / ITEMS % ITEMS];
        assert_ptr_equal(gt_table_find(&table, other->hash, is, &other->key), other->there ? other : NULL);
    }
    uint32_t count = 0, want = 0;
    const struct item *at = NULL;
    while ((at = gt_table_after(&table, at ? at->hash : 0, at))) {
        assert_true(at->there);
        count++;
    }
    for (int i = 0; i < ITEMS; i++)
        want += items[i].there;
    assert_int_equal(count, want);
    assert_int_equal(table.count, want);
    gt_table_done(&table);
    assert_null(gt_table_find(&table, 0, is, &items[0].key));
    assert_null(gt_table_after(&table, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(holds_what_was_put_in)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
