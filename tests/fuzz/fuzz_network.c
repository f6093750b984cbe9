/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/supernodes/join.h"
#include "tests/fuzz/fuzz.h"

/* A network in any form. Whatever it holds, each node is in at most one chain of domains, whose tiers rise.
 */
static void expect_order(const struct gt_join *join)
{
    for (uint32_t s = 0; s < join->supernode_count; s++) {
        uint32_t parent = join->supernodes[s].parent;
        if (parent != GT_JOIN_NONE && join->supernodes[parent].tier <= join->supernodes[s].tier)
            abort();
        if (!join->supernodes[s].name[0])
            abort();
    }
    for (uint32_t i = 0; i < join->node_count; i++)
        if (join->supernode_of[i] != GT_JOIN_NONE && join->supernodes[join->supernode_of[i]].tier != 1)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct gt_join_node nodes[] = {
        {"a", NULL, NULL, 0, "r", NULL},     {"b", NULL, NULL, 0, "r", NULL},
        {"c", NULL, NULL, 0, NULL, NULL},    {"n1", NULL, NULL, 0, NULL, NULL},
        {"n2.x", NULL, NULL, 0, NULL, NULL}, {"n3", NULL, NULL, 0, NULL, NULL}};
    gt_auto_network struct gt_network *network = NULL;
    gt_auto_network_places struct gt_network_places *places = NULL;
    const char *names[sizeof(nodes) / sizeof(nodes[0])];
    gt_auto_join struct gt_join *join = NULL;
    gt_auto_free char *copy = malloc(size + 1);
    if (!copy || gt_network_new(&network, NULL) < 0)
        return 0;
    memcpy(copy, data, size);
    copy[size] = '\0';
    for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
        names[i] = nodes[i].name;
    if (gt_network_read(network, copy, strlen(copy), NULL) >= 0 &&
        gt_network_place(network, names, sizeof(nodes) / sizeof(nodes[0]), &places, NULL) >= 0 &&
        gt_join_supernodes(&(struct gt_join_input){nodes, sizeof(nodes) / sizeof(nodes[0]), NULL, 0, places},
                           &join, NULL) >= 0)
        expect_order(join);
    return 0;
}
