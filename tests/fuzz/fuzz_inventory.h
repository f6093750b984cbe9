/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "deviceplugin/inventory.h"

/* Six GPUs, GPU-0 to GPU-5, in two meshes of three; GPU-4 is unhealthy. A seventh, GPU-6, was lost. Made
 * once. */
static inline const struct gt_inventory *fuzz_inventory(void)
{
    static struct gt_inventory *inventory;
    if (inventory)
        return inventory;
    struct gt_inventory *before = NULL;
    struct gt_class_cache *classes = NULL;
    if (gt_class_cache_new(2, &classes, NULL) < 0)
        abort();
    for (unsigned count = 7; count >= 6; count--) {
        struct gt_node *node = NULL;
        if (gt_node_new(count, 0, &node, NULL) < 0)
            abort();
        for (unsigned i = 0; i < count; i++) {
            struct gt_gpu *gpu = &node->gpus[i];
            snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
            snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:%02x:00.0", 0x10 + i);
            gpu->drm_card = (int)i;
            gpu->drm_render = 128 + (int)i;
            gpu->health = i == 4 ? GT_GPU_UNHEALTHY : GT_GPU_HEALTHY;
        }
        for (unsigned i = 0; i < node->link_count; i++) {
            struct gt_link *link = &node->links[i];
            link->path_kind = GT_LINK_SYS;
            link->kind = link->a / 3 == link->b / 3 ? GT_LINK_MX : GT_LINK_SYS;
        }
        if (gt_node_finish(node, NULL) < 0 ||
            gt_inventory_next(node, classes, before, NULL, 0, &inventory, NULL) < 0)
            abort();
        gt_node_unref(node);
        gt_inventory_unref(before);
        before = inventory;
    }
    gt_class_cache_free(classes);
    return inventory;
}
