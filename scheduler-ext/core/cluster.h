/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "scheduler-ext/core/node_set.h"
#include "topology/model/loss.h"

/*
 * The cluster on which decisions are made: nodes with a hardware class and masks of GPUs, in a forest of
 * supernodes. No I/O, no clock (the caller passes times), one thread at a time. Memory is allocated when
 * nodes, supernodes or promises grow in number, and with the first query about a pod size or a class;
 * otherwise nothing allocates.
 *
 * Ids are small numbers from 0, given in the order of adding; ids of removed nodes are reused. Masks have bit
 * i for GPU i of the node.
 *
 * A GPU is available when it is free (no pod uses it), healthy, and not promised to somebody, and its
 * node is eligible.
 */
enum {
    GT_CLUSTER_NODES_MAX = 1 << 17,
    GT_CLUSTER_SUPERNODES_MAX = 1 << 17, /* that are added; a node outside of them is one by itself */
    GT_CLUSTER_CLASSES_MAX = 1024,
    GT_CLUSTER_NAME_MAX = 253, /* a Kubernetes name */
    GT_TIERS_MAX = 8,
    GT_CHAIN_MAX = 16,
    GT_MOVE_COST_MAX = 1000000, /* of a restart, for each GPU, compared with other pods */
};

#define GT_NONE UINT32_MAX

struct gt_place {
    uint32_t node;
    uint64_t mask; /* GPUs of it */
};

struct gt_cluster;

int gt_cluster_new(struct gt_cluster **ret, struct gt_err **err);
void gt_cluster_free(struct gt_cluster *cluster);
GT_DEFINE_CLEANUP(struct gt_cluster *, gt_cluster_free)
#define gt_auto_cluster GT_CLEANUP(gt_cluster_free)

/*
 * How plans choose among supernodes that can hold a unit (docs/reference/placement.md).
 *   GT_RULE_STATIC: the min-loss rule. While no job ends, and where sizes divide one another, it refuses
 *                   nothing that any other rule could place (proof in plan_rule.h).
 *   GT_RULE_CHURN: for clusters where jobs come and go; found by experiment. The units of a job are placed
 *                   together, if possible in room that no larger size can ever use; units smaller than a node
 *                   are placed on nodes in use. For a job of one unit of a node or more it is the min-loss
 *                   rule until jobs have ended; then, if the chain is learned, only its two largest sizes are
 *                   protected. While other jobs wait, a job of several units prefers only room that places of
 *                   the two largest sizes leave over (gt_cluster_set_crowded).
 * Whether a job fits does not depend on the rule where all its pods have equal GPU counts and its sizes
 * divide one another.
 */
enum gt_rule { GT_RULE_CHURN, GT_RULE_STATIC };

/* How a job or a pod uses slow GPUs. */
enum gt_slow_use {
    GT_SLOW_AVOID, /* only where others do not do, or would cost room */
    GT_SLOW_NEVER,
    GT_SLOW_ANY, /* like all others */
};

/* Sets the rule; GT_RULE_CHURN at the start. */
void gt_cluster_set_rule(struct gt_cluster *cluster, enum gt_rule rule);

/* Sets whether other jobs than the one that is planned next wait for room, which GT_RULE_CHURN considers;
 * false at the start. */
void gt_cluster_set_crowded(struct gt_cluster *cluster, bool crowded);

/* Sets whether a job lies close even where that costs room for larger sizes; false at the start. */
void gt_cluster_set_prefers_close(struct gt_cluster *cluster, bool prefers);

/* Adds a hardware class (the cluster takes a reference). The same class gives the same id again. Where there
 * are GT_CLUSTER_CLASSES_MAX, a class without nodes is replaced: so get the id again before adding nodes. */
int gt_cluster_add_class(struct gt_cluster *cluster, const struct gt_class *class, uint32_t *ret,
                         struct gt_err **err);

/* Adds a supernode of tier 1 (best performance) or an inner one of tier 2 to 8; `parent` is GT_NONE or a
 * supernode of a higher tier. Names are unique among supernodes. */
int gt_cluster_add_supernode(struct gt_cluster *cluster, const char *name, unsigned tier, uint32_t parent,
                             uint32_t *ret, struct gt_err **err);

/* -EBUSY while it has nodes or supernodes below it. */
int gt_cluster_remove_supernode(struct gt_cluster *cluster, uint32_t supernode, struct gt_err **err);

/* Adds an eligible node with all GPUs free and healthy. Where `supernode` is GT_NONE or an inner one, the
 * node is a tier-1 supernode by itself, below that inner one. */
int gt_cluster_add_node(struct gt_cluster *cluster, const char *name, uint32_t class, uint32_t supernode,
                        uint32_t *ret, struct gt_err **err);

/*
 * To make a copy of a cluster: for one that is empty. Nodes and supernodes that are added next get these ids,
 * in this order, of `node_ids` and `supernode_ids` in all; the ids must differ and lie below.
 */
struct gt_cluster_ids {
    const uint32_t *nodes, *supernodes;
    uint32_t node_count, supernode_count, node_ids, supernode_ids;
};
int gt_cluster_set_ids(struct gt_cluster *cluster, const struct gt_cluster_ids *ids, struct gt_err **err);

/* Moves a node into another supernode, or out of all (GT_NONE). It keeps its id, state and promises. On
 * failure nothing changes. */
int gt_cluster_move_node(struct gt_cluster *cluster, uint32_t node, uint32_t supernode, struct gt_err **err);

/* Its promises end. */
void gt_cluster_remove_node(struct gt_cluster *cluster, uint32_t node);

/* Set the state of a node. Bits beyond its GPUs are ignored. */
void gt_cluster_set_free(struct gt_cluster *cluster, uint32_t node, uint64_t mask);
void gt_cluster_set_healthy(struct gt_cluster *cluster, uint32_t node, uint64_t mask);
/* Those that work, and are slow or suspect: jobs keep off them (plan_slow.h). */
void gt_cluster_set_slow(struct gt_cluster *cluster, uint32_t node, uint64_t mask);
bool gt_cluster_has_slow(const struct gt_cluster *cluster);
void gt_cluster_set_eligible(struct gt_cluster *cluster, uint32_t node, bool eligible);

uint32_t gt_cluster_find_node(const struct gt_cluster *cluster, const char *name); /* GT_NONE: unknown */
uint32_t gt_cluster_find_supernode(const struct gt_cluster *cluster, const char *name);
uint32_t gt_cluster_nodes(const struct gt_cluster *cluster); /* ids are below this; some may be removed */
/* [id] number of available GPUs; 0 for a removed node. Valid until nodes are added. */
const uint8_t *gt_cluster_available(const struct gt_cluster *cluster);
uint32_t gt_cluster_supernodes(const struct gt_cluster *cluster); /* likewise, with nodes of their own */

struct gt_cluster_node {
    const char *name;
    const struct gt_class *class;
    uint32_t supernode; /* its tier-1 supernode */
    uint64_t all, free, healthy, assumed, available;
    uint64_t slow; /* whatever their health */
    bool eligible;
};
/* False for a removed node or an id that does not exist. */
bool gt_cluster_get_node(const struct gt_cluster *cluster, uint32_t node, struct gt_cluster_node *ret);

struct gt_cluster_supernode {
    const char *name; /* the node's name where the node is one by itself */
    unsigned tier;
    uint32_t parent;
    bool is_node;
    uint32_t nodes, available; /* its nodes and their available GPUs, with all below it */
};
bool gt_cluster_get_supernode(const struct gt_cluster *cluster, uint32_t supernode,
                              struct gt_cluster_supernode *ret);

/* Widens *common (GT_NONE at first) to the lowest supernode that contains it and the node. False: there is
 * none. */
bool gt_cluster_widen(const struct gt_cluster *cluster, uint32_t node, uint32_t *common);

/* A pod that runs, where it is asked which ones are to move or to be evicted. */
struct gt_running_pod {
    struct gt_place place;
    uint32_t job;     /* a number of the caller; for relocate.h GT_NONE is a job by itself */
    int32_t priority; /* for victims.h */
    uint32_t unit;    /* for relocate.h and victims.h: a number of its job; GT_NONE: it goes by itself */
    uint32_t cost;    /* for relocate.h: what a restart costs, for each of its GPUs; 0 is 1 */
    bool movable;     /* for advise.h, relocate.h and victims.h: it may go */
    bool chosen;      /* out of victims.h: it is a victim */
};

/*
 * The ledger: GPUs that are promised to somebody and not used yet. They are not available to others until the
 * promise ends; that ends, too, when its node is removed.
 *
 * An owner is a handle of the caller: the number of a job, which no other job ever gets, or 0 where nobody
 * has a number. So what is left of an owner that is gone belongs to nobody else, and a caller needs no
 * numbers of its own for what it promises for a moment: it ends these by their ids.
 */
enum gt_promise_kind {
    GT_PROMISE_PLANNED,  /* to a pod that is planned, by the number of its job */
    GT_PROMISE_RESERVED, /* to pods of that job that are to come, or wait for more room */
    GT_PROMISE_ADMITTED, /* to Workloads that Kueue has let in, while it is decided on others */
    GT_PROMISE_VACATED,  /* to that job, for which Volcano evicts others: takes those that are available */
    GT_PROMISE_FOREIGN,  /* by another scheduler */
    /* These take no GPUs, and may overlap others. */
    GT_PROMISE_NODE,   /* to that job, which waits until pods have left the node */
    GT_PROMISE_SPARE,  /* to pods that will have lost their nodes */
    GT_PROMISE_PEOPLE, /* by people, to whom they say */
    /* By the leading replica, as its note says: plans are seen as soon as they are written, while the note
     * may be older. */
    GT_PROMISE_NOTED,      /* to pods that are to come */
    GT_PROMISE_NOTED_NODE, /* to a waiting job, or to pods that have lost their node */
};
struct gt_promise {
    enum gt_promise_kind kind;
    struct gt_place place;
    uint64_t owner;
    uint64_t requests; /* of the pod, where it is for one (struct gt_numa_pod) */
    /* Times of the caller. since_ms 0: from gt_cluster_set_time() on; until_ms 0: no end is known;
     * UINT64_MAX: it has none. The ledger ends nothing by itself. */
    uint64_t since_ms, until_ms;
};
/* Names one promise, and no later one; {0}: none. */
struct gt_promise_id {
    uint32_t slot, generation;
};
/* The time since when the next promises are. */
void gt_cluster_set_time(struct gt_cluster *cluster, uint64_t now_ms);
/* -EBUSY when a GPU of the mask is not available; then nothing has changed. */
int gt_cluster_promise(struct gt_cluster *cluster, const struct gt_promise *promise,
                       struct gt_promise_id *ret, struct gt_err **err);
/* NULL: it has ended. Valid until the next change of the ledger. */
const struct gt_promise *gt_cluster_find_promise(const struct gt_cluster *cluster, struct gt_promise_id id);
/* Ends it, unless it has ended. */
void gt_cluster_end_promise(struct gt_cluster *cluster, struct gt_promise_id id);
/* All of this kind to that owner; returns how many. */
uint32_t gt_cluster_end_promises(struct gt_cluster *cluster, enum gt_promise_kind kind, uint64_t owner);
/* Another end: of one promise, unless it has ended, or of all of this kind to that owner. */
void gt_cluster_renew_promise(struct gt_cluster *cluster, struct gt_promise_id id, uint64_t until_ms);
void gt_cluster_renew_promises(struct gt_cluster *cluster, enum gt_promise_kind kind, uint64_t owner,
                               uint64_t until_ms);
/* Makes promises of these whole nodes, in place of those of this kind, which only that owner has; what stays
 * is renewed. Without memory, of fewer. */
void gt_cluster_promise_nodes(struct gt_cluster *cluster, enum gt_promise_kind kind, uint64_t owner,
                              const struct gt_node_set *nodes, uint64_t until_ms);
/* Why that owner is not to use the node at all: it is left to pods that lose theirs, or to another job that
 * waits, as this replica or the leading one has it. What people reserve is for those whom they name, and so
 * asked about by name (gt_cache_may_use()). NULL: it may. Valid until the next change of the ledger. */
const struct gt_promise *gt_cluster_kept_from(const struct gt_cluster *cluster, uint32_t node,
                                              uint64_t owner);
/* The nodes with promises of this kind, one of those that take no GPUs. The set is the cluster's, and changes
 * with the ledger. */
const struct gt_node_set *gt_cluster_kept_nodes(const struct gt_cluster *cluster, enum gt_promise_kind kind);
/* The GPUs of a node that are promised in this way. */
uint64_t gt_cluster_promised(const struct gt_cluster *cluster, uint32_t node, enum gt_promise_kind kind);
/* The promise of a GPU, before others one that takes it; NULL: it has none. Valid until the next change of
 * the ledger. */
const struct gt_promise *gt_cluster_promise_of(const struct gt_cluster *cluster, uint32_t node, unsigned gpu);
/*
 * Appends what is promised, as it follows "GPUs 0-3: " or "the node is ": "reserved for job KEY until TIME".
 * `whose`: to whom, as in "job KEY"; NULL: it is not known. `unix_ms` is added to its times to make Unix
 * times of them. Where no end of what an owner has is known, it says since when.
 */
void gt_promise_say(const struct gt_promise *promise, const char *whose, uint64_t unix_ms, struct gt_buf *to);
/* Appends "; 3 nodes are " and that, without an end; nothing where there are none. */
void gt_promise_say_some(enum gt_promise_kind kind, uint32_t count, const char *what, struct gt_buf *to);
