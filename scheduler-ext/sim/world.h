/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/bits.h"
#include "scheduler-ext/sim/site.h"

/* The state of a simulated cluster: which GPUs are free. A GPU that is taken twice is detected here,
 * independently of the policy. */
struct gt_world {
    const struct gt_site *site;
    uint64_t *all, *free;             /* [node] */
    bool *up;                         /* [node] */
    uint32_t *slots[GT_GPUS_MAX + 1]; /* [pod's GPUs][supernode]: pods that have room; NULL: not tracked */
    uint32_t *super_gpus;             /* [supernode] GPUs of nodes that are up */
    uint32_t free_gpus, up_gpus;
    bool broken; /* a GPU was taken twice or given back twice: a bug of a policy */
};

int gt_world_new(const struct gt_site *site, struct gt_world **ret, struct gt_err **err);
void gt_world_free(struct gt_world *world);
GT_DEFINE_CLEANUP(struct gt_world *, gt_world_free)
#define gt_auto_world GT_CLEANUP(gt_world_free)

/* Begins to count slots for pods of `gpus` GPUs. */
int gt_world_track(struct gt_world *world, unsigned gpus, struct gt_err **err);

static inline uint64_t gt_world_available(const struct gt_world *world, uint32_t node)
{
    return world->up[node] ? world->free[node] : 0;
}

static inline unsigned gt_world_count(const struct gt_world *world, uint32_t node)
{
    return gt_bit_count(gt_world_available(world, node));
}

void gt_world_take(struct gt_world *world, uint32_t node, uint64_t mask);
void gt_world_give(struct gt_world *world, uint32_t node, uint64_t mask);

/* A node fails or is repaired. The caller handles the jobs on it. */
void gt_world_set_up(struct gt_world *world, uint32_t node, bool up);

/* Recounts everything: false where a derived number is wrong. For tests. */
bool gt_world_check(const struct gt_world *world);
