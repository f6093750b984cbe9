/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/variables.h"

void gt_variable_uuids(const struct gt_device *const *devices, unsigned count, struct gt_buf *to)
{
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "%s%s", i ? "," : "", devices[i]->uuid[0] ? devices[i]->uuid : devices[i]->id);
}

static bool put_nearest_nics(const struct gt_node *node, unsigned gpu, struct gt_buf *to)
{
    enum gt_link_kind nearest = GT_LINK_UNKNOWN;
    unsigned count = 0;
    for (unsigned i = 0; i < node->nic_count; i++)
        if (node->nics[i].kind[gpu] < nearest)
            nearest = node->nics[i].kind[gpu];
    for (unsigned i = 0; i < node->nic_count && count < GT_NICS_PER_GPU; i++)
        if (nearest != GT_LINK_UNKNOWN && node->nics[i].kind[gpu] == nearest)
            gt_buf_printf(to, "%s%s", count++ ? "," : "", node->nics[i].name);
    return count;
}

bool gt_variable_nics(const struct gt_node *node, const struct gt_device *const *devices, unsigned count,
                      struct gt_buf *to)
{
    bool any = false;
    for (unsigned i = 0; i < count; i++) {
        gt_buf_puts(to, i ? ";" : "");
        any = put_nearest_nics(node, (unsigned)devices[i]->gpu, to) || any;
    }
    return any;
}
