/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/relocate.h"

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

/* "in 2 leaves, not in 1, in 5 supernodes, not in 4": where a job lies in more domains than before; nothing
 * otherwise. */
void gt_crossing_text_farther(const struct gt_crossing *before, const struct gt_crossing *after,
                              struct gt_buf *to);

/* "leaf" or "leaves"; "domains of tier 5" is the same for one and many. `size` bytes. */
void gt_tier_text(unsigned tier, bool many, char *ret, size_t size);

/* The supernode of that tier that contains this one, or is it; GT_NONE: there is none. */
uint32_t gt_cluster_domain(const struct gt_cluster *cluster, uint32_t supernode, unsigned tier);

/* Which pods of others would have to move so that a job lies in one domain less: what people are told. */
struct gt_closer_spec {
    const struct gt_crossing *crossing; /* of the job */
    const uint32_t *nodes;              /* of its pods */
    uint32_t count, run;                /* its pods; those that lie together in one supernode */
    unsigned gpus;                      /* of each pod */
    uint64_t requests;                  /* as in struct gt_advise_job */
    const struct gt_node_set *avoids;   /* nodes that its pods may not use; NULL: none */
    bool placed; /* its pods have their GPUs: those in one domain would go to its other domains. Otherwise all
                    of them are placed again, perhaps in other domains */
    const struct gt_running_pod *pods; /* of others; only movable ones move */
    uint32_t pod_count;
    bool (*may_go)(const void *arg, uint32_t pod, uint32_t node); /* as in relocate.h */
    const void *arg;
    uint64_t work; /* of all searches together, as in relocate.h */
};

struct gt_closer {
    uint32_t domains;            /* of the crossing's highest tier that would do; 0: no way was found */
    uint32_t leaves;             /* `placed`: the domain that it would leave; else GT_NONE */
    uint32_t own;                /* `placed`: its pods there */
    struct gt_relocation others; /* what moves before; the caller frees others.moves */
};

/* The cheapest way that a short search finds. */
int gt_closer_find(struct gt_cluster *cluster, const struct gt_closer_spec *spec, struct gt_closer *ret,
                   struct gt_err **err);

/* "; 2 leaves would do if 2 pods of team-b moved", "; 2 leaves would do if 2 pods of 2 jobs and its 4 in
 * leaf3 moved"; nothing where no way was found. `job`: whose the first of the others is; "" not known. */
void gt_closer_text(const struct gt_cluster *cluster, const struct gt_crossing *crossing,
                    const struct gt_closer *closer, const char *job, struct gt_buf *to);
