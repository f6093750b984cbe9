/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/slice.h"
#include "tests/unit/deviceplugin/machine.h"

/* The last digits of the places in the order of the slice, "0 1 2". */
static const char *order_of(const struct gt_slice_facts *facts)
{
    static char order[128];
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_slice_write(facts, &text);
    assert_false(text.failed);
    order[0] = '\0';
    for (const char *at = text.data; (at = strstr(at, "\"name\":\"gpu-0000-1")); at++)
        snprintf(order + strlen(order), sizeof(order) - strlen(order), "%s%c", order[0] ? " " : "",
                 at[strlen("\"name\":\"gpu-0000-1")]);
    return order;
}

static struct gt_usage *make_usage(uint64_t free, uint64_t used)
{
    static struct gt_usage usage;
    usage = (struct gt_usage){.known = true, .free = free, .used = used};
    return &usage;
}

/* Two meshes of four, joined by slow links. */
static struct gt_inventory *two_meshes(void)
{
    struct gt_node *node = machine_new(8, 0);
    for (unsigned b = 0; b < 8; b++)
        for (unsigned a = 0; a < b; a++) {
            struct gt_link *link = gt_node_link(node, a, b);
            bool near = a / 4 == b / 4;
            link->kind = near ? GT_LINK_MX : GT_LINK_SYS;
            link->bandwidth_mbps = near ? 50000 : 0;
        }
    return machine_inventory(node, NULL);
}

static void best_first(void **state)
{
    gt_auto_inventory struct gt_inventory *inventory = two_meshes();
    struct gt_slice_facts facts = {
        .node_name = "n", .node_uid = "u", .supernode = "", .inventory = inventory};
    (void)state;
    facts.usage = make_usage(0xff, 0);
    assert_string_equal(order_of(&facts), "0 1 2 3 4 5 6 7");
    facts.usage = make_usage(0xfe, 0x01); /* the mesh that is spoilt is spoilt further */
    assert_string_equal(order_of(&facts), "1 2 3 4 5 6 7 0");
    facts.usage = make_usage(0xf7 & ~0x20, 0x28); /* both have three, the first by number */
    assert_string_equal(order_of(&facts), "0 1 2 4 6 7 3 5");
    facts.usage = make_usage(0xf8, 0x07); /* one is left alone: it is the single one */
    assert_string_equal(order_of(&facts), "3 4 5 6 7 0 1 2");
}

static void only_what_is_offered(void **state)
{
    gt_auto_inventory struct gt_inventory *inventory = two_meshes(), *unhealthy = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    struct gt_slice_facts facts = {.node_name = "n", .node_uid = "u", .supernode = "", .others = 0x81};
    (void)state;
    assert_int_equal(gt_inventory_withhold_some(inventory, 0x04, "unhealthy", &unhealthy, NULL), 0);
    facts.inventory = unhealthy;
    facts.usage = make_usage(0x7a, 0x81);
    assert_null(strstr(order_of(&facts), "2"));
    assert_null(strstr(order_of(&facts), "0"));
    assert_null(strstr(order_of(&facts), "7"));
    facts.taint_effect = "NoExecute";
    assert_non_null(strstr(order_of(&facts), "2"));
    gt_slice_write(&facts, &text);
    assert_non_null(strstr(text.data, "\"effect\":\"NoExecute\""));
    assert_non_null(strstr(text.data, "\"value\":\"unhealthy\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_first),
        cmocka_unit_test(only_what_is_offered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
