/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_CLUSTER_H
#define GPUTOPO_CORE_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "topology/model/loss.h"

/*
 * The cluster as decisions see it: nodes with a hardware class and masks of GPUs, in a forest of supernodes.
 * Pure: no I/O, no clock (the caller passes times), one thread at a time. Memory is taken as nodes,
 * supernodes and assumptions grow in number, and when a pod size, or nodes of a class, are asked about for
 * the first time; else nothing allocates.
 *
 * Ids are small numbers from 0, given in the order of adding; an id of a removed node is used again.
 *
 * A GPU of a node is available when it is free (nobody uses it), healthy, not assumed for a planned pod, and
 * the node is eligible.
 */
enum {
    GT_CLUSTER_NODES_MAX = 1 << 17,
    GT_CLUSTER_SUPERNODES_MAX = 1 << 17, /* given ones; each node outside of one is one of its own besides */
    GT_CLUSTER_CLASSES_MAX = 1024,
    GT_CLUSTER_NAME_MAX = 253, /* a Kubernetes name */
    GT_TIERS_MAX = 8,
    GT_CHAIN_MAX = 16,
};

#define GT_NONE UINT32_MAX

struct gt_cluster;

int gt_cluster_new(struct gt_cluster **ret, struct gt_err **err);
void gt_cluster_free(struct gt_cluster *cluster);
GT_DEFINE_CLEANUP(struct gt_cluster *, gt_cluster_free)
#define gt_auto_cluster GT_CLEANUP(gt_cluster_free)

/*
 * How plans choose among supernodes that can hold a unit (docs/reference/placement.md).
 *   GT_RULE_STATIC: the min-loss rule. While nothing leaves, and where sizes divide one another, it refuses
 *                   nothing that any other rule could place (proven).
 *   GT_RULE_CHURN:  for clusters where jobs come and go, found by experiment. The units of a job go together,
 *                   if they can in room that no larger size can ever use; units smaller than a node go to
 *                   nodes in use. For jobs of one unit of a node or more it is the min-loss rule, until jobs
 *                   have left: then, if the chain is learned, only the largest two sizes are protected.
 *                   While other jobs wait several units leave less room (gt_cluster_set_crowded).
 * Whether a job fits does not depend on the rule where all its pods have equal GPU counts and its sizes
 * divide one another.
 */
enum gt_rule { GT_RULE_CHURN, GT_RULE_STATIC };

/* GT_RULE_CHURN at the start. */
void gt_cluster_set_rule(struct gt_cluster *cluster, enum gt_rule rule);

/* Whether other jobs wait for room than the one that is planned next: GT_RULE_CHURN goes by it. Not so at the
 * start. */
void gt_cluster_set_crowded(struct gt_cluster *cluster, bool crowded);

/* A class of hardware (the cluster takes a reference). The same class again gives the same id. Where all
 * places are taken a class without nodes gives way: ask for the id again before nodes are added. */
int gt_cluster_add_class(struct gt_cluster *cluster, const struct gt_class *class, uint32_t *ret,
                         struct gt_err **err);

/* A supernode of tier 1 (best performance) or an inner one of tier 2 to 8; `parent` GT_NONE or one of a
 * higher tier. Names are unique among supernodes. */
int gt_cluster_add_supernode(struct gt_cluster *cluster, const char *name, unsigned tier, uint32_t parent,
                             uint32_t *ret, struct gt_err **err);

/* -EBUSY while it has nodes or supernodes below. */
int gt_cluster_remove_supernode(struct gt_cluster *cluster, uint32_t supernode, struct gt_err **err);

/* A node, all its GPUs free and healthy, eligible. Outside of a tier-1 supernode (`supernode` is GT_NONE or
 * an inner one) it is a tier-1 supernode of itself, below that inner one. */
int gt_cluster_add_node(struct gt_cluster *cluster, const char *name, uint32_t class, uint32_t supernode,
                        uint32_t *ret, struct gt_err **err);

/* Into another supernode, or out of all (GT_NONE). It keeps its id, its state and its assumptions. It stays
 * where it is when this fails. */
int gt_cluster_move_node(struct gt_cluster *cluster, uint32_t node, uint32_t supernode, struct gt_err **err);

/* Assumptions on it are forgotten. */
void gt_cluster_remove_node(struct gt_cluster *cluster, uint32_t node);

/* State changes, each undone by giving the old value. Bits beyond the node's GPUs are ignored. */
void gt_cluster_set_free(struct gt_cluster *cluster, uint32_t node, uint64_t mask);
void gt_cluster_set_healthy(struct gt_cluster *cluster, uint32_t node, uint64_t mask);
void gt_cluster_set_eligible(struct gt_cluster *cluster, uint32_t node, bool eligible);

uint32_t gt_cluster_find_node(const struct gt_cluster *cluster, const char *name); /* GT_NONE: unknown */
uint32_t gt_cluster_find_supernode(const struct gt_cluster *cluster, const char *name);
uint32_t gt_cluster_nodes(const struct gt_cluster *cluster); /* ids are below this; some may be removed */
/* [id] how many GPUs are available; 0 for a removed node. Good until nodes are added. */
const uint8_t *gt_cluster_available(const struct gt_cluster *cluster);
uint32_t gt_cluster_supernodes(const struct gt_cluster *cluster); /* likewise, with nodes of their own */

struct gt_cluster_node {
    const char *name;
    const struct gt_class *class;
    uint32_t supernode; /* its tier-1 supernode */
    uint64_t all, free, healthy, assumed, available;
    bool eligible;
};
/* False for a removed node or an id that does not exist. */
bool gt_cluster_get_node(const struct gt_cluster *cluster, uint32_t node, struct gt_cluster_node *ret);

struct gt_cluster_supernode {
    const char *name; /* the node's name where the node is one of itself */
    unsigned tier;
    uint32_t parent;
    bool is_node;
    uint32_t nodes, available; /* nodes in it, and available GPUs, with all below it */
};
bool gt_cluster_get_supernode(const struct gt_cluster *cluster, uint32_t supernode,
                              struct gt_cluster_supernode *ret);

/* Widens *common, GT_NONE at first, to the lowest supernode that also holds the node. False: there is none.
 */
bool gt_cluster_widen(const struct gt_cluster *cluster, uint32_t node, uint32_t *common);

/*
 * Assumptions: GPUs of a pod that does not use them yet. `owner` is the caller's number for the job.
 * An assumption ends by
 *   forget:  the pod is gone; they are available again;
 *   expire:  like forget, for all whose time is over.
 */
/* -EBUSY when a GPU of the mask is not available, nothing changed then. */
int gt_cluster_assume(struct gt_cluster *cluster, uint32_t node, uint64_t mask, uint64_t owner,
                      uint64_t expires, uint32_t *ret, struct gt_err **err);
void gt_cluster_forget(struct gt_cluster *cluster, uint32_t assumption);
uint32_t gt_cluster_expire(struct gt_cluster *cluster, uint64_t now); /* how many */
uint32_t gt_cluster_forget_owner(struct gt_cluster *cluster, uint64_t owner);
/* The owner's assumption of just these GPUs; GT_NONE: there is none. */
uint32_t gt_cluster_find_assumption(const struct gt_cluster *cluster, uint32_t node, uint64_t mask,
                                    uint64_t owner);

/* Bytes allocated, class tables not counted. */
size_t gt_cluster_bytes(const struct gt_cluster *cluster);

#endif
