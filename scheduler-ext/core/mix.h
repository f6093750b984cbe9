/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_MIX_H
#define GPUTOPO_CORE_MIX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The mix of pods: what those that came ask for, of GPUs, CPU and memory. It says how many GPUs of a node
 * a placement strands: free ones that pods to come cannot use, for want of GPUs beside them, CPU or memory.
 *
 * The worth of a node that has g GPUs and c of a resource left is how many of these GPUs pods of the mix are
 * expected to take, if each that fits is placed there:
 *
 *   W(g,c) = sum of p (k + W(g - k, c - a)) / (0.01 + sum of p)
 *
 * over the shapes of pods that fit, with k GPUs and a of the resource; p is the part of all GPUs asked for
 * that pods of the shape ask for. A shape that is rarer than a hundredth adds little: room is not kept for
 * it. What a pod of k GPUs strands is W before - W after - k, for CPU or for memory, where it is more; below
 * 0 where the node is worth more than before. This is the gradient of fragmentation of Weng et al. (USENIX
 * ATC 2023), looked at to the node's end and not one pod ahead.
 *
 * A pod that came counts half as much after GT_MIX_HALF_LIFE more. Nothing is known before 64 have come.
 */
enum { GT_MIX_CPU, GT_MIX_MEMORY, GT_MIX_RESOURCES };
enum {
    GT_MIX_HALF_LIFE = 1024,
    GT_MIX_SHAPES = 64, /* the heaviest are kept */
};

/* What a pod asks for, or what is left of a node. INT64_MAX: the node reports nothing. */
struct gt_mix_amounts {
    unsigned gpus;
    int64_t of[GT_MIX_RESOURCES]; /* thousandths of a core, bytes */
};

struct gt_mix;
int gt_mix_new(struct gt_mix **ret, struct gt_err **err);
void gt_mix_free(struct gt_mix *mix);
GT_DEFINE_CLEANUP(struct gt_mix *, gt_mix_free)

/* A pod is there that was not before. Those without GPUs do not count. */
void gt_mix_came(struct gt_mix *mix, const struct gt_mix_amounts *pod);

/* GPUs that the pod strands on a node with so much left; it may ask for none. 0 where nothing is known. In
 * steps of 1/1024. */
double gt_mix_stranded(struct gt_mix *mix, const struct gt_mix_amounts *left,
                       const struct gt_mix_amounts *pod);

size_t gt_mix_bytes(const struct gt_mix *mix);

#endif
