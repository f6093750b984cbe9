/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include <string.h>

/*
 * The exact choice for up to 16 GPUs (dynamic programming). A list of items, the pods of one batch or all
 * batches, is assigned to a set of GPUs. For each set V with exactly as many GPUs as the last j items of the
 * list ask for, a table has the highest value that they can have on V: most[V] = max of value(A) + most[V \
 * A] over the sets A in V for the first of these items. The value of a pod is its S. The value of a batch is
 * the sum over its pods, from the table of the batch, then its S. No table depends on the free GPUs, so a
 * free mask costs one loop over its subsets of the right size.
 */
enum { POD_ITEMS_MAX = GT_EXACT_GPUS_MAX, ANSWERS = 256 };

/* An item with 0 pods is a single pod. */
struct pod_items {
    uint32_t class, count;
    struct pod_batch item[POD_ITEMS_MAX];
};

struct pod_answer {
    uint32_t key; /* free mask, with the held mask above it; 0: no result is kept */
    uint16_t masks[POD_ITEMS_MAX];
};

struct pod_table {
    struct pod_items items;
    uint64_t used; /* the clock at its last use */
    struct pod_answer answers[ANSWERS];
    uint64_t most[]; /* [set] */
};

/* ---- sets ---- */

static uint32_t lowest_of(uint32_t all, unsigned count)
{
    uint32_t taken = 0;
    for (; count; count--, all &= all - 1)
        taken |= all & -all;
    return taken;
}

/* The next higher subset of `all` with equally many bits; 0: there is none. `set` must not be empty. */
static uint32_t next_within(uint32_t set, uint32_t all)
{
    uint32_t next = ((set | ~all) + (set & -set)) & all, lost = set & ~next;
    if (!next)
        return 0;
    for (lost &= lost - 1; lost; lost &= lost - 1, all &= all - 1)
        next |= all & -all;
    return next;
}

/* ---- tables ---- */

static unsigned pod_gpus_size_of(const struct pod_batch *item)
{
    return item->pods > 1 ? (unsigned)item->pods * item->gpus : item->gpus;
}

static uint64_t pod_gpus_value_of(const struct gt_class *class, const struct pod_batch *item,
                                  const struct pod_table *own, uint32_t set)
{
    uint64_t sum = gt_class_sum(class, set);
    if (!item->pods)
        return sum;
    return (own ? own->most[set] : sum) << 32 | sum;
}

static bool pod_gpus_is_alike(const struct pod_batch *a, const struct pod_batch *b)
{
    return a->pods == b->pods && a->gpus == b->gpus;
}

static void pod_gpus_fill(const struct gt_class *class, struct pod_table *table, struct pod_table *const *own)
{
    const struct pod_items *items = &table->items;
    uint32_t all = (UINT32_C(1) << gt_class_gpus(class)) - 1;
    unsigned size = 0;
    table->most[0] = 0;
    for (uint32_t i = items->count; i-- > 0;) {
        const struct pod_batch *item = &items->item[i];
        unsigned k = pod_gpus_size_of(item);
        /* Where all remaining items are equal, the first one may take the lowest GPU without loss. */
        bool alike = pod_gpus_is_alike(item, &items->item[items->count - 1]);
        size += k;
        for (uint32_t set = lowest_of(all, size); set; set = next_within(set, all)) {
            uint32_t low = alike ? set & -set : 0, open = set ^ low;
            uint32_t more = lowest_of(open, k - alike);
            uint64_t most = 0;
            do {
                uint64_t value =
                    pod_gpus_value_of(class, item, own[i], low | more) + table->most[open ^ more];
                most = value > most ? value : most;
            } while (more && (more = next_within(more, open)));
            table->most[set] = most;
        }
    }
}

static struct pod_table *table_for(struct gt_cluster *cluster, const struct pod_items *items);

/* The tables of the batches among the items, NULL for the others. False without memory. */
static bool own_tables(struct gt_cluster *cluster, const struct pod_items *items,
                       struct pod_table *ret[static POD_ITEMS_MAX])
{
    for (uint32_t i = 0; i < items->count; i++) {
        const struct pod_batch *batch = &items->item[i];
        struct pod_items pods = {.class = items->class, .count = batch->pods};
        ret[i] = NULL;
        if (batch->pods < 2)
            continue;
        for (uint32_t p = 0; p < pods.count; p++)
            pods.item[p] = (struct pod_batch){.gpus = batch->gpus};
        ret[i] = i && pod_gpus_is_alike(batch, batch - 1) ? ret[i - 1] : table_for(cluster, &pods);
        if (!ret[i])
            return false;
    }
    return true;
}

static struct pod_table *new_table(struct gt_cluster *cluster, const struct pod_items *items)
{
    const struct gt_class *class = cluster->classes[items->class];
    size_t bytes = sizeof(struct pod_table) + (sizeof(uint64_t) << gt_class_gpus(class));
    struct pod_table *own[POD_ITEMS_MAX], *table, **place = &cluster->pod_tables[0];
    if (!own_tables(cluster, items, own) || !(table = calloc(1, bytes)))
        return NULL;
    /* The tables of the batches were used last, so they are not replaced. */
    for (unsigned i = 1; i < POD_TABLES && *place; i++)
        if (!cluster->pod_tables[i] || cluster->pod_tables[i]->used < (*place)->used)
            place = &cluster->pod_tables[i];
    free(*place);
    table->items = *items;
    pod_gpus_fill(class, table, own);
    return *place = table;
}

/* NULL without memory. */
static struct pod_table *table_for(struct gt_cluster *cluster, const struct pod_items *items)
{
    struct pod_table *table = NULL;
    for (unsigned i = 0; i < POD_TABLES && !table; i++)
        if (cluster->pod_tables[i] && memcmp(&cluster->pod_tables[i]->items, items, sizeof(*items)) == 0)
            table = cluster->pod_tables[i];
    if (!table)
        table = new_table(cluster, items);
    if (table)
        table->used = ++cluster->clock;
    return table;
}

void gt_pod_gpus_forget_class(struct gt_cluster *cluster, uint32_t class)
{
    for (unsigned i = 0; i < POD_TABLES; i++)
        if (cluster->pod_tables[i] && cluster->pod_tables[i]->items.class == class)
            free(gt_steal(cluster->pod_tables[i]));
}

void gt_pod_gpus_done(struct gt_cluster *cluster)
{
    for (unsigned i = 0; i < POD_TABLES; i++)
        free(gt_steal(cluster->pod_tables[i]));
}

/* ---- the choice ---- */

/* The best set for all items together. */
static uint32_t choose_all(const struct gt_class *class, const struct pod_table *table, uint32_t free,
                           uint32_t own)
{
    uint64_t best = 0, best_second = 0;
    uint32_t chosen = 0;
    unsigned size = 0;
    for (uint32_t i = 0; i < table->items.count; i++)
        size += pod_gpus_size_of(&table->items.item[i]);
    bool is_batch = !table->items.item[0].pods;
    for (uint32_t set = lowest_of(free, size); set; set = next_within(set, free)) {
        uint64_t first = is_batch ? table->most[set] << 32 | gt_class_sum(class, set) : table->most[set];
        if (chosen && first < best)
            continue;
        uint64_t second = (uint64_t)gt_class_sum(class, set | own) << 32 | gt_class_sum(class, free ^ set);
        if (chosen && first == best && second <= best_second)
            continue;
        best = first;
        best_second = second;
        chosen = set;
    }
    return chosen;
}

/* Assigns the items of a set, each to the lowest mask with which the rest reaches its maximum. Returns the
 * end of what it wrote. */
static uint16_t *lay(const struct gt_class *class, const struct pod_table *table,
                     struct pod_table *const *own, uint32_t set, uint16_t *ret)
{
    static struct pod_table *const pods[POD_ITEMS_MAX];
    for (uint32_t i = 0; i < table->items.count; i++) {
        const struct pod_batch *item = &table->items.item[i];
        uint32_t mask = lowest_of(set, pod_gpus_size_of(item));
        while (pod_gpus_value_of(class, item, own[i], mask) + table->most[set ^ mask] != table->most[set])
            mask = next_within(mask, set);
        if (own[i])
            ret = lay(class, own[i], pods, mask, ret);
        else
            *ret++ = (uint16_t)mask;
        set ^= mask;
    }
    return ret;
}

/* False without memory. */
static bool choose_exact(struct gt_cluster *cluster, const struct pod_gpus_query *query, uint64_t *ret_masks)
{
    const struct gt_class *class = cluster->classes[query->class];
    struct pod_items items = {.class = query->class, .count = query->batches};
    unsigned pods = 0;
    for (unsigned i = 0; i < query->batches; i++)
        pods += query->batch[i].pods;
    if (query->batches > 1)
        memcpy(items.item, query->batch, query->batches * sizeof(*items.item));
    else
        items.count = pods;
    for (unsigned i = 0; query->batches == 1 && i < pods; i++)
        items.item[i] = (struct pod_batch){.gpus = query->batch[0].gpus};

    struct pod_table *table = table_for(cluster, &items), *own[POD_ITEMS_MAX];
    if (!table)
        return false;
    uint32_t free = (uint32_t)query->free, key = (uint32_t)query->own << 16 | free;
    struct pod_answer *answer = &table->answers[(key * UINT32_C(0x9e3779b1)) >> 24];
    if (answer->key != key) {
        if (!own_tables(cluster, &items, own))
            return false;
        lay(class, table, own, choose_all(class, table, free, (uint32_t)query->own), answer->masks);
        answer->key = key;
    }
    for (unsigned i = 0; i < pods; i++)
        ret_masks[i] = answer->masks[i];
    return true;
}

void gt_choose_pod_gpus(struct gt_cluster *cluster, const struct pod_gpus_query *query, uint64_t *ret_masks)
{
    const struct gt_class *class = cluster->classes[query->class];
    bool alone = query->batches == 1 && query->batch[0].pods == 1 && !query->own;
    /* For one pod the search is gt_choose(), which has the answer ready. */
    if (alone || gt_class_gpus(class) > GT_EXACT_GPUS_MAX || gt_class_numa(class)->count ||
        !choose_exact(cluster, query, ret_masks))
        gt_search_pod_gpus(class, query, ret_masks);
}
