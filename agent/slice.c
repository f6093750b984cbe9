/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/slice.h"

#include <string.h>

#include "api/resource_slice.h"
#include "base/bits.h"
#include "topology/model/device_name.h"

enum { ORDER_SEARCH_US = 200 };

static const struct gt_device *device_of(const struct gt_inventory *inventory, unsigned gpu)
{
    for (unsigned i = 0; i < inventory->device_count; i++)
        if (inventory->devices[i].gpu == (int)gpu)
            return &inventory->devices[i];
    return NULL;
}

static uint64_t offered(const struct gt_slice_facts *facts)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < facts->inventory->node->gpu_count; i++) {
        const struct gt_device *device = device_of(facts->inventory, i);
        if (device && (device->healthy || facts->taint_effect))
            mask |= UINT64_C(1) << i;
    }
    return mask & ~facts->others;
}

/* The best one of `free`, and its best partner. */
static uint64_t best_pair(const struct gt_class *class, uint64_t free, unsigned *ret_first)
{
    struct gt_choice choice;
    if (!class || !gt_choose(class, free, 0, 1, ORDER_SEARCH_US, &choice))
        choice.mask = free & -free;
    uint64_t one = choice.mask;
    *ret_first = gt_bit_first(one);
    return class && gt_choose(class, free, one, 2, ORDER_SEARCH_US, &choice) ? choice.mask : one;
}

static unsigned make_order(const struct gt_slice_facts *facts, unsigned ret[static GT_GPUS_MAX])
{
    uint64_t all = offered(facts), free = all & facts->usage->free, used = all & ~free;
    unsigned count = 0;
    while (free) {
        unsigned first;
        uint64_t pair = best_pair(facts->inventory->class, free, &first);
        ret[count++] = first;
        free &= ~pair;
        for (uint64_t rest = pair & ~(UINT64_C(1) << first); rest; rest &= rest - 1)
            ret[count++] = gt_bit_first(rest);
    }
    for (; used; used &= used - 1)
        ret[count++] = gt_bit_first(used);
    return count;
}

/* Why an unhealthy GPU is so, as the value of a taint. */
static const char *taint_of(const struct gt_gpu *gpu)
{
    return gpu->cause < GT_SIGNALS ? gt_signal_name(gpu->cause) : "unhealthy";
}

void gt_slice_write(const struct gt_slice_facts *facts, struct gt_buf *to)
{
    struct gt_resource_slice slice = {.node_name = facts->node_name,
                                      .node_uid = facts->node_uid,
                                      .node = facts->inventory->node,
                                      .supernode = facts->supernode,
                                      .taint_effect = facts->taint_effect};
    char names[GT_GPUS_MAX][GT_DRA_DEVICE_SIZE];
    unsigned order[GT_GPUS_MAX], count = make_order(facts, order);
    for (unsigned i = 0; i < count; i++) {
        const struct gt_gpu *gpu = &slice.node->gpus[order[i]];
        if (!gt_dra_device_name(gpu->bdf, names[i]))
            continue;
        slice.devices[slice.device_count++] = (struct gt_slice_device){
            names[i], gpu, device_of(facts->inventory, order[i])->healthy ? NULL : taint_of(gpu)};
    }
    gt_resource_slice_write(&slice, to);
}
