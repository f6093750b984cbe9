/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "machine.h"

static struct gt_in_use in_use_of(bool complete, const char *a, const char *b)
{
    struct gt_in_use in_use = {.complete = complete};
    if (a)
        gt_in_use_add(&in_use, a);
    if (b)
        gt_in_use_add(&in_use, b);
    return in_use;
}

/* Finishes the node and makes the inventory that follows; the node is given away. */
static struct gt_inventory *next_of(struct gt_node *node, const struct gt_inventory *previous,
                                    const struct gt_in_use *in_use, uint64_t now_ms)
{
    static struct gt_class_cache *classes;
    struct gt_inventory *inventory = NULL;
    if (!classes)
        assert_return_code(gt_class_cache_new(4, &classes, NULL), 0);
    assert_return_code(gt_node_finish(node, NULL), 0);
    assert_return_code(gt_inventory_next(node, classes, previous, in_use, now_ms, &inventory, NULL), 0);
    gt_node_unref(node);
    return inventory;
}

static struct gt_node *without_uuids(unsigned n)
{
    struct gt_node *node = machine_new(n, 0);
    for (unsigned i = 0; i < n; i++)
        node->gpus[i].uuid[0] = '\0';
    return node;
}

static void is_a_set(void **state)
{
    (void)state;
    struct gt_in_use a = in_use_of(true, "one", "two"), b = in_use_of(true, "two", "one");
    assert_true(gt_in_use_equal(&a, &b));
    gt_in_use_add(&a, "one");
    assert_int_equal(a.count, 2);
    b.complete = false;
    assert_false(gt_in_use_equal(&a, &b));
    char long_one[GT_ID_SIZE + 1];
    memset(long_one, 'x', sizeof(long_one) - 1);
    long_one[sizeof(long_one) - 1] = '\0';
    const char *const never[] = {"", "a b", "a\n", "caf\xc3\xa9", long_one};
    for (unsigned i = 0; i < GT_COUNT(never); i++)
        gt_in_use_add(&a, never[i]);
    assert_int_equal(a.count, 2);
    for (unsigned i = 0; i < 2 * GT_IN_USE_MAX; i++) {
        char id[32];
        snprintf(id, sizeof(id), "id-%u", i);
        gt_in_use_add(&a, id);
    }
    assert_int_equal(a.count, GT_IN_USE_MAX);
    assert_false(a.complete);
}

static void a_place_id_in_use_stays_after_a_restart(void **state)
{
    (void)state;
    struct gt_in_use in_use = in_use_of(true, "PCI-0000:11:00.0", "GPU-2");
    gt_auto_inventory struct gt_inventory *a = next_of(machine_new(3, 0), NULL, &in_use, 1000);
    assert_string_equal(machine_list(a), "GPU-0+ PCI-0000:11:00.0+ GPU-2+");
    assert_string_equal(a->devices[1].uuid, "GPU-1");
    in_use = in_use_of(true, NULL, NULL);
    gt_auto_inventory struct gt_inventory *b = next_of(machine_new(3, 0), a, &in_use, 2000);
    assert_string_equal(machine_list(b), "GPU-0+ PCI-0000:11:00.0+ GPU-2+");
}

static void who_may_be_in_use_is_held_back(void **state)
{
    (void)state;
    struct gt_in_use in_use = in_use_of(true, "GPU-1", "PCI-0000:12:00.0");
    gt_auto_inventory struct gt_inventory *a = next_of(without_uuids(3), NULL, &in_use, 1000);
    assert_string_equal(machine_list(a), "PCI-0000:10:00.0- PCI-0000:11:00.0- PCI-0000:12:00.0+ GPU-1!");
    assert_non_null(strstr(a->devices[0].reason, "UUID"));
    /* the library answers */
    gt_auto_inventory struct gt_inventory *b = next_of(machine_new(3, 0), a, &in_use, 2000);
    assert_string_equal(machine_list(b), "PCI-0000:10:00.0+ GPU-1+ PCI-0000:12:00.0+ PCI-0000:11:00.0!");
    assert_non_null(strstr(gt_inventory_find(b, "PCI-0000:11:00.0")->reason, "served as GPU-1"));
    /* or the pod ends before */
    struct gt_in_use none = in_use_of(true, NULL, NULL);
    gt_auto_inventory struct gt_inventory *c = next_of(without_uuids(3), a, &none, 2000);
    assert_string_equal(machine_list(c), "PCI-0000:10:00.0+ PCI-0000:11:00.0+ PCI-0000:12:00.0+ GPU-1!");
}

static void an_id_in_use_replaces_one_that_is_not(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *a = machine_inventory(machine_new(2, 0), NULL);
    struct gt_in_use in_use = in_use_of(true, "PCI-0000:10:00.0", NULL);
    gt_auto_inventory struct gt_inventory *b = next_of(machine_new(2, 0), a, &in_use, 1000);
    assert_string_equal(machine_list(b), "PCI-0000:10:00.0+ GPU-1+ GPU-0!");
    /* both are in use: somebody has it twice, and the one that is served stays */
    struct gt_in_use both = in_use_of(true, "PCI-0000:10:00.0", "GPU-0");
    gt_auto_inventory struct gt_inventory *c = next_of(machine_new(2, 0), a, &both, 1000);
    assert_string_equal(machine_list(c), "GPU-0+ GPU-1+ PCI-0000:10:00.0!");
    gt_auto_inventory struct gt_inventory *d = next_of(machine_new(2, 0), b, &both, 2000);
    assert_string_equal(machine_list(d), "PCI-0000:10:00.0+ GPU-1+ GPU-0!");
}

static void the_lost_leave_when_nobody_holds_them(void **state)
{
    (void)state;
    struct gt_in_use held = in_use_of(true, "GPU-1", NULL), none = in_use_of(true, NULL, NULL),
                     unknown = in_use_of(false, NULL, NULL);
    gt_auto_inventory struct gt_inventory *a = next_of(machine_new(2, 0), NULL, &held, 1000);
    gt_auto_inventory struct gt_inventory *b = next_of(machine_new(1, 0), a, &held, 2000);
    assert_string_equal(machine_list(b), "GPU-0+ GPU-1!");
    const uint64_t just_before = 2000 + GT_LOST_RETENTION_MS - 1, then = just_before + 1;
    gt_auto_inventory struct gt_inventory *c = next_of(machine_new(1, 0), b, &none, just_before);
    assert_string_equal(machine_list(c), "GPU-0+ GPU-1!");
    gt_auto_inventory struct gt_inventory *d = next_of(machine_new(1, 0), c, &held, then);
    assert_string_equal(machine_list(d), "GPU-0+ GPU-1!");
    gt_auto_inventory struct gt_inventory *e = next_of(machine_new(1, 0), c, &unknown, then);
    assert_string_equal(machine_list(e), "GPU-0+ GPU-1!");
    gt_auto_inventory struct gt_inventory *f = next_of(machine_new(1, 0), c, NULL, then);
    assert_string_equal(machine_list(f), "GPU-0+ GPU-1!");
    gt_auto_inventory struct gt_inventory *g = next_of(machine_new(1, 0), c, &none, then);
    assert_string_equal(machine_list(g), "GPU-0+");
    /* once back, it begins again */
    gt_auto_inventory struct gt_inventory *h = next_of(machine_new(2, 0), c, &none, then);
    gt_auto_inventory struct gt_inventory *i = next_of(machine_new(1, 0), h, &none, then + 1);
    assert_string_equal(machine_list(i), "GPU-0+ GPU-1!");
}

static void a_retired_id_is_nobodys(void **state)
{
    (void)state;
    struct gt_in_use none = in_use_of(true, NULL, NULL), retired = none;
    struct gt_node *nameless = machine_new(2, 0), *later = machine_new(2, 0);
    nameless->gpus[0].uuid[0] = nameless->gpus[1].uuid[0] = '\0';
    gt_auto_inventory struct gt_inventory *a = next_of(nameless, NULL, &none, 1000);
    assert_string_equal(machine_list(a), "PCI-0000:10:00.0+ PCI-0000:11:00.0+");
    assert_false(gt_inventory_has_temporary_id(a, &a->devices[0])); /* it has no better one */
    gt_auto_inventory struct gt_inventory *b = next_of(later, a, &none, 2000);
    assert_string_equal(machine_list(b), "PCI-0000:10:00.0+ PCI-0000:11:00.0+");
    assert_true(gt_inventory_has_temporary_id(b, &b->devices[0]));

    assert_true(gt_in_use_retire(&retired, "PCI-0000:10:00.0"));
    assert_false(gt_in_use_retire(&retired, "PCI-0000:10:00.0"));
    assert_false(gt_in_use_equal(&none, &retired));
    gt_auto_inventory struct gt_inventory *c = next_of(machine_new(2, 0), b, &retired, 3000);
    assert_string_equal(machine_list(c), "GPU-0+ PCI-0000:11:00.0+ PCI-0000:10:00.0!");
    const struct gt_device *old = gt_inventory_find(c, "PCI-0000:10:00.0");
    assert_string_equal(old->reason, "the GPU is served as GPU-0");
    assert_false(gt_device_is_lost(old));
    assert_false(gt_inventory_has_temporary_id(c, old));

    /* Nor does it come back: not when the library falls silent, nor after it has left the list. */
    struct gt_node *silent = machine_new(2, 0), *other = machine_new(1, 0);
    silent->gpus[0].uuid[0] = '\0';
    gt_auto_inventory struct gt_inventory *d = next_of(silent, c, &retired, 4000);
    assert_string_equal(machine_list(d), "GPU-0+ PCI-0000:11:00.0+ PCI-0000:10:00.0!");
    const uint64_t then = 3000 + GT_RETIRED_RETENTION_MS;
    gt_auto_inventory struct gt_inventory *e = next_of(machine_new(2, 0), d, &retired, then);
    assert_string_equal(machine_list(e), "GPU-0+ PCI-0000:11:00.0+");
    other->gpus[0].uuid[0] = '\0';
    gt_auto_inventory struct gt_inventory *f = next_of(other, NULL, &retired, then);
    assert_string_equal(machine_list(f), "PCI-0000:10:00.0.2+");
}

static void unknown_devices_are_listed_as_lost(void **state)
{
    (void)state;
    struct gt_in_use in_use = in_use_of(true, "somebody's", "PCI-0000:77:00.0");
    gt_auto_inventory struct gt_inventory *a = next_of(machine_new(1, 0), NULL, &in_use, 1000);
    assert_string_equal(machine_list(a), "GPU-0+ somebody's! PCI-0000:77:00.0!");
    /* but not on a node where we serve nothing */
    gt_auto_inventory struct gt_inventory *b = next_of(machine_new(0, 0), NULL, &in_use, 1000);
    assert_int_equal(b->device_count, 0);
    struct gt_node *node = machine_new(1, 0);
    node->gpus[0].mode = GT_GPU_SGPU;
    gt_auto_inventory struct gt_inventory *c = next_of(node, NULL, &in_use, 1000);
    assert_int_equal(c->device_count, 0);
}

static void keeps_its_limits(void **state)
{
    (void)state;
    struct gt_in_use in_use = {.complete = true};
    for (unsigned i = 0; i < GT_IN_USE_MAX; i++) {
        char id[32];
        snprintf(id, sizeof(id), "stranger-%u", i);
        gt_in_use_add(&in_use, id);
    }
    gt_auto_inventory struct gt_inventory *a = next_of(machine_new(GT_GPUS_MAX, 0), NULL, &in_use, 1000);
    assert_int_equal(a->device_count, GT_DEVICES_MAX);
    gt_auto_inventory struct gt_inventory *b = next_of(machine_new(GT_GPUS_MAX, 0), a, &in_use, 2000);
    assert_int_equal(b->device_count, GT_DEVICES_MAX);
    assert_string_equal(b->devices[63].id, "GPU-63");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_set),
        cmocka_unit_test(a_place_id_in_use_stays_after_a_restart),
        cmocka_unit_test(who_may_be_in_use_is_held_back),
        cmocka_unit_test(an_id_in_use_replaces_one_that_is_not),
        cmocka_unit_test(the_lost_leave_when_nobody_holds_them),
        cmocka_unit_test(a_retired_id_is_nobodys),
        cmocka_unit_test(unknown_devices_are_listed_as_lost),
        cmocka_unit_test(keeps_its_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
