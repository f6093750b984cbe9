/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/inventory.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

bool gt_in_use_has(const struct gt_in_use *in_use, const char *id)
{
    return GT_HAS_TEXT(in_use->ids, in_use->count, id);
}

bool gt_in_use_retired(const struct gt_in_use *in_use, const char *id)
{
    return GT_HAS_TEXT(in_use->retired, in_use->retired_count, id);
}

bool gt_in_use_retire(struct gt_in_use *in_use, const char *id)
{
    return in_use->retired_count < GT_GPUS_MAX && !gt_in_use_retired(in_use, id) &&
           gt_text_copy(in_use->retired[in_use->retired_count++], GT_ID_SIZE, id);
}

void gt_in_use_add(struct gt_in_use *in_use, const char *id)
{
    if (!gt_device_id_is_valid(id) || gt_in_use_has(in_use, id))
        return;
    if (in_use->count == GT_IN_USE_MAX)
        in_use->complete = false;
    else
        gt_text_copy(in_use->ids[in_use->count++], GT_ID_SIZE, id);
}

bool gt_in_use_equal(const struct gt_in_use *a, const struct gt_in_use *b)
{
    if (a->count != b->count || a->complete != b->complete || a->retired_count != b->retired_count)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (!gt_in_use_has(b, a->ids[i]))
            return false;
    return true;
}

static const char place_prefix[] = "PCI-";

static bool id_is_taken(const struct gt_inventory *inventory, const struct gt_inventory *previous,
                        const struct gt_in_use *in_use, const char *id)
{
    return (in_use && gt_in_use_retired(in_use, id)) ||
           GT_FIND(inventory->devices, inventory->device_count, id, id) ||
           (previous && GT_FIND(previous->devices, previous->device_count, id, id));
}

/* An unused ID: the GPU's own ID, followed by a number if another card was served by it. */
static void make_new_id(const struct gt_inventory *inventory, const struct gt_inventory *previous,
                        const struct gt_in_use *in_use, const struct gt_gpu *gpu, char to[static GT_ID_SIZE])
{
    char own[GT_ID_SIZE];
    gt_gpu_device_id(gpu, own);
    memcpy(to, own, GT_ID_SIZE);
    for (unsigned n = 2; id_is_taken(inventory, previous, in_use, to); n++)
        snprintf(to, GT_ID_SIZE, "%.80s.%u", own, n);
}

/* How well a previous device matches this GPU, 0: not at all. A device in use comes first, then one with the
 * same UUID, then one that was not lost. */
static unsigned similarity(const struct gt_device *old, const struct gt_gpu *gpu)
{
    bool same_uuid = gpu->uuid[0] && strcmp(old->uuid, gpu->uuid) == 0;
    bool same_place = strcmp(old->bdf, gpu->bdf) == 0 && !(gpu->uuid[0] && old->uuid[0]);
    if ((!same_uuid && !same_place) || old->retired)
        return 0;
    return 1U + (old->in_use ? 4 : 0) + (same_uuid ? 2 : 0) + (old->gpu >= 0 ? 1 : 0);
}

/* The previous device that is this GPU, -1 for none. */
static int find_previous(const struct gt_inventory *previous, const struct gt_gpu *gpu,
                         const bool matched[static GT_DEVICES_MAX])
{
    int best = -1;
    unsigned most = 0;
    for (unsigned i = 0; previous && i < previous->device_count; i++) {
        unsigned like = matched[i] ? 0 : similarity(&previous->devices[i], gpu);
        if (like > most) {
            most = like;
            best = (int)i;
        }
    }
    return best;
}

/*
 * GPUs are matched by UUID first, then by BDF: otherwise a GPU without a UUID could get the ID of one that
 * has only moved.
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
                        const struct gt_in_use *in_use, const struct gt_gpu *gpu, int match,
                        const char *not_advertised)
{
    struct gt_device device = {.gpu = (int)gpu->index,
                               .healthy = gt_gpu_usable(gpu) && !not_advertised,
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
        device.in_use = old->in_use;
        if (!device.uuid[0])
            memcpy(device.uuid, old->uuid, sizeof(device.uuid));
    } else
        make_new_id(inventory, previous, in_use, gpu, device.id);
    inventory->devices[inventory->device_count++] = device;
}

/* The GPU of this device if it is now served by another ID, NULL if not. */
static const struct gt_device *served_as(const struct gt_inventory *inventory, const struct gt_device *old)
{
    for (unsigned i = 0; i < inventory->node->gpu_count; i++) {
        const struct gt_device *other = &inventory->devices[i];
        bool same_uuid = old->uuid[0] && strcmp(old->uuid, other->uuid) == 0;
        bool same_place = strcmp(old->bdf, other->bdf) == 0 && !(old->uuid[0] && other->uuid[0]);
        if (same_uuid || same_place)
            return other;
    }
    return NULL;
}

static void inventory_add_lost(struct gt_inventory *inventory, const struct gt_device *old,
                               const struct gt_in_use *in_use, uint64_t now_ms)
{
    if (inventory->device_count == GT_DEVICES_MAX)
        return;
    struct gt_device device = *old;
    if (old->gpu >= 0 || !old->lost_ms) {
        device.lost_ms = now_ms ? now_ms : 1;
        device.reason[0] = '\0';
    } else if (in_use && in_use->complete && !old->in_use &&
               now_ms - old->lost_ms >= (old->retired ? GT_RETIRED_RETENTION_MS : GT_LOST_RETENTION_MS))
        return;
    device.gpu = -1;
    device.healthy = false;
    device.drm_card = device.drm_render = -1;
    const struct gt_device *other = served_as(inventory, old);
    if (other)
        snprintf(device.reason, sizeof(device.reason), "the GPU is served as %.96s", other->id);
    else if (old->gpu >= 0 || old->bdf[0])
        snprintf(device.reason, sizeof(device.reason), "the GPU is not on the PCI bus any more");
    else
        snprintf(device.reason, sizeof(device.reason), "in use, but no GPU of this node is known by this ID");
    inventory->devices[inventory->device_count++] = device;
}

/*
 * A container holds a device that matches no GPU, and this GPU's UUID is not known: it may be that device.
 * This happens after a restart of this program while the vendor library does not answer yet.
 */
static void hold_back(struct gt_inventory *inventory)
{
    unsigned gpus = inventory->node->gpu_count, unplaced = 0;
    for (unsigned i = gpus; i < inventory->device_count; i++)
        unplaced += inventory->devices[i].in_use && !inventory->devices[i].bdf[0];
    for (unsigned i = 0; unplaced && i < gpus; i++) {
        struct gt_device *device = &inventory->devices[i];
        if (device->uuid[0] || device->in_use || !device->healthy)
            continue;
        device->healthy = false;
        snprintf(device->reason, sizeof(device->reason),
                 "its UUID is unknown, and it may be one of %u in use that cannot be found", unplaced);
    }
}

/* A device that a container holds and that this process has not served: it is from before its start. */
static void add_known(struct gt_inventory *inventory, const char *id, uint64_t now_ms)
{
    if (inventory->device_count == GT_DEVICES_MAX)
        return;
    struct gt_device device = {.gpu = -1,
                               .numa_node = -1,
                               .drm_card = -1,
                               .drm_render = -1,
                               .in_use = true,
                               .lost_ms = now_ms ? now_ms : 1};
    gt_text_copy(device.id, sizeof(device.id), id);
    if (strncmp(id, place_prefix, strlen(place_prefix)) == 0)
        gt_bdf_normalise(id + strlen(place_prefix), device.bdf);
    else
        gt_text_copy(device.uuid, sizeof(device.uuid), id);
    inventory->devices[inventory->device_count++] = device;
}

/* The previous devices, with those in use marked, and further devices in use. It has no node and is used for
 * matching only. */
static struct gt_inventory *merge(const struct gt_inventory *previous, const struct gt_in_use *in_use,
                                  uint64_t now_ms)
{
    struct gt_inventory *merged = calloc(1, sizeof(*merged));
    if (!merged)
        return NULL;
    for (unsigned i = 0; previous && i < previous->device_count; i++) {
        merged->devices[i] = previous->devices[i];
        merged->devices[i].in_use = gt_in_use_has(in_use, previous->devices[i].id);
        merged->devices[i].retired = gt_in_use_retired(in_use, previous->devices[i].id);
        merged->device_count++;
    }
    for (unsigned i = 0; i < in_use->count; i++)
        if (!previous || !gt_inventory_find(previous, in_use->ids[i]))
            add_known(merged, in_use->ids[i], now_ms);
    return merged;
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

int gt_inventory_next(const struct gt_node *node, struct gt_class_cache *classes,
                      const struct gt_inventory *previous, const struct gt_in_use *in_use, uint64_t now_ms,
                      struct gt_inventory **ret, struct gt_err **err)
{
    const char *not_advertised = gt_node_not_advertised(node);
    bool served = previous && previous->device_count;
    gt_auto_inventory struct gt_inventory *inventory = calloc(1, sizeof(*inventory));
    GT_NEED(inventory, err, "inventory");
    inventory->references = 1;
    inventory->number = previous ? previous->number + 1 : 1;
    gt_auto_free struct gt_inventory *merged = in_use ? merge(previous, in_use, now_ms) : NULL;
    if (in_use && !merged)
        return gt_fail_sys(err, ENOMEM, "inventory");
    if (merged)
        previous = merged;
    inventory->node = gt_node_ref(node);
    if (node->gpu_count) {
        struct gt_weights weights;
        gt_weights_of(node, &weights);
        GT_TRY(gt_class_cache_get(classes, &weights, &inventory->class, err));
    }
    /* On a node without GPUs, or on one that is left to the vendor's plugin, devices in use that we have not
     * served belong to another plugin. They are not listed. */
    if (served || (!not_advertised && node->gpu_count)) {
        int match[GT_GPUS_MAX];
        bool matched[GT_DEVICES_MAX] = {false};
        match_previous(node, previous, match, matched);
        for (unsigned i = 0; i < node->gpu_count; i++)
            add_present(inventory, previous, in_use, &node->gpus[i], match[i], not_advertised);
        for (unsigned i = 0; previous && i < previous->device_count; i++)
            if (!matched[i])
                inventory_add_lost(inventory, &previous->devices[i], in_use, now_ms);
        hold_back(inventory);
        sort_by_id(inventory);
    }
    *ret = gt_steal(inventory);
    return 0;
}

int gt_inventory_withhold(const struct gt_inventory *inventory, uint64_t gpus, const char *reason,
                          struct gt_inventory **ret, struct gt_err **err)
{
    struct gt_inventory *copy = malloc(sizeof(*copy));
    GT_NEED(copy, err, "inventory");
    memcpy(copy, inventory, offsetof(struct gt_inventory, references)); /* others change that meanwhile */
    copy->references = 1;
    copy->node = gt_node_ref(inventory->node);
    copy->class = inventory->class ? gt_class_ref(inventory->class) : NULL;
    for (unsigned i = 0; i < copy->device_count; i++) {
        struct gt_device *device = &copy->devices[i];
        if (device->gpu < 0 || !device->healthy || !(gpus >> device->gpu & 1))
            continue;
        device->healthy = false;
        snprintf(device->reason, sizeof(device->reason), "%s", reason);
    }
    *ret = copy;
    return 0;
}

unsigned gt_inventory_lost(const struct gt_inventory *inventory)
{
    unsigned lost = 0;
    for (unsigned i = 0; i < inventory->device_count; i++)
        lost += gt_device_is_lost(&inventory->devices[i]);
    return lost;
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

bool gt_inventory_has_temporary_id(const struct gt_inventory *inventory, const struct gt_device *device)
{
    char own[GT_ID_SIZE];
    if (device->gpu < 0 || strncmp(device->id, place_prefix, strlen(place_prefix)) != 0)
        return false;
    gt_gpu_device_id(&inventory->node->gpus[device->gpu], own);
    return strncmp(own, place_prefix, strlen(place_prefix)) != 0 && !gt_inventory_find(inventory, own);
}

const struct gt_device *gt_inventory_find(const struct gt_inventory *inventory, const char *id)
{
    size_t at = GT_LOWER_BOUND(i, inventory->device_count,
                               strcmp(inventory->devices[inventory->by_id[i]].id, id) < 0);
    const struct gt_device *device =
        at < inventory->device_count ? &inventory->devices[inventory->by_id[at]] : NULL;
    return device && strcmp(device->id, id) == 0 ? device : NULL;
}
