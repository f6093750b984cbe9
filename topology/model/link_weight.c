/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/node.h"

enum { WEIGHT_MAX = UINT16_MAX };

/* GB/s where nothing better is known: one 16-lane port of MetaXLink at 32 GT/s, and what is left of a 16-lane
 * PCIe 4.0 link with every stage on the way. */
static uint32_t weight_of_kind(enum gt_link_kind kind)
{
    switch (kind) {
    case GT_LINK_MX:
        return 64;
    case GT_LINK_PIX:
        return 32;
    case GT_LINK_PXB:
        return 24;
    case GT_LINK_PHB:
        return 16;
    case GT_LINK_NODE:
        return 12;
    case GT_LINK_SYS:
        return 8;
    case GT_LINK_SELF:
    case GT_LINK_UNKNOWN:
        break;
    }
    return 0;
}

static uint32_t rounded(double gigabytes)
{
    if (!(gigabytes >= 1))
        return 1;
    return gigabytes >= WEIGHT_MAX ? WEIGHT_MAX : (uint32_t)(gigabytes + 0.5);
}

uint32_t gt_link_weight(const struct gt_link *link)
{
    if (link->state == GT_LINK_STATE_DOWN)
        return weight_of_kind(link->kind == GT_LINK_MX ? link->path_kind : link->kind);
    if (link->bandwidth_mbps)
        return rounded((double)link->bandwidth_mbps / 1000);
    if (link->kind == GT_LINK_MX && link->speed > 0 && link->width)
        return rounded((link->ports ? (double)link->ports : 1.0) * link->width * link->speed / 8);
    return weight_of_kind(link->kind);
}
