/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "topology/model/node.h"

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
