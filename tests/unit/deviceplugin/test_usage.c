/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/usage.h"
#include "machine.h"

static unsigned changes;

static void count_change(void *arg, const struct gt_usage *before, const struct gt_usage *usage)
{
    (void)arg;
    assert_int_equal(usage->generation, before->generation + 1);
    changes++;
}

static struct gt_usage_table *table_of(unsigned gpus)
{
    struct gt_usage_table *table = NULL;
    assert_return_code(gt_usage_table_new(count_change, NULL, &table, NULL), 0);
    changes = 0;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(gpus, 0), NULL);
    gt_usage_inventory(table, inventory);
    return table;
}

static void list(struct gt_usage_table *table, bool settling, const struct gt_device_user *users,
                 unsigned count)
{
    const struct gt_device_uses uses = {.users = users, .count = count, .settling = settling};
    gt_usage_listed(table, &uses);
}

static const struct gt_device_user one = {"ns", "one", "c", "GPU-1", NULL, NULL},
                                   two = {"ns", "two", "c", "GPU-2", NULL, NULL};

static void is_unknown_at_first(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = table_of(3);
    assert_false(gt_usage_now(table)->known);
    list(table, true, NULL, 0);
    assert_false(gt_usage_now(table)->known);
    struct gt_in_use in_use;
    gt_usage_in_use(table, &in_use);
    assert_false(in_use.complete);
    list(table, false, NULL, 0);
    assert_true(gt_usage_now(table)->known);
    assert_int_equal(gt_usage_now(table)->free, 7);
    gt_usage_in_use(table, &in_use);
    assert_true(in_use.complete);
    assert_int_equal(changes, 1);
}

static void nothing_is_known_before_the_first_scan(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = NULL;
    assert_return_code(gt_usage_table_new(NULL, NULL, &table, NULL), 0);
    list(table, false, &one, 1);
    assert_false(gt_usage_now(table)->known);
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(2, 0), NULL);
    gt_usage_inventory(table, inventory);
    assert_true(gt_usage_now(table)->known);
    assert_int_equal(gt_usage_now(table)->used, 2);
}

static void a_settling_kubelet_frees_nothing(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = table_of(4);
    const struct gt_device_user both[] = {one, two};
    list(table, false, both, 2);
    assert_int_equal(gt_usage_now(table)->used, 6);
    list(table, true, NULL, 0);
    assert_int_equal(gt_usage_now(table)->used, 6);
    const struct gt_device_user more = {"ns", "three", "c", "GPU-3", NULL, NULL},
                                heir = {"ns", "heir", "c", "GPU-1", NULL, NULL};
    list(table, true, &more, 1);
    assert_int_equal(gt_usage_now(table)->used, 14);
    list(table, true, &heir, 1); /* the new owner is believed, and there are not two */
    assert_string_equal(gt_usage_now(table)->owners[1].pod, "heir");
    assert_int_equal(gt_usage_now(table)->twice, 0);
    list(table, false, &heir, 1);
    assert_int_equal(gt_usage_now(table)->used, 2);
    assert_int_equal(gt_usage_now(table)->free, 13);
}

static void only_changes_count(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = table_of(4);
    const struct gt_device_user both[] = {one, two}, turned[] = {two, one};
    list(table, false, both, 2);
    assert_int_equal(changes, 1);
    list(table, false, turned, 2);
    list(table, false, both, 2);
    assert_int_equal(changes, 1);
    gt_usage_stale(table, true);
    assert_int_equal(changes, 2);
    assert_true(gt_usage_now(table)->stale);
    list(table, false, both, 2);
    assert_int_equal(changes, 3);
    assert_false(gt_usage_now(table)->stale);
    const struct gt_device_user renamed[] = {{"ns", "one", "d", "GPU-1", NULL, NULL}, two};
    list(table, false, renamed, 2);
    assert_int_equal(changes, 4);
}

static void tells_two_owners_of_one_gpu(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = table_of(3);
    const struct gt_device_user thief = {"aa", "thief", "c", "GPU-1", NULL, NULL};
    const struct gt_device_user x[] = {one, thief}, y[] = {thief, one};
    list(table, false, &one, 1);
    list(table, false, x, 2);
    assert_int_equal(gt_usage_now(table)->twice, 2);
    assert_int_equal(gt_usage_now(table)->used, 2);
    assert_string_equal(gt_usage_now(table)->owners[1].pod, "one"); /* who was there first */
    unsigned before = changes;
    list(table, false, y, 2);
    assert_int_equal(changes, before);
    /* one container naming a device twice is one owner */
    const struct gt_device_user again[] = {one, one};
    list(table, false, again, 2);
    assert_int_equal(gt_usage_now(table)->twice, 0);
    /* the same GPU by two IDs */
    const struct gt_device_user place[] = {one, {"ns", "other", "c", "PCI-0000:11:00.0", NULL, NULL}};
    list(table, false, place, 2);
    assert_int_equal(gt_usage_now(table)->twice, 2);
    assert_int_equal(gt_usage_now(table)->unknown_devices, 0);
}

static void unknown_devices_have_a_limit(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = table_of(2);
    static char ids[GT_UNKNOWN_DEVICES_MAX + 10][16];
    struct gt_device_user users[GT_UNKNOWN_DEVICES_MAX + 10];
    for (unsigned i = 0; i < GT_COUNT(users); i++) {
        snprintf(ids[i], sizeof(ids[i]), "stranger-%u", i);
        users[i] = (struct gt_device_user){"ns", "pod", "c", ids[i], NULL, NULL};
    }
    list(table, false, users, GT_COUNT(users));
    assert_int_equal(gt_usage_now(table)->unknown_devices, GT_UNKNOWN_DEVICES_MAX);
    assert_int_equal(gt_usage_now(table)->free, 3);
}

static void follows_health_and_loss(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = table_of(3);
    list(table, false, &two, 1);
    gt_auto_inventory struct gt_inventory *before = machine_inventory(machine_new(3, 0), NULL);
    struct gt_node *node = machine_new(3, 0);
    node->gpus[0].health = GT_GPU_UNHEALTHY;
    snprintf(node->gpus[0].unhealthy_reason, sizeof(node->gpus[0].unhealthy_reason), "unhealthy");
    gt_auto_inventory struct gt_inventory *unhealthy = machine_inventory(node, before);
    gt_usage_inventory(table, unhealthy);
    assert_int_equal(gt_usage_now(table)->free, 2);
    gt_auto_inventory struct gt_inventory *lost = machine_inventory(machine_new(2, 0), before);
    gt_usage_inventory(table, lost);
    assert_int_equal(gt_usage_now(table)->gpu_count, 2);
    assert_int_equal(gt_usage_now(table)->used, 0);
    assert_int_equal(gt_usage_now(table)->unknown_devices, 1);
    node = machine_new(3, 0);
    node->gpus[0].mode = GT_GPU_VFIO;
    gt_auto_inventory struct gt_inventory *left = machine_inventory(node, before);
    gt_usage_inventory(table, left);
    assert_int_equal(gt_usage_now(table)->free, 2);
}

static void long_names_are_cut(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = table_of(2);
    char text[1001];
    memset(text, 'n', 62);
    for (unsigned i = 62; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    text[1000] = '\0';
    const struct gt_device_user holder = {text, text, text, "GPU-0", NULL, NULL};
    list(table, false, &holder, 1);
    assert_int_equal(strlen(gt_usage_now(table)->owners[0].namespace), 62);
    assert_int_equal(strlen(gt_usage_now(table)->owners[0].pod), 252);
}

static void json_says_it_all(void **state)
{
    (void)state;
    GT_CLEANUP(gt_usage_table_free) struct gt_usage_table *table = table_of(4);
    const struct gt_device_user users[] = {one, {"n\"s", "x", "c", "what", NULL, NULL}};
    list(table, false, users, 2);
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    gt_usage_json(table, "n1", 12.5, &text);
    assert_string_equal(text.data, "{\"node\":\"n1\",\"known\":true,\"stale\":false,\"generation\":2,"
                                   "\"asked\":12.500,\"free\":[0,2,3],\"twice\":[],\"used\":[{\"gpu\":1,"
                                   "\"uuid\":\"GPU-1\",\"id\":\"GPU-1\",\"namespace\":\"ns\",\"pod\":\"one\","
                                   "\"container\":\"c\"}],\"strangers\":[{\"id\":\"what\","
                                   "\"namespace\":\"n\\\"s\",\"pod\":\"x\",\"container\":\"c\"}]}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_unknown_at_first),
        cmocka_unit_test(nothing_is_known_before_the_first_scan),
        cmocka_unit_test(a_settling_kubelet_frees_nothing),
        cmocka_unit_test(only_changes_count),
        cmocka_unit_test(tells_two_owners_of_one_gpu),
        cmocka_unit_test(unknown_devices_have_a_limit),
        cmocka_unit_test(follows_health_and_loss),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(json_says_it_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
