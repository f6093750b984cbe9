/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/jobs/mesh_cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

const struct gt_numa *mesh_numa(unsigned number)
{
    static const struct gt_numa numas[MESH_NUMAS] = {{.count = 2, .single = true, .gpus = {0x0f, 0xf0}},
                                                     {.count = 2, .gpus = {0x0f, 0xf0}},
                                                     {.count = 2, .single = true, .gpus = {0x03, 0xfc}},
                                                     {.count = 2, .gpus = {0x03, 0xfc}}};
    return &numas[number];
}

struct gt_cluster *mesh_cluster_new(unsigned supernodes, const unsigned supers[MESH_NODES],
                                    const struct gt_numa *numa, uint32_t ret_nodes[MESH_NODES])
{
    struct gt_cluster *cluster = NULL;
    struct gt_weights weights = {.n = MESH_GPUS};
    gt_auto_class struct gt_class *class = NULL;
    uint32_t id, ids[MESH_NODES];
    char name[8];
    assert_int_equal(gt_cluster_new(&cluster, NULL), 0);
    for (unsigned i = 0; i < MESH_GPUS; i++)
        for (unsigned j = 0; j < MESH_GPUS; j++)
            weights.w[i][j] = i != j;
    if (numa)
        weights.numa = *numa;
    assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
    assert_int_equal(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    for (unsigned i = 0; i < supernodes; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        assert_int_equal(gt_cluster_add_supernode(cluster, name, 1, GT_NONE, &ids[i], NULL), 0);
    }
    for (unsigned i = 0; i < MESH_NODES; i++) {
        uint32_t super = supernodes ? ids[supers[i]] : GT_NONE;
        snprintf(name, sizeof(name), "n%u", i);
        assert_int_equal(gt_cluster_add_node(cluster, name, id, super, &ret_nodes[i], NULL), 0);
    }
    return cluster;
}

void mesh_cluster_take(struct gt_cluster *cluster, uint32_t node, uint64_t mask)
{
    struct gt_cluster_node n;
    gt_cluster_get_node(cluster, node, &n);
    gt_cluster_set_free(cluster, node, n.free & ~mask);
}

unsigned mesh_below(uint64_t *state, unsigned n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*state >> 33) % n;
}
