/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SIM_GROUP_POLICY_H
#define GPUTOPO_SIM_GROUP_POLICY_H

#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/sim/trace.h"
#include "scheduler-ext/sim/world.h"

/* How jobs of groups are placed: ours and the peers', one small file each. */
struct gt_place {
    uint32_t node;
    uint64_t mask;
};

struct gt_group_setup {
    const struct gt_chain_sizes *chain; /* of gputopo; NULL: it learns it */
    uint32_t pods_max;                  /* of a job */
    uint64_t seed;
    double loss_weight; /* of gpu-aware */
};

struct gt_group_policy {
    const char *name;
    bool keeps_groups; /* false: knows no supernodes, tears groups */

    int (*open)(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                struct gt_err **err);
    void (*close)(void *state);

    /* Places all pods of a job: true with the places written and the GPUs taken in the world; false with
     * nothing taken. */
    bool (*place)(void *state, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places);

    /* Plans the pods that are wanted: those that have a node in `places` stay where they are; those of
     * neither sort are left out, as the companion leaves out units that are to come later. Nodes of
     * `excluded` are not used. True with the places of the wanted ones written; nothing is taken. NULL: it
     * cannot. */
    bool (*plan)(void *state, const struct gt_sim_job *job, const bool *wanted,
                 const struct gt_node_set *excluded, struct gt_place *places);

    /* A job comes, and wants to start at once or later; it is gone: it ended, was interrupted, or rejected.
     * May be NULL. */
    void (*came)(void *state, const struct gt_sim_job *job);
    void (*gone)(void *state, const struct gt_sim_job *job);

    /* Whether other jobs wait for room than the one that is placed next; may be NULL. */
    void (*crowded)(void *state, bool crowded);

    /* A node's available GPUs changed by something else than place(); may be NULL. */
    void (*changed)(void *state, const struct gt_world *world, uint32_t node);
};

extern const struct gt_group_policy gt_group_gputopo, gt_group_gpu_aware, gt_group_kueue,
    gt_group_slurm_block, gt_group_huawei, gt_group_volcano, gt_group_first_fit, gt_group_best_fit,
    gt_group_worst_fit, gt_group_random, gt_group_least_allocated, gt_group_most_allocated,
    gt_group_gputopo_static, gt_group_kueue_most, gt_group_kueue_first, gt_group_huawei_most,
    gt_group_huawei_first, gt_group_volcano_most, gt_group_volcano_first;

/* All of them, NULL at the end: policies.c. */
extern const struct gt_group_policy *const gt_group_policies[];

/* ---- what baselines share, common.c ---- */

/* Open and close for policies whose state is a generator of random numbers. */
int gt_group_open_rng(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                      struct gt_err **err);

/* Puts `count` pods on the nodes of a supernode: fewest nodes, the fullest that holds them all, lowest free
 * GPUs first. False, nothing taken: no room. */
bool gt_group_fill(struct gt_world *world, uint32_t super, unsigned gpus, uint32_t count,
                   struct gt_place *places);

/* One pod on a node that holds it: the lowest free GPUs. */
void gt_group_take_lowest(struct gt_world *world, uint32_t node, unsigned gpus, struct gt_place *ret);

/* The node for a pod by MostAllocated, at random among equals; GT_NONE: none has room. */
uint32_t gt_group_most_allocated_node(struct gt_rng *rng, const struct gt_world *world, unsigned gpus);

/* A job as a request of core/plan.h, which points into `units` and `pods`, room for job->pods each. Where
 * groups are not kept each pod is a unit. */
void gt_group_request(const struct gt_sim_job *job, bool keeps_groups, struct gt_plan_unit *units,
                      struct gt_plan_pod *pods, struct gt_plan_request *ret);

/* The same of the pods that are wanted, as gt_group_policy.plan says. */
void gt_group_part_request(const struct gt_sim_job *job, const bool *wanted, const struct gt_place *places,
                           struct gt_plan_unit *units, struct gt_plan_pod *pods, struct gt_plan_request *ret);

/* Gives back the first `count` places. */
void gt_group_undo(struct gt_world *world, const struct gt_place *places, uint32_t count);

/* The supernode for `pods` slots (slots[] by supernode), or GT_NONE. */
typedef uint32_t gt_group_choose(void *state, const struct gt_world *world, const uint32_t *slots,
                                 uint32_t pods);

/* Places unit by unit where `choose` says; a unit with atoms that fits nowhere whole goes atom by atom. */
bool gt_group_each_unit(void *state, struct gt_world *world, const struct gt_sim_job *job,
                        struct gt_place *places, gt_group_choose *choose);

/* The same from unit `first` on, for policies that place some themselves. */
bool gt_group_units_from(void *state, struct gt_world *world, const struct gt_sim_job *job,
                         struct gt_place *places, uint32_t first, gt_group_choose *choose);

#endif
