/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/inventory.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

static bool id_is_taken(const struct gt_inventory *inventory, const struct gt_inventory *previous,
                        const char *id)
{
    for (unsigned i = 0; i < inventory->device_count; i++)
        if (strcmp(inventory->devices[i].id, id) == 0)
            return true;
    for (unsigned i = 0; previous && i < previous->device_count; i++)
        if (strcmp(previous->devices[i].id, id) == 0)
            return true;
    return false;
}

/* An ID that nobody has or had: the GPU's own, or with a number behind where another card was served as it.
 */
static void make_new_id(const struct gt_inventory *inventory, const struct gt_inventory *previous,
                        const struct gt_gpu *gpu, char to[static GT_ID_SIZE])
{
    char own[GT_ID_SIZE];
    gt_gpu_device_id(gpu, own);
    memcpy(to, own, GT_ID_SIZE);
    for (unsigned n = 2; id_is_taken(inventory, previous, to); n++)
        snprintf(to, GT_ID_SIZE, "%.80s.%u", own, n);
}

/* The previous device that this GPU is, -1 for none. */
static int find_previous(const struct gt_inventory *previous, const struct gt_gpu *gpu,
                         const bool matched[static GT_DEVICES_MAX])
{
    if (!previous)
        return -1;
    for (unsigned i = 0; gpu->uuid[0] && i < previous->device_count; i++)
        if (!matched[i] && strcmp(previous->devices[i].uuid, gpu->uuid) == 0)
            return (int)i;
    /* By place: the one that is there now before one that was lost there. */
    int lost = -1;
    for (unsigned i = 0; i < previous->device_count; i++) {
        const struct gt_device *old = &previous->devices[i];
        if (matched[i] || strcmp(old->bdf, gpu->bdf) != 0 || (gpu->uuid[0] && old->uuid[0]))
            continue;
        if (old->gpu >= 0)
            return (int)i;
        if (lost < 0)
            lost = (int)i;
    }
    return lost;
}

/*
 * Who is known by UUID is matched before places are: else a GPU without UUID could take the ID of one that
 * only moved.
 */
static void match_previous(const struct gt_node *node, const struct gt_inventory *previous,
                           int match[static GT_GPUS_MAX], bool matched[static GT_DEVICES_MAX])
{
    for (int pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < node->gpu_count; i++) {
            const struct gt_gpu *gpu = &node->gpus[i];
            if ((gpu->uuid[0] == '\0') != (pass == 1))
                continue;
            match[i] = find_previous(previous, gpu, matched);
            if (match[i] >= 0)
                matched[match[i]] = true;
        }
}

static void add_present(struct gt_inventory *inventory, const struct gt_inventory *previous,
                        const struct gt_gpu *gpu, int match, const char *not_advertised)
{
    struct gt_device device = {.gpu = (int)gpu->index,
                               .healthy = gpu->healthy && !not_advertised,
                               .numa_node = gpu->numa_node,
                               .drm_card = gpu->drm_card,
                               .drm_render = gpu->drm_render};
    memcpy(device.uuid, gpu->uuid, sizeof(device.uuid));
    memcpy(device.bdf, gpu->bdf, sizeof(device.bdf));
    if (!device.healthy)
        snprintf(device.reason, sizeof(device.reason), "%s",
                 not_advertised ? not_advertised : gpu->unhealthy_reason);
    if (match >= 0) {
        const struct gt_device *old = &previous->devices[match];
        memcpy(device.id, old->id, sizeof(device.id));
        if (!device.uuid[0])
            memcpy(device.uuid, old->uuid, sizeof(device.uuid));
    } else
        make_new_id(inventory, previous, gpu, device.id);
    inventory->devices[inventory->device_count++] = device;
}

static void add_lost(struct gt_inventory *inventory, const struct gt_device *old)
{
    if (inventory->device_count == GT_DEVICES_MAX)
        return;
    struct gt_device device = *old;
    device.gpu = -1;
    device.healthy = false;
    device.drm_card = device.drm_render = -1;
    snprintf(device.reason, sizeof(device.reason), "the GPU is not on the PCI bus any more");
    inventory->devices[inventory->device_count++] = device;
}

static void sort_by_id(struct gt_inventory *inventory)
{
    for (unsigned i = 0; i < inventory->device_count; i++) {
        unsigned at = i;
        for (; at && strcmp(inventory->devices[inventory->by_id[at - 1]].id, inventory->devices[i].id) > 0;
             at--)
            inventory->by_id[at] = inventory->by_id[at - 1];
        inventory->by_id[at] = (uint8_t)i;
    }
}

int gt_inventory_new(const struct gt_node *node, struct gt_class_cache *classes,
                     const struct gt_inventory *previous, struct gt_inventory **ret, struct gt_err **err)
{
    const char *not_advertised = gt_node_not_advertised(node);
    gt_auto_inventory struct gt_inventory *inventory = calloc(1, sizeof(*inventory));
    if (!inventory)
        return gt_fail_sys(err, ENOMEM, "inventory");
    inventory->references = 1;
    inventory->node = gt_node_ref(node);
    if (node->gpu_count) {
        struct gt_weights weights;
        gt_weights_of(node, &weights);
        int r = gt_class_cache_get(classes, &weights, &inventory->class, err);
        if (r < 0)
            return r;
    }
    if (!not_advertised || (previous && previous->device_count)) {
        int match[GT_GPUS_MAX];
        bool matched[GT_DEVICES_MAX] = {false};
        match_previous(node, previous, match, matched);
        for (unsigned i = 0; i < node->gpu_count; i++)
            add_present(inventory, previous, &node->gpus[i], match[i], not_advertised);
        for (unsigned i = 0; previous && i < previous->device_count; i++)
            if (!matched[i])
                add_lost(inventory, &previous->devices[i]);
        sort_by_id(inventory);
    }
    *ret = gt_steal(inventory);
    return 0;
}

struct gt_inventory *gt_inventory_ref(const struct gt_inventory *inventory)
{
    union { /* the count is the one thing of an inventory that changes */
        const struct gt_inventory *in;
        struct gt_inventory *out;
    } same = {inventory};
    __atomic_add_fetch(&same.out->references, 1, __ATOMIC_RELAXED);
    return same.out;
}

void gt_inventory_unref(struct gt_inventory *inventory)
{
    if (!inventory || __atomic_sub_fetch(&inventory->references, 1, __ATOMIC_ACQ_REL))
        return;
    gt_class_unref(inventory->class);
    gt_node_unref(inventory->node);
    free(inventory);
}

bool gt_inventory_same_list(const struct gt_inventory *a, const struct gt_inventory *b)
{
    if (a->device_count != b->device_count)
        return false;
    for (unsigned i = 0; i < a->device_count; i++) {
        const struct gt_device *x = &a->devices[a->by_id[i]], *y = &b->devices[b->by_id[i]];
        if (strcmp(x->id, y->id) != 0 || x->healthy != y->healthy || x->numa_node != y->numa_node)
            return false;
    }
    return true;
}

const struct gt_device *gt_inventory_find(const struct gt_inventory *inventory, const char *id)
{
    unsigned low = 0, high = inventory->device_count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        const struct gt_device *device = &inventory->devices[inventory->by_id[middle]];
        int order = strcmp(id, device->id);
        if (order == 0)
            return device;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
