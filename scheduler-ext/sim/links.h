/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/sim/site.h"

/* The bandwidth between GPUs: how much of it pods got, and how much free GPUs have left. Zeroed: not open. */
struct gt_links {
    struct gt_cluster *model;
    uint32_t nodes;
    int64_t best[GT_GPUS_MAX + 1]; /* [GPUs] the best on any empty node; -1: not computed yet */
    double share_sum;
    uint32_t share_count;
};

int gt_links_open(struct gt_links *links, const struct gt_site *site, struct gt_err **err);
void gt_links_done(struct gt_links *links);

/* Adds a pod that got these GPUs; it does not count where no node could give it a pair of linked GPUs. */
void gt_links_add(struct gt_links *links, uint32_t node, uint64_t mask);

/* Mean over the pods: the bandwidth among a pod's GPUs over the best that as many GPUs have on an empty node.
 * 1 where none counts. */
double gt_links_share(const struct gt_links *links);

/* The fraction of the free GPUs' bandwidth that is lost because not all GPUs of their nodes are free: 1 -
 * S(free) / (S(all) x free / all), each sum over all nodes; 0 where there is none to lose. */
double gt_links_fragmentation(const struct gt_links *links, uint64_t (*free)(const void *arg, uint32_t node),
                              const void *arg);
