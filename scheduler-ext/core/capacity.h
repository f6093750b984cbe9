/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_CAPACITY_H
#define GPUTOPO_CORE_CAPACITY_H

#include "scheduler-ext/core/cluster.h"

/* How much room a cluster has, for explanations and bounds: the numbers beside which a plan is judged. */

/* [supernode id]: pods of `gpus` GPUs that have room on the nodes of each tier-1 supernode, 0 for inner ones.
 * gt_cluster_supernodes() places, which the caller frees. */
int gt_capacity_of(const struct gt_cluster *cluster, unsigned gpus, uint32_t **ret, struct gt_err **err);

struct gt_bounds {
    uint64_t slots;     /* pods that have room, whatever the topology */
    uint64_t whole;     /* units of which each has room in one supernode: sum of floor(room / pods) */
    uint64_t anywhere;  /* units without regard to supernodes: floor(sum of room / pods) */
    uint32_t largest;   /* most pods that one supernode holds */
    uint32_t supernode; /* that one; GT_NONE: there is no room at all */
    uint32_t spread;    /* no unit can touch fewer supernodes; 0: not even the whole cluster holds one */
};

/* For units of `pods` pods in atoms of `atom` (a divisor; `pods` itself or 0: the unit is hard). `room` has
 * `count` places. */
int gt_bounds_of(const uint32_t *room, uint32_t count, uint32_t pods, uint32_t atom, struct gt_bounds *ret,
                 struct gt_err **err);

#endif
