/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/measured.h"

#include <string.h>

#include "base/text.h"

static void measured_lower(struct gt_link *link, uint64_t mbps)
{
    if (link && (!link->measured_mbps || mbps < link->measured_mbps))
        link->measured_mbps = mbps;
}

/* Where the library does not say its numbers, they are taken for ours. */
static int measured_gpu_named(const struct gt_node *node, const char *name)
{
    uint64_t number;
    if (name[0] != '#')
        return gt_node_gpu_named(node, name);
    if (!gt_text_to_unsigned(name + 1, GT_GPUS_MAX - 1, &number))
        return -1;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].vendor_index == (int)number)
            return (int)i;
    return number < node->gpu_count && node->gpus[number].vendor_index < 0 ? (int)number : -1;
}

int gt_measured_apply(const struct gt_measured *measured, struct gt_node *node, struct gt_err **err)
{
    for (unsigned i = 0; i < measured->count; i++) {
        const struct gt_measurement *one = &measured->of[i];
        int gpu = measured_gpu_named(node, one->gpu);
        int peer = one->peer[0] ? measured_gpu_named(node, one->peer) : -1;
        if (gpu < 0 || (one->peer[0] && peer < 0))
            continue;
        for (unsigned other = 0; other < node->gpu_count; other++)
            if (!one->peer[0] || other == (unsigned)peer)
                measured_lower(gt_node_link(node, (unsigned)gpu, other), one->mbps);
    }
    return gt_node_finish(node, err);
}

bool gt_measured_equal(const struct gt_measured *a, const struct gt_measured *b)
{
    bool same = a->count == b->count;
    for (unsigned i = 0; same && i < a->count; i++)
        same = a->of[i].mbps == b->of[i].mbps && strcmp(a->of[i].gpu, b->of[i].gpu) == 0 &&
               strcmp(a->of[i].peer, b->of[i].peer) == 0;
    return same;
}
