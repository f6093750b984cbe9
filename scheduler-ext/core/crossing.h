/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/core/cluster.h"

/* Which boundaries of domains a job crosses: what people are told of a plan. */

/* The bandwidth of a tier is what a node has to nodes in other supernodes of this tier. */

enum { GT_GBPS_MAX = 100000 };

/* Of one supernode, in GB/s; 0: not known. */
void gt_cluster_set_bandwidth(struct gt_cluster *cluster, uint32_t supernode, double gbps);

struct gt_crossing {
    struct {
        uint32_t used, all; /* supernodes of the tier: with nodes of the job, and in the cluster */
    } tiers[GT_TIERS_MAX + 1];
    unsigned highest; /* the highest tier with more than one; 0: it lies in one supernode of tier 1 */
    /* The slowest step in rank order, the last rank to the first included. */
    double gbps;             /* 0: not known */
    uint32_t step_a, step_b; /* between these, of one tier; GT_NONE: there is none */
};

/* `nodes`: of the pods of a job, by rank. False without memory. */
bool gt_crossing_find(const struct gt_cluster *cluster, const uint32_t *nodes, uint32_t count,
                      struct gt_crossing *ret);

/* "3 of 4 leaves, 5 of 16 supernodes; slowest step 25 GB/s, between leaf2 and leaf3"; nothing for a job in
 * one supernode. */
void gt_crossing_text(const struct gt_cluster *cluster, const struct gt_crossing *crossing,
                      struct gt_buf *to);

/* "leaf" or "leaves"; "domains of tier 5" is the same for one and many. `size` bytes. */
void gt_tier_text(unsigned tier, bool many, char *ret, size_t size);

/* The supernode of that tier that contains this one, or is it; GT_NONE: there is none. */
uint32_t gt_cluster_domain(const struct gt_cluster *cluster, uint32_t supernode, unsigned tier);
