/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/slice.h"
#include "base/text.h"
#include "deviceplugin/dra/claims.h"
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
    facts.usage = make_usage(0xfe, 0x01); /* the mesh that is in use already is used further */
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
    assert_int_equal(gt_inventory_withhold(inventory, 0x04, "unhealthy", &unhealthy, NULL), 0);
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

/* Pods on a GPU that is only isolated are not evicted by its taint, nor by that of a composite with it. */
static void isolated_gpus_keep_their_pods(void **state)
{
    gt_auto_inventory struct gt_inventory *inventory = two_meshes(), *unhealthy = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20), evicting = GT_BUF(1 << 20), both = GT_BUF(1 << 20);
    struct gt_slice_facts facts = {.node_name = "n",
                                   .node_uid = "u",
                                   .supernode = "",
                                   .usage = make_usage(0xff, 0),
                                   .taint_effect = "NoExecute",
                                   .composites = true};
    (void)state;
    struct gt_gpu *gpus = inventory->node->gpus;
    gpus[2].cause = GT_CAUSE_ISOLATED;
    gt_text_copy(gpus[2].unhealthy_reason, sizeof(gpus[2].unhealthy_reason), "isolated: x");
    assert_int_equal(gt_inventory_withhold(inventory, 0x04, "unhealthy", &unhealthy, NULL), 0);
    facts.inventory = unhealthy;
    gt_slice_write(&facts, &text);
    assert_non_null(strstr(text.data, "\"value\":\"isolated\",\"effect\":\"NoSchedule\""));
    assert_null(strstr(text.data, "NoExecute"));
    gt_text_copy(gpus[2].unhealthy_reason, sizeof(gpus[2].unhealthy_reason), "isolated, pods leave: x");
    gt_slice_write(&facts, &evicting);
    assert_non_null(strstr(evicting.data, "\"value\":\"isolated\",\"effect\":\"NoExecute\""));
    gt_text_copy(gpus[2].unhealthy_reason, sizeof(gpus[2].unhealthy_reason), "isolated: x");
    gt_inventory_unref(unhealthy);
    assert_int_equal(gt_inventory_withhold(inventory, 0x14, "unhealthy", &unhealthy, NULL), 0);
    gpus[4].cause = GT_SIGNAL_RECORDED;
    facts.inventory = unhealthy;
    gt_slice_write(&facts, &both);
    const char *node = strstr(both.data, "\"name\":\"node-8\"");
    assert_non_null(node);
    node = strstr(strstr(node, "\"taints\""), "\"value\"");
    assert_int_equal(strncmp(node, "\"value\":\"recorded\",\"effect\":\"NoExecute\"",
                             strlen("\"value\":\"recorded\",\"effect\":\"NoExecute\"")),
                     0);
}

/* The names of composites in the order of the slice. */
static const char *composites_of(const struct gt_slice_facts *facts)
{
    static char order[4096];
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_slice_write(facts, &text);
    assert_false(text.failed);
    order[0] = '\0';
    for (const char *at = text.data; (at = strstr(at, "\"name\":\"")); at++) {
        const char *name = at + strlen("\"name\":\"");
        size_t len = strcspn(name, "\"");
        if (strncmp(name, "gpu-", 4) != 0 && strncmp(name, "n\"", 2) != 0 && strncmp(name, "n-", 2) != 0)
            snprintf(order + strlen(order), sizeof(order) - strlen(order), "%.*s ", (int)len, name);
    }
    return order;
}

#define PAIR(a, b) "pair-0000-1" #a "-00-0-0000-1" #b "-00-0 "

static void composites(void **state)
{
    gt_auto_inventory struct gt_inventory *inventory = two_meshes(), *unhealthy = NULL;
    struct gt_slice_facts facts = {
        .node_name = "n", .node_uid = "u", .supernode = "", .inventory = inventory};
    (void)state;
    facts.usage = make_usage(0xff, 0);
    assert_string_equal(composites_of(&facts), "");
    facts.composites = true;
    assert_string_equal(order_of(&facts), "0 1 2 3 4 5 6 7");
    assert_string_equal(composites_of(&facts),
                        "node-8 zone-0000-10-00-0-4 zone-0000-14-00-0-4 " PAIR(0, 1) PAIR(0, 2) PAIR(1, 2)
                            PAIR(0, 3) PAIR(1, 3) PAIR(2, 3) PAIR(4, 5) PAIR(4, 6) PAIR(5, 6) PAIR(4, 7)
                                PAIR(5, 7) PAIR(6, 7));
    /* Two are left of a mesh: that pair is the next, it costs the others nothing. What is in use is last. */
    facts.usage = make_usage(0xfa, 0x05);
    const char *list = composites_of(&facts);
    assert_int_equal(strncmp(list, "node-8 zone-0000-14-00-0-4 zone-0000-10-00-0-4 " PAIR(1, 3) PAIR(4, 5),
                             strlen("node-8 zone-0000-14-00-0-4 zone-0000-10-00-0-4 " PAIR(1, 3) PAIR(4, 5))),
                     0);
    /* What has a GPU that is not offered is not, or has its taint. */
    assert_int_equal(gt_inventory_withhold(inventory, 0x04, "unhealthy", &unhealthy, NULL), 0);
    facts.inventory = unhealthy;
    facts.usage = make_usage(0xfb, 0);
    assert_string_equal(composites_of(&facts),
                        "zone-0000-14-00-0-4 " PAIR(0, 1) PAIR(0, 3) PAIR(1, 3) PAIR(4, 5) PAIR(4, 6)
                            PAIR(5, 6) PAIR(4, 7) PAIR(5, 7) PAIR(6, 7));
    facts.taint_effect = "NoSchedule";
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_slice_write(&facts, &text);
    const char *node = strstr(text.data, "\"name\":\"node-8\"");
    assert_non_null(node);
    assert_non_null(strstr(node, "\"taints\""));
    assert_true(strstr(node, "\"taints\"") < strstr(node, "\"name\":\"zone-"));
}

/* A claim holds a composite that is not in the slice: neither are its GPUs, which the scheduler cannot know
 * to be in use. */
static void held_composites(void **state)
{
    gt_auto_inventory struct gt_inventory *inventory = two_meshes(), *unhealthy = NULL;
    struct gt_dra_claim claim = {.device_count = 2};
    const struct gt_dra_claims claims = {&claim, 1};
    struct gt_slice_facts facts = {
        .node_name = "n", .node_uid = "u", .supernode = "", .inventory = inventory, .claims = &claims};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        gt_dra_device_name(inventory->node->gpus[1 + i].bdf, claim.devices[i].device);
        gt_composite_name(inventory->node, GT_COMPOSITE_PAIR, 6, claim.devices[i].composite);
    }
    facts.usage = make_usage(0xf9, 0x06);
    assert_string_equal(order_of(&facts), "0 3 4 5 6 7"); /* composites were switched off */
    facts.composites = true;
    assert_string_equal(order_of(&facts), "0 3 4 5 6 7 1 2");
    assert_non_null(strstr(composites_of(&facts), PAIR(1, 2)));
    assert_int_equal(gt_inventory_withhold(inventory, 0x04, "unhealthy", &unhealthy, NULL), 0);
    facts.inventory = unhealthy;
    assert_string_equal(order_of(&facts), "0 3 4 5 6 7");
    assert_null(strstr(composites_of(&facts), "-11-"));
    claim.devices[0].admin = claim.devices[1].admin = true; /* for monitoring */
    facts.usage = make_usage(0xfb, 0);
    assert_string_equal(order_of(&facts), "0 1 3 4 5 6 7");
}

/* Of more than a slice may have, pairs are left out. */
static void as_many_as_fit(void **state)
{
    struct gt_node *node = machine_new(16, 0);
    for (unsigned i = 0; i < node->link_count; i++)
        node->links[i].kind = GT_LINK_MX;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(node, NULL);
    struct gt_slice_facts facts = {
        .node_name = "n", .node_uid = "u", .supernode = "", .inventory = inventory, .composites = true};
    unsigned spaces = 0;
    (void)state;
    facts.usage = make_usage(0xffff, 0);
    const char *list = composites_of(&facts);
    assert_int_equal(strncmp(list, "node-16 zone-", 13), 0);
    for (; *list; list++)
        spaces += *list == ' ';
    assert_int_equal(spaces, 64 - 16);
}

/* Free pairs are so many that those in use have no room behind them: those that claims hold stay, or the
 * scheduler would not know that their GPUs are in use. */
static void held_ones_fit(void **state)
{
    struct gt_node *node = machine_new(16, 0);
    for (unsigned i = 0; i < node->link_count; i++)
        node->links[i].kind = GT_LINK_MX;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(node, NULL);
    struct gt_dra_claim claim = {.device_count = 4};
    const struct gt_dra_claims claims = {&claim, 1};
    struct gt_slice_facts facts = {.node_name = "n",
                                   .node_uid = "u",
                                   .supernode = "",
                                   .inventory = inventory,
                                   .claims = &claims,
                                   .composites = true};
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        gt_dra_device_name(inventory->node->gpus[i].bdf, claim.devices[i].device);
        gt_composite_name(inventory->node, GT_COMPOSITE_PAIR, i < 2 ? 3 : 12, claim.devices[i].composite);
    }
    facts.usage = make_usage(0xfff0, 0x0f);
    for (unsigned i = 0; i < 4; i++)
        assert_non_null(strstr(composites_of(&facts), claim.devices[i].composite));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_first),
        cmocka_unit_test(only_what_is_offered),
        cmocka_unit_test(isolated_gpus_keep_their_pods),
        cmocka_unit_test(composites),
        cmocka_unit_test(held_composites),
        cmocka_unit_test(as_many_as_fit),
        cmocka_unit_test(held_ones_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
