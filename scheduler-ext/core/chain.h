/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_CHAIN_H
#define GPUTOPO_CORE_CHAIN_H

#include "base/options.h"
#include "scheduler-ext/core/cluster.h"

/*
 * The chain: the unit sizes in play, in GPUs, ascending, that the rules keep room for. A size that is planned
 * need not be in it.
 *
 * It is learned from the jobs that are there, waiting or running, and from those that were. A size weighs as
 * many GPUs as its jobs have, or had: what a job had halves with every GT_CHAIN_HALF_LIFE jobs that go. A
 * size is in the chain while it has a part of at least 1 / GT_CHAIN_PART of all; the GT_CHAIN_MAX heaviest.
 * Nothing is known at the start. There is no clock: where no jobs come and go nothing is forgotten.
 */
enum {
    GT_CHAIN_HALF_LIFE = 256,
    GT_CHAIN_PART = 100,
    GT_CHAIN_SEEN_MAX = 64, /* sizes that are known at one time */
    GT_CHAIN_SIZE_MAX = GT_CLUSTER_NODES_MAX * GT_GPUS_MAX,
    GT_CHAIN_WEIGHT_MAX = 1 << 30, /* of a size, in GPUs, that gt_chain_take_over() takes */
};

/* A job in units of `size` GPUs is there, and asks for so many in all; one that has atoms also in those. */
void gt_chain_came(struct gt_cluster *cluster, uint32_t size, uint64_t gpus);
/* It is gone: what came before. */
void gt_chain_gone(struct gt_cluster *cluster, uint32_t size, uint64_t gpus);

/* What is known of one size. */
struct gt_chain_seen {
    uint32_t size;    /* GPUs, not 0 */
    uint64_t present; /* GPUs of jobs that are there */
    double past;      /* of those that are gone, the less the longer ago */
};

/* The nth of them, from 0, in no order; false: there are no more. */
bool gt_chain_get_seen(const struct gt_cluster *cluster, unsigned nth, struct gt_chain_seen *ret);
/* Takes over what another chain knows of a size, instead of what is known of it here. */
void gt_chain_take_over(struct gt_cluster *cluster, const struct gt_chain_seen *seen);

/* Unit sizes, GPUs, ascending. */
struct gt_chain_sizes {
    unsigned count, size[GT_CHAIN_MAX];
};

/* A list that stays, whatever comes. -EINVAL where it is not ascending. */
int gt_chain_set(struct gt_cluster *cluster, const struct gt_chain_sizes *sizes, struct gt_err **err);
/* What is in it. */
void gt_chain_get(const struct gt_cluster *cluster, struct gt_chain_sizes *ret);

/* For a field of that type: "8,16,32", sizes up to GT_CHAIN_SIZE_MAX. */
int gt_chain_option(const struct gt_option *option, const char *value, void *field, struct gt_err **err);

#endif
