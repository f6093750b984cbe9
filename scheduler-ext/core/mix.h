/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "scheduler-ext/core/cluster.h"

struct gt_err;

/*
 * The mix of pods: the amounts of GPUs, CPU and memory that the pods so far asked for. From it follows how
 * many GPUs of a node a placement strands: free GPUs that future pods cannot use, since other GPUs, CPU or
 * memory are missing.
 *
 * The worth W of a node that has g GPUs and the amount c of a resource left is the expected number of these
 * GPUs that pods of the mix will use, if each pod that fits is placed there:
 *
 *   W(g,c) = sum of p (k + W(g - k, c - a)) / (0.01 + sum of p)
 *
 * over the shapes of pods that fit, with k GPUs and the amount a of the resource; p is the share of this
 * shape in all GPUs asked for. The 0.01 makes shapes with a share below a hundredth count little: no room is
 * preserved for them. A pod of k GPUs strands W before - W after - k GPUs, the larger value of those for CPU
 * and for memory; it is below 0 where the placement raises the worth. This is the fragmentation gradient of
 * Weng et al. (USENIX ATC 2023), but looking ahead until the node is full and not only one pod.
 *
 * The weight of a pod halves with every GT_MIX_HALF_LIFE later pods. Nothing is known before 64 pods were
 * added.
 */
enum { GT_MIX_CPU, GT_MIX_MEMORY, GT_MIX_RESOURCES };
enum {
    GT_MIX_HALF_LIFE = 1024,
    GT_MIX_SHAPES = 64, /* only the heaviest are kept */
};

/* What a pod asks for, or what is left on a node. INT64_MAX: the node does not report it. */
struct gt_mix_amounts {
    unsigned gpus;
    enum gt_slow_use slow;        /* of a pod */
    uint64_t requests;            /* of a pod: struct gt_numa_pod */
    int64_t of[GT_MIX_RESOURCES]; /* thousandths of a core, bytes */
};

static inline struct gt_numa_pod gt_mix_numa_pod(const struct gt_mix_amounts *amounts)
{
    return (struct gt_numa_pod){amounts->gpus, amounts->requests};
}

struct gt_mix;
int gt_mix_new(struct gt_mix **ret, struct gt_err **err);
void gt_mix_free(struct gt_mix *mix);
GT_DEFINE_CLEANUP(struct gt_mix *, gt_mix_free)

/* Adds a new pod. Pods without GPUs do not count. */
void gt_mix_came(struct gt_mix *mix, const struct gt_mix_amounts *amounts);

/* GPUs that the pod strands on a node with `left`, in steps of 1/1024; the pod may ask for no GPUs. 0 where
 * nothing is known. */
double gt_mix_stranded(struct gt_mix *mix, const struct gt_mix_amounts *left,
                       const struct gt_mix_amounts *amounts);
