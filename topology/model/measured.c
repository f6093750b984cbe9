/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/measured.h"

static void measured_lower(struct gt_link *link, uint64_t mbps)
{
    if (link && (!link->measured_mbps || mbps < link->measured_mbps))
        link->measured_mbps = mbps;
}

int gt_measured_apply(const struct gt_measured *measured, struct gt_node *node, struct gt_err **err)
{
    for (unsigned i = 0; i < measured->count; i++) {
        const struct gt_measurement *one = &measured->of[i];
        int gpu = gt_node_gpu_named(node, one->gpu);
        int peer = one->peer[0] ? gt_node_gpu_named(node, one->peer) : -1;
        if (gpu < 0 || (one->peer[0] && peer < 0))
            continue;
        for (unsigned other = 0; other < node->gpu_count; other++)
            if (!one->peer[0] || other == (unsigned)peer)
                measured_lower(gt_node_link(node, (unsigned)gpu, other), one->mbps);
    }
    return gt_node_finish(node, err);
}
