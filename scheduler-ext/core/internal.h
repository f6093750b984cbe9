/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/table.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/core/score.h"

/* What the files of the core share. There is one array for each property, indexed by id, so that a loop over
 * 10,000 nodes reads little memory. */

enum {
    SLOT_SIZES = 8,     /* pod sizes whose slots are counted at the same time; [0] is always 1 GPU */
    SPREAD_SCRATCH = 6, /* numbers for each supernode, for a unit that is spread */
    SUPER_SCRATCH = 10, /* the same, and for the room left by the plan in progress */
    POD_TABLES = 16,    /* of pod_gpus.c; a table for 16 GPUs takes half a MiB */
    SUPERS_MAX = GT_CLUSTER_SUPERNODES_MAX + GT_CLUSTER_NODES_MAX,
};

/* Names to ids, open addressing. */
struct names {
    char **text; /* [id], NULL: free */
    struct gt_table table;
};

struct promise {
    struct gt_promise told; /* node GT_NONE: not in use */
    uint64_t taken;         /* GPUs of it that are not available to others */
    uint32_t next;          /* of its node, or in the free list */
    uint32_t previous;
    uint32_t generation; /* how many promises its slot has had, this one included */
};

struct super {
    uint32_t parent;
    uint32_t first_node; /* of a tier-1 one; its list has descending ids */
    uint32_t nodes;      /* with all below */
    uint32_t self;       /* the node that it stands for; GT_NONE: a supernode that was added */
    uint32_t first_below, next_beside,
        previous_beside; /* lists of what lies directly in one, descending ids */
    uint8_t tier;        /* 0: not in use */
    float gbps;          /* crossing.h; 0: not known */
};

/* The value of each mask for one (class, k), filled on demand. Above 16 GPUs a cache by mask. */
struct values {
    uint64_t generation; /* of the weights and classes that it was filled for */
    uint64_t used;       /* number of the last query that used it */
    uint64_t *masks;     /* above 16 GPUs: the mask of each entry */
    uint32_t entries;
    double value[]; /* NAN: not known yet; -INFINITY: not feasible */
};

/* Unit sizes, chain.c. */
struct chain {
    struct gt_chain_seen seen[GT_CHAIN_SEEN_MAX];
    unsigned seen_count;
    bool fixed; /* the sizes were given */
    bool stale; /* `seen` has changed since the sizes were chosen; gt_core_refresh_chain() */
    struct gt_chain_sizes sizes;
};

struct gt_cluster {
    /* nodes, [id] */
    uint32_t node_count, node_capacity;
    uint64_t *free, *healthy, *assumed, *available;
    uint64_t *slow;      /* plan_slow.h */
    uint32_t slow_nodes; /* nodes with a bit of `slow` */
    uint8_t *count;      /* bits of available */
    uint8_t *size;       /* GPUs that it has */
    uint8_t *usable;     /* bits of healthy; 0 where the node is not eligible */
    uint16_t *class;
    uint32_t *super, *next, *previous; /* list of the supernode's nodes */
    uint32_t *first_promise;
    uint32_t *same; /* scratch: lists of nodes with equally many GPUs */
    bool *eligible;
    struct names node_names;
    uint32_t *node_gaps; /* removed ids, a stack */
    uint32_t node_gap_count;

    /* [n]: nodes with n > 0 GPUs available, and those among them that have no others */
    uint32_t nodes_with[GT_GPUS_MAX + 1], idle_with[GT_GPUS_MAX + 1];
    uint32_t nodes_of[GT_GPUS_MAX + 1];              /* nodes of n GPUs */
    uint32_t numa_nodes;                             /* nodes with a verdict (numa_room.h) */
    struct gt_passed_pod passed[GT_PASSED_PODS_MAX]; /* oldest first */
    uint32_t passed_count;

    /* supernodes, [id] */
    uint32_t super_count, super_capacity;
    struct super *supers;
    struct names super_names;
    uint32_t *super_gaps;
    uint32_t *leaves; /* those of tier 2, ascending ids */
    uint32_t *mark;   /* equal to `stamp`: visited in this walk */
    /* Equal to the job's `touch`: its pods are there; those of the unit in progress (plan_close.c). */
    uint32_t *touched, *touched_unit;
    uint32_t super_gap_count, stamp, touch;
    uint32_t tiers[GT_TIERS_MAX + 1], uppers; /* supernodes of each tier, and those above tier 1 */
    uint32_t in_leaves;                       /* tier-1 ones directly in one of tier 2 */
    void *close[3];                           /* scratch of plan_close.c, made on demand */
    size_t close_bytes[3];
    uint64_t *heap;    /* scratch, one entry for each supernode */
    uint32_t *scratch; /* SUPER_SCRATCH entries for each supernode */

    /* slots: pods of slot_size[t] GPUs that have room, by supernode */
    unsigned slot_size[SLOT_SIZES];
    uint64_t slot_used[SLOT_SIZES]; /* time of its last use, by `clock` */
    uint64_t clock;
    uint32_t *slots[SLOT_SIZES]; /* [t][id]: sum over its own nodes; 0 for an inner one */
    uint32_t *whole[SLOT_SIZES]; /* [t][id]: the same if all usable GPUs were available */
    uint32_t *total;             /* [id]: available GPUs, with all below */

    /* The plan in progress (plan_draft.c): nodes whose state differs from the cluster's. */
    uint64_t *draft_changed;        /* one bit for each node: changed by the last plan */
    uint32_t draft_low, draft_high; /* range of words with such bits: from `low` to below `high` */
    uint64_t *draft_available;      /* [changed node] available before pods take any */
    uint8_t *draft_count;           /* [node] what pods leave of it; as `count` for unchanged nodes */

    uint64_t shape; /* changes with nodes and supernodes, not with their state */

    enum gt_rule rule;
    bool crowded, prefers_close;
    unsigned slot_sizes;
    struct chain chain;

    struct gt_class *classes[GT_CLUSTER_CLASSES_MAX];
    uint32_t class_nodes[GT_CLUSTER_CLASSES_MAX];

    struct pod_table *pod_tables[POD_TABLES]; /* pod_gpus.c; NULL: not in use */

    struct promise *promises;
    uint32_t promise_count, promise_capacity, promise_free;
    uint64_t now_ms;                                                      /* gt_cluster_set_time() */
    struct gt_node_set kept[GT_PROMISE_NOTED_NODE - GT_PROMISE_NODE + 1]; /* [kind] the nodes of those that
                                                                       take no GPUs */

    struct gt_aware_weights weights;
    uint64_t generation;
    struct values **values[GT_CLUSTER_CLASSES_MAX]; /* [class][k], made on demand */
    size_t values_bytes;
    uint64_t questions;
    uint32_t class_count;
};

/* Recomputes the available GPUs of a node and updates all counts. */
void gt_core_refresh(struct gt_cluster *cluster, uint32_t node);

/* Ends the promise of a slot that is in use. */
void gt_core_end_promise(struct gt_cluster *cluster, uint32_t slot);

/* The same for the usable GPUs; to be called before gt_core_refresh(). */
void gt_core_refresh_usable(struct gt_cluster *cluster, uint32_t node);

/* Chooses the chain's sizes if what is known of them has changed: a plan needs them, most changes do not. */
void gt_core_refresh_chain(struct gt_cluster *cluster);

/* The index of size g (1..64) in slot_size; it is counted from now on if it was not. SLOT_SIZES without
 * memory. At most SLOT_SIZES - 1 sizes besides 1 are counted: a new one replaces the least recently used. */
unsigned gt_core_track(struct gt_cluster *cluster, unsigned g);

/* The number of bits of a mask, without the popcount instruction, which not every machine has. */
static inline unsigned gt_core_bits(uint64_t mask)
{
    mask -= mask >> 1 & UINT64_C(0x5555555555555555);
    mask = (mask & UINT64_C(0x3333333333333333)) + (mask >> 2 & UINT64_C(0x3333333333333333));
    mask = (mask + (mask >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(mask * UINT64_C(0x0101010101010101) >> 56);
}

/* The lowest `count` bits of a mask; all of them if it has fewer. */
static inline uint64_t gt_core_lowest(uint64_t mask, unsigned count)
{
    uint64_t rest = mask;
    for (; count && rest; count--)
        rest &= rest - 1;
    return mask & ~rest;
}

/* All GPUs of a node. */
static inline uint64_t gt_core_all(const struct gt_cluster *cluster, uint32_t node)
{
    return cluster->size[node] >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << cluster->size[node]) - 1;
}

/* The usable GPUs of a node that are slow or suspect. */
static inline uint64_t gt_core_slow(const struct gt_cluster *cluster, uint32_t node)
{
    return cluster->slow_nodes ? cluster->slow[node] & cluster->healthy[node] : 0;
}

/* The next eligible node with such GPUs; GT_NONE: no more. */
uint32_t gt_core_next_slow(const struct gt_cluster *cluster, uint32_t from);

/* Number of 64-bit words for one bit for each node. */
static inline uint32_t gt_core_words(uint32_t nodes)
{
    return (nodes + 63) / 64;
}

static inline bool gt_core_has_node(const struct gt_cluster *cluster, uint32_t id)
{
    return id < cluster->node_count && cluster->node_names.text[id];
}

/* Whether `super` is `above` or lies below it; all lie below GT_NONE. */
bool gt_core_is_below(const struct gt_cluster *cluster, uint32_t super, uint32_t above);

/* A new stamp, which no supernode has as its mark. */
uint32_t gt_core_stamp(struct gt_cluster *cluster);

/* Grows an array from `old` to `new` elements of `size` bytes, the new ones zeroed. NULL without memory; then
 * the old array stays valid. */
void *gt_core_grow(void *array, size_t size, size_t old, size_t new);

/* Names, names.c. */
int gt_names_grow(struct names *names, uint32_t old_capacity, uint32_t capacity);
uint32_t gt_names_find(const struct names *names, const char *name);
int gt_names_add(struct names *names, uint32_t id, const char *name); /* -ENOMEM */
void gt_names_remove(struct names *names, uint32_t id);
void gt_names_done(struct names *names, uint32_t count);

/* Frees the tables of values of one class, or of all. */
void gt_score_forget_class(struct gt_cluster *cluster, uint32_t class);
void gt_score_done(struct gt_cluster *cluster);
