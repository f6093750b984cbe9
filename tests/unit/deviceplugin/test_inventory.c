/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "machine.h"

/* Takes GPU `i` out of a node in the making: its links go with it. */
static struct gt_node *without(unsigned n, unsigned gone)
{
    struct gt_node *node = machine_new(n - 1, 0);
    for (unsigned i = gone; i < n - 1; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i + 1);
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:%02x:00.0", 0x10 + i + 1);
    }
    return node;
}

static void starts_with_all_gpus(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *a = machine_inventory(machine_new(3, 0), NULL);
    assert_string_equal(machine_list(a), "GPU-0+ GPU-1+ GPU-2+");
    assert_int_equal(gt_inventory_find(a, "GPU-2")->gpu, 2);
    assert_null(gt_inventory_find(a, "GPU-3"));
    assert_null(gt_inventory_find(a, ""));
}

static void keeps_a_vanished_gpu_as_unhealthy(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *a = machine_inventory(machine_new(4, 0), NULL);
    gt_auto_inventory struct gt_inventory *b = machine_inventory(without(4, 1), a);
    assert_string_equal(machine_list(b), "GPU-0+ GPU-2+ GPU-3+ GPU-1!");
    assert_false(gt_inventory_same_list(a, b));
    assert_string_not_equal(gt_inventory_find(b, "GPU-1")->reason, "");
    gt_auto_inventory struct gt_inventory *c = machine_inventory(without(4, 1), b);
    assert_true(gt_inventory_same_list(b, c));
    /* and takes it back */
    gt_auto_inventory struct gt_inventory *d = machine_inventory(machine_new(4, 0), c);
    assert_string_equal(machine_list(d), "GPU-0+ GPU-1+ GPU-2+ GPU-3+");
    assert_true(gt_inventory_same_list(a, d));
}

static void keeps_a_place_id_when_the_uuid_is_learnt(void **state)
{
    (void)state;
    struct gt_node *node = machine_new(2, 0);
    node->gpus[1].uuid[0] = '\0';
    gt_auto_inventory struct gt_inventory *a = machine_inventory(node, NULL);
    assert_string_equal(machine_list(a), "GPU-0+ PCI-0000:11:00.0+");
    gt_auto_inventory struct gt_inventory *b = machine_inventory(machine_new(2, 0), a);
    assert_string_equal(machine_list(b), "GPU-0+ PCI-0000:11:00.0+");
    assert_string_equal(b->devices[1].uuid, "GPU-1");
    /* Known by its UUID now, it is found again where it has moved to. */
    node = machine_new(2, 0);
    snprintf(node->gpus[1].bdf, sizeof(node->gpus[1].bdf), "0000:21:00.0");
    gt_auto_inventory struct gt_inventory *c = machine_inventory(node, b);
    assert_string_equal(machine_list(c), "GPU-0+ PCI-0000:11:00.0+");
    assert_string_equal(c->devices[1].bdf, "0000:21:00.0");
    /* A card without UUID at the old place must not get that ID. */
    node = machine_new(3, 0);
    snprintf(node->gpus[2].uuid, sizeof(node->gpus[2].uuid), "GPU-1");
    snprintf(node->gpus[2].bdf, sizeof(node->gpus[2].bdf), "0000:21:00.0");
    node->gpus[1].uuid[0] = '\0';
    gt_auto_inventory struct gt_inventory *d = machine_inventory(node, c);
    assert_string_equal(machine_list(d), "GPU-0+ PCI-0000:11:00.0.2+ PCI-0000:11:00.0+");
}

static void keeps_a_uuid_while_the_library_is_silent(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *a = machine_inventory(machine_new(2, 0), NULL);
    struct gt_node *node = machine_new(2, 0);
    node->gpus[0].uuid[0] = node->gpus[1].uuid[0] = '\0';
    gt_auto_inventory struct gt_inventory *b = machine_inventory(node, a);
    assert_string_equal(machine_list(b), "GPU-0+ GPU-1+");
    gt_auto_inventory struct gt_inventory *c = machine_inventory(machine_new(2, 0), b);
    assert_string_equal(machine_list(c), "GPU-0+ GPU-1+");
}

static void tells_another_card_at_the_same_place(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *a = machine_inventory(machine_new(2, 0), NULL);
    struct gt_node *node = machine_new(2, 0);
    snprintf(node->gpus[1].uuid, sizeof(node->gpus[1].uuid), "GPU-new");
    gt_auto_inventory struct gt_inventory *b = machine_inventory(node, a);
    assert_string_equal(machine_list(b), "GPU-0+ GPU-new+ GPU-1!");
    /* swapped slots: each keeps its ID */
    node = machine_new(2, 0);
    snprintf(node->gpus[0].uuid, sizeof(node->gpus[0].uuid), "GPU-1");
    snprintf(node->gpus[1].uuid, sizeof(node->gpus[1].uuid), "GPU-0");
    gt_auto_inventory struct gt_inventory *c = machine_inventory(node, a);
    assert_string_equal(machine_list(c), "GPU-1+ GPU-0+");
    assert_true(gt_inventory_same_list(a, c));
}

static void follows_health_and_mode(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *a = machine_inventory(machine_new(2, 0), NULL);
    struct gt_node *node = machine_new(2, 0);
    node->gpus[0].health = GT_GPU_UNHEALTHY;
    snprintf(node->gpus[0].unhealthy_reason, sizeof(node->gpus[0].unhealthy_reason), "too hot");
    gt_auto_inventory struct gt_inventory *b = machine_inventory(node, a);
    assert_string_equal(machine_list(b), "GPU-0- GPU-1+");
    assert_string_equal(b->devices[0].reason, "too hot");
    node = machine_new(2, 0);
    node->gpus[1].mode = GT_GPU_SGPU;
    gt_auto_inventory struct gt_inventory *c = machine_inventory(node, b);
    assert_string_equal(machine_list(c), "GPU-0- GPU-1-");
    /* never advertised: nothing to say */
    node = machine_new(2, 0);
    node->gpus[0].mode = node->gpus[1].mode = GT_GPU_VFIO;
    gt_auto_inventory struct gt_inventory *d = machine_inventory(node, NULL);
    assert_int_equal(d->device_count, 0);
    /* one for virtual machines leaves the others alone */
    node = machine_new(3, 0);
    node->gpus[1].mode = GT_GPU_VFIO;
    gt_auto_inventory struct gt_inventory *one = machine_inventory(node, NULL);
    assert_string_equal(machine_list(one), "GPU-0+ GPU-1- GPU-2+");
    assert_string_equal(one->devices[1].reason, "bound to vfio-pci, for virtual machines");
    /* an empty node after a full one: all lost, none forgotten */
    gt_auto_inventory struct gt_inventory *e = machine_inventory(machine_new(0, 0), a);
    assert_string_equal(machine_list(e), "GPU-0! GPU-1!");
    gt_auto_inventory struct gt_inventory *f = machine_inventory(machine_new(0, 0), NULL);
    assert_int_equal(f->device_count, 0);
}

static void numa_is_part_of_the_list(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *a = machine_inventory(machine_new(2, 0), NULL);
    struct gt_node *node = machine_new(2, 0);
    node->gpus[1].numa_node = -1;
    gt_auto_inventory struct gt_inventory *b = machine_inventory(node, a);
    assert_false(gt_inventory_same_list(a, b));
}

/* Card after card is replaced: the lost ones stay as far as there is room, and never push out a live one. */
static void has_a_limit(void **state)
{
    (void)state;
    struct gt_inventory *inventory = NULL;
    for (unsigned round = 0; round < 6; round++) {
        struct gt_node *node = machine_new(GT_GPUS_MAX, 0);
        for (unsigned i = 0; i < GT_GPUS_MAX; i++)
            snprintf(node->gpus[i].uuid, sizeof(node->gpus[i].uuid), "GPU-%u-%u", round, i);
        struct gt_inventory *next = machine_inventory(node, inventory);
        gt_inventory_unref(inventory);
        inventory = next;
        assert_int_equal(inventory->device_count, round ? GT_DEVICES_MAX : GT_GPUS_MAX);
        for (unsigned i = 0; i < inventory->device_count; i++)
            assert_ptr_equal(gt_inventory_find(inventory, inventory->devices[i].id), &inventory->devices[i]);
    }
    assert_string_equal(inventory->devices[63].id, "GPU-5-63");
    gt_inventory_unref(inventory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_with_all_gpus),
        cmocka_unit_test(keeps_a_vanished_gpu_as_unhealthy),
        cmocka_unit_test(keeps_a_place_id_when_the_uuid_is_learnt),
        cmocka_unit_test(keeps_a_uuid_while_the_library_is_silent),
        cmocka_unit_test(tells_another_card_at_the_same_place),
        cmocka_unit_test(follows_health_and_mode),
        cmocka_unit_test(numa_is_part_of_the_list),
        cmocka_unit_test(has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
