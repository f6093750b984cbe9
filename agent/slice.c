/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/slice.h"

#include <stdlib.h>
#include <string.h>

#include "api/resource_slice.h"
#include "base/bits.h"
#include "deviceplugin/dra/claim_cdi.h"
#include "topology/model/isolation.h"

enum { ORDER_SEARCH_US = 200 };

/* NULL where the node is not advertised. */
static const struct gt_device *slice_device_of(const struct gt_inventory *inventory, unsigned gpu)
{
    return gpu < inventory->device_count ? &inventory->devices[gpu] : NULL;
}

static uint64_t may_be_given(const struct gt_slice_facts *facts)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < facts->inventory->node->gpu_count; i++) {
        const struct gt_device *device = slice_device_of(facts->inventory, i);
        if (device && (device->healthy || facts->taint_effect))
            mask |= UINT64_C(1) << i;
    }
    return mask & ~facts->others;
}

/* Those of `given` that a claim holds by a composite which these do not make up. */
static uint64_t hidden(const struct gt_slice_facts *facts, uint64_t given)
{
    const struct gt_node *node = facts->inventory->node;
    uint64_t mask = 0;
    for (unsigned i = 0; facts->claims && i < facts->claims->count; i++)
        for (unsigned k = 0; k < facts->claims->list[i].device_count; k++) {
            const struct gt_dra_claimed_device *claimed = &facts->claims->list[i].devices[k];
            if (claimed->admin || !claimed->composite[0])
                continue;
            const struct gt_device *device = gt_dra_find_device(facts->inventory, claimed->device);
            uint64_t whole = facts->composites ? gt_composite_of_node(node, claimed->composite) : 0;
            if (device && (!whole || whole & ~given))
                mask |= UINT64_C(1) << device->gpu;
        }
    return mask;
}

static uint64_t offered(const struct gt_slice_facts *facts)
{
    uint64_t given = may_be_given(facts);
    return given & ~hidden(facts, given);
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

/* Gives the device a taint where a GPU of it is unhealthy. Its value says why: a fault rather than an
 * isolation that pods stay with. */
static void add_taint(const struct gt_slice_facts *facts, struct gt_slice_device *device)
{
    const struct gt_node *node = facts->inventory->node;
    uint64_t isolated = gt_node_isolated(node);
    for (uint64_t rest = device->gpus; rest; rest &= rest - 1) {
        const struct gt_gpu *gpu = &node->gpus[gt_bit_first(rest)];
        if (slice_device_of(facts->inventory, gpu->index)->healthy || (device->taint && !device->keeps_pods))
            continue;
        device->taint = gpu->cause != GT_SIGNALS ? gt_signal_name(gpu->cause) : "unhealthy";
        device->keeps_pods = isolated & rest & -rest;
    }
}

/* ---- composites ---- */

struct ranked {
    uint64_t gpus;
    bool claimed; /* by a claim, as this composite */
    bool free;
    uint32_t weight, cut; /* S of the GPUs; what the other free ones lose */
};

static int compare_ranked(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;
    if (a->free != b->free)
        return a->free ? -1 : 1;
    GT_BY(b->weight, a->weight);
    GT_BY(a->cut, b->cut);
    return a->gpus < b->gpus ? -1 : 1;
}

static uint32_t sum_of(const struct gt_class *class, uint64_t gpus)
{
    return class ? gt_class_sum(class, gpus) : 0;
}

static bool slice_is_in_use(const struct gt_slice_facts *facts, const char *name)
{
    for (unsigned i = 0; facts->claims && i < facts->claims->count; i++)
        for (unsigned k = 0; k < facts->claims->list[i].device_count; k++) {
            const struct gt_dra_claimed_device *claimed = &facts->claims->list[i].devices[k];
            if (!claimed->admin && strcmp(claimed->composite, name) == 0)
                return true;
        }
    return false;
}

/* Those of a type that `all` make up, best first; their number. */
static unsigned rank(const struct gt_slice_facts *facts, enum gt_composite_type type, uint64_t all,
                     struct ranked ret[static GT_COMPOSITES_MAX])
{
    const struct gt_class *class = facts->inventory->class;
    uint64_t list[GT_COMPOSITES_MAX], free = all & facts->usage->free;
    unsigned found = gt_composite_list(facts->inventory->node, type, list), count = 0;
    for (unsigned i = 0; i < found; i++) {
        uint64_t gpus = list[i];
        if (gpus & ~all)
            continue;
        char name[GT_DRA_DEVICE_SIZE];
        gt_composite_name(facts->inventory->node, type, gpus, name);
        struct ranked *one = &ret[count++];
        *one = (struct ranked){gpus, slice_is_in_use(facts, name), !(gpus & ~free), sum_of(class, gpus), 0};
        if (one->free)
            one->cut = sum_of(class, free) - one->weight - sum_of(class, free & ~gpus);
    }
    qsort(ret, count, sizeof(*ret), compare_ranked);
    return count;
}

/* Those that are held, or the others. */
static void add_composites(const struct gt_slice_facts *facts, uint64_t all, bool claimed,
                           struct gt_resource_slice *slice,
                           char names[static GT_SLICE_COUNTED_MAX][GT_DRA_DEVICE_SIZE])
{
    struct ranked ranked[GT_COMPOSITES_MAX];
    for (unsigned type = GT_COMPOSITE_TYPES; type--;) { /* pairs, the most, last */
        unsigned count = rank(facts, (enum gt_composite_type)type, all, ranked);
        for (unsigned i = 0; i < count && slice->device_count < GT_SLICE_COUNTED_MAX; i++) {
            if (ranked[i].claimed != claimed)
                continue;
            char *name = names[slice->device_count];
            gt_composite_name(slice->node, (enum gt_composite_type)type, ranked[i].gpus, name);
            slice->devices[slice->device_count++] =
                (struct gt_slice_device){.name = name,
                                         .gpus = ranked[i].gpus,
                                         .type = (enum gt_composite_type)type,
                                         .weight = ranked[i].weight};
            add_taint(facts, &slice->devices[slice->device_count - 1]);
        }
    }
}

void gt_slice_write(const struct gt_slice_facts *facts, struct gt_buf *to)
{
    struct gt_resource_slice slice = {.node_name = facts->node_name,
                                      .node_uid = facts->node_uid,
                                      .node = facts->inventory->node,
                                      .supernode = facts->supernode,
                                      .taint_effect = facts->taint_effect,
                                      .has_counters = facts->composites};
    char names[GT_SLICE_COUNTED_MAX][GT_DRA_DEVICE_SIZE];
    unsigned order[GT_GPUS_MAX], count = make_order(facts, order);
    for (unsigned i = 0; i < count; i++) {
        char *name = names[slice.device_count];
        uint64_t gpu = UINT64_C(1) << order[i];
        if (!gt_dra_device_name(slice.node->gpus[order[i]].bdf, name))
            continue;
        slice.devices[slice.device_count] = (struct gt_slice_device){.name = name, .gpus = gpu};
        add_taint(facts, &slice.devices[slice.device_count++]);
    }
    /* Those that are held must have room: the scheduler knows by them which GPUs are in use. */
    for (unsigned pass = 0; facts->composites && pass < 2; pass++)
        add_composites(facts, offered(facts), !pass, &slice, names);
    gt_resource_slice_write(&slice, to);
}
