/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/bits.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/sim/site.h"
#include "scheduler-ext/sim/trace.h"

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

/* What places jobs of groups: the rules of the product, each in a small file. Benchmarks add those of other
 * schedulers. */
struct gt_group_setup {
    const struct gt_chain_sizes *chain; /* of gputopo; NULL: it is learned */
    uint32_t pods_max;                  /* of a job */
    uint64_t seed;
    double loss_weight; /* of gpu-aware */
    unsigned close;     /* of gputopo: 0: room first; 1: prefer */
};

struct gt_group_policy {
    const char *name;
    bool keeps_groups; /* false: it ignores supernodes, so groups may be split */

    int (*open)(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                struct gt_err **err);
    void (*close)(void *state);

    /* Places all pods of a job. True: the places are written and their GPUs taken in the world; false:
     * nothing is taken. */
    bool (*place)(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places);

    /* The product's own model of the cluster, on which moves are searched; NULL: no pods move. */
    struct gt_cluster *(*model)(void *state);

    /* A job was submitted; it is gone: it ended, was interrupted, or rejected. May be NULL. */
    void (*came)(void *state, const struct gt_sim_job *job);
    void (*gone)(void *state, const struct gt_sim_job *job);

    /* Whether other jobs than the one that is placed next wait for room; may be NULL. */
    void (*crowded)(void *state, bool crowded);

    /* A node's available GPUs changed for another reason than place(); may be NULL. */
    void (*changed)(void *state, const struct gt_world *world, uint32_t node);
};

/* The min-loss rule is gt_group_gputopo_static. */
extern const struct gt_group_policy gt_group_gputopo, gt_group_gputopo_static, gt_group_gpu_aware;

/* All of them, NULL at the end: policies.c. */
extern const struct gt_group_policy *const gt_group_policies[];

/* ---- shared by the policies, world.c ---- */

/* Makes a request of core/plan.h from a job. It points into `units` and `pods`, which need job->pods entries
 * each. Without keeps_groups each pod is a unit. */
void gt_group_request(const struct gt_sim_job *job, bool keeps_groups, struct gt_plan_unit *units,
                      struct gt_plan_pod *pods, struct gt_plan_request *ret);

/* Gives the GPUs of the first `count` places back. */
void gt_group_undo(struct gt_world *world, const struct gt_place *places, uint32_t count);
