/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_POD_GPUS_H
#define GPUTOPO_CORE_POD_GPUS_H

#include "scheduler-ext/core/internal.h"

/*
 * Which GPUs the pods of one job get on one node. A party is those of its pods there that must lie together
 * (a unit, or an atom); all of them ask for equally many GPUs. In this order the choice has
 *   1. the highest sum of S over the pods,
 *   2. the highest sum of S over the parties,
 *   3. the highest S of all those GPUs and `held` together,
 *   4. the least cut against what stays free,
 *   5. the lowest mask of all; then, party after party and in it pod after pod, the lowest masks.
 * For one pod, and nothing held, that is gt_choose(). Up to 16 GPUs it is exact; above, the best found.
 */
enum { BATCHES_MAX = GT_GPUS_MAX };

struct pod_batch {
    uint8_t pods, gpus; /* gpus of each pod */
};

struct pod_gpus_query {
    uint32_t class;
    unsigned batches; /* 1 or more; the free GPUs suffice for all */
    uint64_t free;
    uint64_t held; /* GPUs of the job's pods that run there; none of them is free */
    /* Those with larger pods first, of equal ones those with more pods. */
    struct pod_batch batch[BATCHES_MAX];
};

/* One mask a pod, party after party. */
void gt_choose_pod_gpus(struct gt_cluster *cluster, const struct pod_gpus_query *query, uint64_t *ret_masks);

/* The best that a search of bounded length finds, for nodes of any size. */
void gt_search_pod_gpus(const struct gt_class *class, const struct pod_gpus_query *query,
                        uint64_t *ret_masks);

/* Frees the tables: of one class, of all. */
void gt_pod_gpus_forget_class(struct gt_cluster *cluster, uint32_t class);
void gt_pod_gpus_done(struct gt_cluster *cluster);

#endif
