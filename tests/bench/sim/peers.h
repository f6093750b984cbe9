/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/sim/group/policy.h"

/* The rules of other schedulers, rebuilt to be compared with the product's, each in a small file. */
extern const struct gt_group_policy gt_group_kueue, gt_group_kueue_slices, gt_group_kueue_preferred,
    gt_group_slurm_block, gt_group_huawei, gt_group_kai, gt_group_volcano, gt_group_first_fit,
    gt_group_best_fit, gt_group_worst_fit, gt_group_random, gt_group_least_allocated, gt_group_most_allocated,
    gt_group_kueue_most, gt_group_kueue_first, gt_group_kueue_preferred_first, gt_group_huawei_most,
    gt_group_huawei_first, gt_group_volcano_most, gt_group_volcano_first;

/* The product's rules and all peers, NULL at the end: peers.c. */
extern const struct gt_group_policy *const peer_policies[];

/* The one with the name; NULL: there is none. */
const struct gt_group_policy *peer_policy(const char *name);

/* ---- shared by the peers, common.c ---- */

/* Open and close for policies whose state is a generator of random numbers. */
int gt_group_open_rng(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                      struct gt_err **err);

/* Places `count` pods on the nodes of a supernode: as few nodes as possible, the last one best fit, lowest
 * free GPUs first. False: no room, nothing is taken. */
bool gt_group_fill(struct gt_world *world, uint32_t super, unsigned gpus, uint32_t count,
                   struct gt_place *places);

/* Places one pod on a node that has room for it: takes the lowest free GPUs. */
void gt_group_take_lowest(struct gt_world *world, uint32_t node, unsigned gpus, struct gt_place *ret);

/* The node for a pod by MostAllocated, random among equals; GT_NONE: none has room. */
uint32_t gt_group_most_allocated_node(struct gt_rng *rng, const struct gt_world *world, unsigned gpus);

/* Chooses the supernode for `pods` pods from slots[supernode]; GT_NONE: none. */
typedef uint32_t gt_group_choose(void *state, const struct gt_world *world, const uint32_t *slots,
                                 uint32_t pods);

/* Places unit by unit where `choose` says; a unit with atoms that fits into no supernode as a whole is placed
 * atom by atom. */
bool gt_group_each_unit(void *state, struct gt_world *world, const struct gt_sim_job *job,
                        struct gt_place *places, gt_group_choose *choose);

/* The same from unit `first` on, for policies that place some themselves. */
bool gt_group_units_from(void *state, struct gt_world *world, const struct gt_sim_job *job,
                         struct gt_place *places, uint32_t first, gt_group_choose *choose);

/* Where the domain ends that begins with this supernode: level 0 is the supernode itself, then come
 * upper[0]... A level that is not there has one domain. */
uint32_t gt_site_domain_end(const struct gt_site *site, unsigned level, uint32_t super);
