/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/changes.h"

/* Three GPUs; where the library answers, 0 and 1 are linked and a server is known. */
static struct gt_node *machine(bool answers)
{
    struct gt_node *node = NULL;
    assert_int_equal(gt_node_new(3, 0, &node, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:%02x:00.0", 0x10 + i);
        snprintf(gpu->pci.path.root, sizeof(gpu->pci.path.root), "pci0000:%02x", 0x10 + i);
        gpu->pci.device = 0x0a01;
        gpu->numa_node = 0;
        if (!answers)
            continue;
        gpu->vendor_index = (int)i;
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
    }
    if (answers) {
        *gt_node_link(node, 0, 1) = (struct gt_link){.a = 0,
                                                     .b = 1,
                                                     .kind = GT_LINK_MX,
                                                     .path_kind = GT_LINK_UNKNOWN,
                                                     .ports = 2,
                                                     .width = 16,
                                                     .speed = 32,
                                                     .state = GT_LINK_STATE_UP};
        snprintf(node->server_uuid, sizeof(node->server_uuid), "SERVER-1");
        snprintf(node->remotes[node->remote_count++], GT_ID_SIZE, "SERVER-2");
    }
    assert_int_equal(gt_node_finish(node, NULL), 0);
    return node;
}

static bool keep(const struct gt_node *before, struct gt_node *node)
{
    bool kept = false;
    assert_int_equal(gt_node_finish(node, NULL), 0);
    assert_int_equal(gt_stale_links_keep(before, node, &kept, NULL), 0);
    return kept;
}

static void links_and_servers_stay(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *before = machine(true), *node = machine(false), *again = machine(false);
    assert_true(keep(before, node));
    const struct gt_link *link = gt_node_link(node, 0, 1);
    assert_true(link->stale);
    assert_int_equal(link->kind, GT_LINK_MX);
    assert_int_equal(link->ports, 2);
    assert_int_equal(link->weight, gt_node_link(before, 0, 1)->weight);
    assert_int_equal(node->gpus[1].zone, 1);
    assert_false(gt_node_link(node, 0, 2)->stale);
    assert_int_equal(gt_node_link(node, 0, 2)->kind, GT_LINK_NODE);
    assert_string_equal(node->server_uuid, "SERVER-1");
    assert_int_equal(node->remote_count, 1);
    /* the next scan finds it as silent */
    assert_true(keep(node, again));
    assert_true(gt_node_link(again, 0, 1)->stale);
}

static void not_of_another_card(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *before = machine(true), *device = machine(false), *uuid = machine(false),
                                *place = machine(false);
    device->gpus[1].pci.device = 0x0a02;
    assert_false(keep(before, device)); /* nor the servers: it may be another machine's card */
    snprintf(uuid->gpus[0].uuid, sizeof(uuid->gpus[0].uuid), "GPU-7");
    assert_false(keep(before, uuid));
    snprintf(place->gpus[2].bdf, sizeof(place->gpus[2].bdf), "0000:77:00.0");
    assert_true(keep(before, place));
    assert_true(gt_node_link(place, 0, 1)->stale);
    assert_string_equal(place->server_uuid, "");
}

static void not_where_the_library_speaks(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *before = machine(true), *node = machine(false);
    node->gpus[0].vendor_index = 0; /* it knows this one, and reports no link */
    assert_false(keep(before, node));
    assert_int_equal(gt_node_link(node, 0, 1)->kind, GT_LINK_NODE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_and_servers_stay),
        cmocka_unit_test(not_of_another_card),
        cmocka_unit_test(not_where_the_library_speaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
