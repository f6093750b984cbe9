/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "topology/model/node.h"

enum { WEIGHT_MAX = UINT16_MAX };

/* GB/s where nothing better is known: one 16-lane port of MetaXLink at 32 GT/s, and what is left of a 16-lane
 * PCIe 4.0 link with every stage on the way. */
static const uint32_t weight_of_kind[] = {
    [GT_LINK_MX] = 64,   [GT_LINK_PIX] = 32, [GT_LINK_PXB] = 24,   [GT_LINK_PHB] = 16,
    [GT_LINK_NODE] = 12, [GT_LINK_SYS] = 8,  [GT_LINK_UNKNOWN] = 0};

static uint32_t rounded(double gigabytes)
{
    if (!(gigabytes >= 1))
        return 1;
    return gigabytes >= WEIGHT_MAX ? WEIGHT_MAX : (uint32_t)(gigabytes + 0.5);
}

static uint32_t nominal_weight(const struct gt_link *link)
{
    if (link->state == GT_LINK_STATE_DOWN)
        return weight_of_kind[link->kind == GT_LINK_MX ? link->path_kind : link->kind];
    if (link->bandwidth_mbps)
        return rounded((double)link->bandwidth_mbps / 1000);
    if (link->kind == GT_LINK_MX && link->speed > 0 && link->width)
        return rounded((link->ports ? (double)link->ports : 1.0) * link->width * link->speed / 8);
    return weight_of_kind[link->kind];
}

uint32_t gt_link_weight(const struct gt_link *link)
{
    uint32_t nominal = nominal_weight(link);
    uint32_t measured = link->measured_mbps ? rounded((double)link->measured_mbps / 1000) : nominal;
    return measured < nominal ? measured : nominal;
}

/* Where the two paths meet: the bridges below the lowest common one, on either side. */
static bool meet(const struct gt_pcie_path *a, const struct gt_pcie_path *b, unsigned *ret_below_a,
                 unsigned *ret_below_b)
{
    for (unsigned i = 0; i < a->depth && i < GT_PATH_MAX_DEPTH; i++)
        for (unsigned j = 0; j < b->depth && j < GT_PATH_MAX_DEPTH; j++)
            if (!strcmp(a->bridges[i], b->bridges[j])) {
                *ret_below_a = i;
                *ret_below_b = j;
                return true;
            }
    return false;
}

enum gt_link_kind gt_pcie_kind(const struct gt_pcie_path *a, int numa_a, const struct gt_pcie_path *b,
                               int numa_b)
{
    unsigned below_a, below_b;
    /*
     * A switch is an upstream bridge with downstream bridges behind it. Where one switch joins the devices,
     * the paths meet at its upstream bridge, each with one downstream bridge below; every further switch
     * adds two bridges to a side.
     */
    if (meet(a, b, &below_a, &below_b))
        return below_a <= 1 && below_b <= 1 ? GT_LINK_PIX : GT_LINK_PXB;
    bool roots_known = a->root[0] && b->root[0];
    if (roots_known && !strcmp(a->root, b->root))
        return GT_LINK_PHB;
    if (numa_a >= 0 && numa_b >= 0)
        return numa_a == numa_b ? GT_LINK_NODE : GT_LINK_SYS;
    return roots_known ? GT_LINK_SYS : GT_LINK_UNKNOWN;
}
