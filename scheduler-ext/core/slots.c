/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include <stdlib.h>
#include <string.h>

/* Slots: for some pod sizes, how many such pods each supernode has room for; updated with every change. */

uint8_t gt_core_slots_of[GT_GPUS_MAX + 1][GT_GPUS_MAX + 1];

__attribute__((constructor)) static void fill_slots_of(void)
{
    for (unsigned g = 1; g <= GT_GPUS_MAX; g++)
        for (unsigned n = 0; n <= GT_GPUS_MAX; n++)
            gt_core_slots_of[g][n] = (uint8_t)(n / g);
}

void gt_core_refresh_usable(struct gt_cluster *cluster, uint32_t node)
{
    unsigned before = cluster->usable[node],
             after = cluster->eligible[node] ? gt_core_bits(cluster->healthy[node]) : 0;
    cluster->usable[node] = (uint8_t)after;
    for (unsigned t = 0; t < cluster->slot_sizes; t++) {
        const uint8_t *slots = gt_core_slots_of[cluster->slot_size[t]];
        cluster->whole[t][cluster->super[node]] += (uint32_t)slots[after] - slots[before];
    }
}

/* Updates how many nodes have so many GPUs; 0 is not counted. */
static void count_node(struct gt_cluster *cluster, uint32_t node, unsigned before, unsigned after)
{
    unsigned size = cluster->size[node];
    cluster->nodes_with[before]--;
    cluster->nodes_with[after]++;
    if (before == size)
        cluster->idle_with[before]--;
    if (after == size)
        cluster->idle_with[after]++;
}

void gt_core_refresh(struct gt_cluster *cluster, uint32_t node)
{
    uint64_t available =
        cluster->eligible[node] ? cluster->free[node] & cluster->healthy[node] & ~cluster->assumed[node] : 0;
    unsigned before = cluster->count[node], after = gt_core_bits(available);
    cluster->available[node] = available;
    if (before == after)
        return;
    count_node(cluster, node, before, after);
    uint32_t leaf = cluster->super[node];
    cluster->slots[0][leaf] += after - before; /* the size of one GPU */
    for (unsigned t = 1; t < cluster->slot_sizes; t++) {
        const uint8_t *slots = gt_core_slots_of[cluster->slot_size[t]];
        uint32_t change = (uint32_t)slots[after] - slots[before];
        if (change)
            cluster->slots[t][leaf] += change;
    }
    for (uint32_t s = leaf; s != GT_NONE; s = cluster->supers[s].parent)
        cluster->total[s] += after - before;
    /* Last: after a write of bytes the compiler reads all pointers again. */
    cluster->count[node] = cluster->draft_count[node] = (uint8_t)after;
}

/* The least recently used size; that of one GPU stays. */
static unsigned oldest(const struct gt_cluster *cluster)
{
    unsigned oldest = 1;
    for (unsigned t = 2; t < cluster->slot_sizes; t++)
        if (cluster->slot_used[t] < cluster->slot_used[oldest])
            oldest = t;
    return oldest;
}

/* An entry for counting one more size. */
static unsigned slots_place(struct gt_cluster *cluster)
{
    unsigned t = cluster->slot_sizes;
    if (t == SLOT_SIZES)
        return oldest(cluster);
    size_t capacity = cluster->super_capacity ? cluster->super_capacity : 1;
    cluster->slots[t] = calloc(capacity, sizeof(uint32_t));
    cluster->whole[t] = calloc(capacity, sizeof(uint32_t));
    if (cluster->slots[t] && cluster->whole[t])
        return cluster->slot_sizes++;
    free(cluster->slots[t]);
    free(cluster->whole[t]);
    cluster->slots[t] = cluster->whole[t] = NULL;
    return t > 1 ? oldest(cluster) : SLOT_SIZES;
}

unsigned gt_core_track(struct gt_cluster *cluster, unsigned g)
{
    unsigned t = 0;
    while (t < cluster->slot_sizes && cluster->slot_size[t] != g)
        t++;
    if (t < cluster->slot_sizes) {
        cluster->slot_used[t] = ++cluster->clock;
        return t;
    }
    t = slots_place(cluster);
    if (t == SLOT_SIZES)
        return t;
    cluster->slot_size[t] = g;
    cluster->slot_used[t] = ++cluster->clock;
    memset(cluster->slots[t], 0, cluster->super_count * sizeof(uint32_t));
    memset(cluster->whole[t], 0, cluster->super_count * sizeof(uint32_t));
    for (uint32_t node = 0; node < cluster->node_count; node++) {
        if (!cluster->usable[node]) /* as that of a removed node */
            continue;
        cluster->slots[t][cluster->super[node]] += gt_core_slots_of[g][cluster->count[node]];
        cluster->whole[t][cluster->super[node]] += gt_core_slots_of[g][cluster->usable[node]];
    }
    return t;
}

bool gt_core_is_below(const struct gt_cluster *cluster, uint32_t super, uint32_t above)
{
    if (above == GT_NONE)
        return true;
    while (super != GT_NONE && super != above)
        super = cluster->supers[super].parent;
    return super == above;
}

uint32_t gt_core_stamp(struct gt_cluster *cluster)
{
    if (++cluster->stamp == 0) {
        memset(cluster->mark, 0, cluster->super_capacity * sizeof(*cluster->mark));
        cluster->stamp = 1;
    }
    return cluster->stamp;
}

void *gt_core_grow(void *array, size_t size, size_t old, size_t new)
{
    char *bytes = realloc(array, size * new);
    if (bytes)
        memset(bytes + size * old, 0, size * (new - old));
    return bytes;
}
