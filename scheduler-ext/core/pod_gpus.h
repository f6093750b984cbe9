/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/internal.h"

/*
 * Chooses the GPUs of a job's pods on one node. A batch is the set of these pods that belong to one run (a
 * unit, or an atom); all pods of a batch ask for equally many GPUs. The choice has, in this order, with S as
 * in topology/model/loss.h,
 *   1. the highest sum of S over the pods,
 *   2. the highest sum of S over the batches,
 *   3. the highest S of all those GPUs and `held` together,
 *   4. the least cut against what stays free,
 *   5. the lowest mask of all; then, batch by batch and pod by pod, the lowest masks.
 * For one pod, and without held GPUs, this is gt_choose(). Up to 16 GPUs it is exact; above, the best that a
 * bounded search finds.
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
    /* Sorted: larger pods first; of equal ones, more pods first. */
    struct pod_batch batch[BATCHES_MAX];
    uint64_t requests[GT_GPUS_MAX]; /* of each pod, batch by batch (struct gt_numa_pod) */
};

/* Writes one mask for each pod, batch by batch. */
void gt_choose_pod_gpus(struct gt_cluster *cluster, const struct pod_gpus_query *query, uint64_t *ret_masks);

/* The same by a bounded search, for nodes of any size. */
void gt_search_pod_gpus(const struct gt_class *class, const struct pod_gpus_query *query,
                        uint64_t *ret_masks);

/* Frees the tables: of one class, of all. */
void gt_pod_gpus_forget_class(struct gt_cluster *cluster, uint32_t class);
void gt_pod_gpus_done(struct gt_cluster *cluster);
