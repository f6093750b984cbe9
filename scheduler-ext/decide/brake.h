/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/node_set.h"

/*
 * The brake: from how many nodes pods may be evicted at once, of the cluster and of a supernode. Where more
 * nodes have failed at once, the network or the reports are more likely at fault than the nodes. One for all
 * that evicts by itself.
 *
 * Nodes count that are not Ready, and those that were tainted, or from which pods were evicted, a short while
 * ago; not those that a person has cordoned. For a further taint all count that have one. One node may
 * always.
 */
enum { GT_BRAKE_PERCENT = 10, GT_BRAKE_SPAN_MS = 600000 }; /* defaults */

struct gt_brake {
    struct gt_cache *cache;
    const char *option; /* what users call it */
    uint64_t percent;   /* of the nodes of the cluster, and of each supernode */
    uint64_t span_ms;   /* for how long a node counts after it was let go */
    struct gt_brake_entry {
        uint32_t node;
        uint64_t name; /* digest: ids are given again */
        uint64_t until_ms;
        bool tainted; /* it lost no pods */
    } * entries;
    uint32_t count, capacity;
    struct gt_node_set counted; /* scratch */
    uint64_t refused;           /* how often it has refused */
    uint64_t none_ms;           /* when it last said that no node at all may go */
    char *none_why;             /* and why; units are many, and to count 10,000 nodes takes 0.2 ms */
};

void gt_brake_done(struct gt_brake *brake);

/* Whether pods of all these nodes may be evicted now; else `why` says in a clause why not. Ids that are in
 * the cluster no more do not count. */
enum { GT_BRAKE_WHY_SIZE = 400 };
bool gt_brake_lets(struct gt_brake *brake, const struct gt_node_set *nodes, uint64_t now_ms,
                   char why[static GT_BRAKE_WHY_SIZE]);
/* The same for a taint. */
bool gt_brake_lets_taint(struct gt_brake *brake, const struct gt_node_set *nodes, uint64_t now_ms,
                         char why[static GT_BRAKE_WHY_SIZE]);

/* Whether it is on, for the cluster or a supernode of these nodes: then nothing moves that could stay. Nodes
 * from which pods were evicted count where `of_late`. `why` as above. */
bool gt_brake_is_on(struct gt_brake *brake, const struct gt_node_set *nodes, bool of_late, uint64_t now_ms,
                    char why[static GT_BRAKE_WHY_SIZE]);

/* Pods of these nodes are evicted from now on; `tainted`: the nodes only get the taint. */
void gt_brake_take(struct gt_brake *brake, const struct gt_node_set *nodes, bool tainted, uint64_t now_ms);
