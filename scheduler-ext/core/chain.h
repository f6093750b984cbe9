/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/options.h"
#include "scheduler-ext/core/cluster.h"

/*
 * The chain: the unit sizes, in GPUs and ascending, for which the rules preserve room. A planned size need
 * not be in it.
 *
 * It is learned from present jobs, waiting or running, and from past ones. The weight of a size is the number
 * of GPUs of its jobs; that of a past job halves with every GT_CHAIN_HALF_LIFE jobs that end. A size is in
 * the chain while it has at least 1 / GT_CHAIN_PART of the total weight and is one of the GT_CHAIN_MAX
 * heaviest. The chain is empty at the start. There is no clock: nothing is forgotten while no jobs end.
 */
enum {
    GT_CHAIN_HALF_LIFE = 256,
    GT_CHAIN_PART = 100,
    GT_CHAIN_SEEN_MAX = 64, /* sizes that are remembered at one time */
    GT_CHAIN_SIZE_MAX = GT_CLUSTER_NODES_MAX * GT_GPUS_MAX,
    GT_CHAIN_WEIGHT_MAX = 1 << 30, /* largest weight of a size, in GPUs, for gt_chain_adopt() */
};

/* Adds a job with units of `size` GPUs and `gpus` GPUs in all. A job with atoms is added a second time with
 * the size of its atoms. */
void gt_chain_came(struct gt_cluster *cluster, uint32_t size, uint64_t gpus);
/* The job is gone; arguments as in gt_chain_came(). */
void gt_chain_gone(struct gt_cluster *cluster, uint32_t size, uint64_t gpus);
/* The job is there, and its units have another size. */
void gt_chain_drop(struct gt_cluster *cluster, uint32_t size, uint64_t gpus);

/* What is known of one size. */
struct gt_chain_seen {
    uint32_t size;    /* GPUs, not 0 */
    uint64_t present; /* GPUs of jobs that are there */
    double past;      /* GPUs of past jobs, decayed */
};

/* The nth size, from 0, in no order; false: no more. */
bool gt_chain_get_seen(const struct gt_cluster *cluster, unsigned nth, struct gt_chain_seen *ret);
/* Replaces what is known about a size with what another chain knows about it. */
void gt_chain_adopt(struct gt_cluster *cluster, const struct gt_chain_seen *seen);

/* Unit sizes, GPUs, ascending. */
struct gt_chain_sizes {
    unsigned count, size[GT_CHAIN_MAX];
};

/* Sets a fixed chain that does not learn. -EINVAL where it is not ascending. */
int gt_chain_set(struct gt_cluster *cluster, const struct gt_chain_sizes *sizes, struct gt_err **err);

/* A parser for command-line options with a field of type struct gt_chain_sizes: "8,16,32", sizes up to
 * GT_CHAIN_SIZE_MAX. */
int gt_chain_option(const struct gt_option *option, const char *value, void *field, struct gt_err **err);
