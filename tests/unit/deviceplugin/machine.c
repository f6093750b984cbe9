/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "base/err.h"

#include "base/buf.h"

unsigned machine_random(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(*state >> 33) % below;
}

struct gt_node *machine_new(unsigned n, unsigned seed)
{
    struct gt_node *node = NULL;
    uint64_t random = seed;
    if (gt_node_new(n, 0, &node, NULL) < 0)
        abort();
    for (unsigned i = 0; i < n; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u", i);
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:%02x:00.0", 0x10 + i);
        gpu->numa_node = (int)i / 4;
        gpu->drm_card = (int)i;
        gpu->drm_render = 128 + (int)i;
    }
    for (unsigned i = 0; i < node->link_count; i++) {
        node->links[i].kind = node->links[i].path_kind = GT_LINK_SYS;
        if (!seed)
            continue;
        node->links[i].kind = GT_LINK_MX;
        node->links[i].bandwidth_mbps = 1000 * (1 + machine_random(&random, 5));
    }
    return node;
}

struct gt_inventory *machine_inventory(struct gt_node *node, const struct gt_inventory *previous)
{
    static struct gt_class_cache *classes;
    struct gt_inventory *inventory = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (!classes && gt_class_cache_new(4, &classes, &err) < 0)
        abort();
    if (gt_node_finish(node, &err) < 0 ||
        gt_inventory_next(node, classes, previous, NULL, 0, &inventory, &err) < 0) {
        fprintf(stderr, "machine: %s\n", gt_err_text(err));
        abort();
    }
    gt_node_unref(node);
    return inventory;
}

const char *machine_list(const struct gt_inventory *inventory)
{
    static char text[8192];
    gt_auto_buf struct gt_buf buf = GT_BUF(sizeof(text) - 1);
    for (unsigned i = 0; i < inventory->device_count; i++) {
        const struct gt_device *device = &inventory->devices[i];
        gt_buf_printf(&buf, "%s%s%c", i ? " " : "", device->id,
                      device->gpu < 0   ? '!'
                      : device->healthy ? '+'
                                        : '-');
    }
    snprintf(text, sizeof(text), "%s", buf.data ? buf.data : "");
    return text;
}
