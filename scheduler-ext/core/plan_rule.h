/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "scheduler-ext/core/internal.h"

/*
 * The min-loss rule: of the supernodes with f >= q slots it chooses the one where the fewest larger sizes
 * lose a place, then the one with the smallest f. Proof that no other rule places more while no job ends:
 *
 * Let each of the sizes q1 < q2 < ... divide the next, and let K_j be the sum of floor(f / q_j) over all
 * supernodes: how many runs of size q_j the cluster could hold.
 *
 * What fits: a set of runs fits exactly if, for each j, the runs of size q_j and more, counted in units of
 * q_j, are at most K_j. This is necessary, since a run of q_i >= q_j takes the slots of q_i / q_j runs of
 * q_j. It is sufficient when the runs are placed largest first: each lowers K_j by q_i / q_j for every j <=
 * i, in whichever supernode it is placed.
 *
 * Choices are ordered: a run of q_i lowers K_j for j <= i by the same number in every supernode; supernodes
 * differ only for larger sizes. If Q loses a place in f, so does every size Q' of the chain between q_i and
 * Q, since f mod Q' <= f mod Q < q_i. So of two supernodes one is better or equal for all sizes at the same
 * time.
 *
 * No run is refused that another rule could place: runs arrive one by one. Claim: our K_j are never below
 * those of any other rule. The claim could only fail when both place a run of q_i, we lose a place of a
 * larger size q_j, the other rule does not, and both had the same K_j. Then f mod q_j < q_i in every
 * supernode where the run fits, and f < q_i elsewhere, so our K_i = (q_j / q_i) K_j. The other rule had room
 * for a q_i besides its K_j runs of q_j, so its K_i is at least (q_j / q_i) K_j + 1. That is more than ours:
 * a contradiction.
 */

enum { RULE_TABLE = 512, LOST_UNKNOWN = 255 };
_Static_assert((int)GT_CHAIN_MAX < (int)LOST_UNKNOWN, "a count of lost sizes fits");

/*
 * A size of the chain needs as many slots as it has pods of the unit's size. If the largest is no number of
 * them, it is counted by its nodes: a unit of 40 GPUs needs 5 nodes of 8, each a slot for a pod of 6.
 *
 * How many sizes of the chain lose a place when q of the f slots of a supernode are taken: the larger sizes L
 * with f mod L < q. It depends on f only, so it is computed once for each f that occurs.
 */
struct rule {
    uint32_t q;
    uint32_t levels[GT_CHAIN_MAX]; /* in slots */
    unsigned level_count;
    uint8_t lost[RULE_TABLE]; /* [f] how many sizes lose a place; LOST_UNKNOWN */
};

enum { RULE_LOST_SHIFT = 24 }; /* a key: sizes that lose a place, then f; the least key is the best */
_Static_assert((uint64_t)GT_CLUSTER_NODES_MAX *GT_GPUS_MAX < 1 << RULE_LOST_SHIFT, "f fits into a key");

/* In how many slots a size has its nodes: nodes of the kind that holds such pods and has the most GPUs in
 * all. 0: it is no number of them. */
static inline uint32_t gt_rule_by_nodes(const struct gt_cluster *cluster, uint32_t size, unsigned gpus)
{
    unsigned node = gpus;
    for (unsigned n = gpus; n <= GT_GPUS_MAX; n++)
        if (cluster->nodes_of[n] * n > cluster->nodes_of[node] * node)
            node = n;
    return size % node ? 0 : size / node * (node / gpus);
}

static inline void gt_rule_make(const struct gt_cluster *cluster, uint32_t q, unsigned gpus, struct rule *ret)
{
    ret->q = q;
    ret->level_count = 0;
    memset(ret->lost, LOST_UNKNOWN, sizeof(ret->lost));
    const struct gt_chain_sizes *chain = &cluster->chain.sizes;
    for (unsigned i = 0; i < chain->count; i++) {
        uint32_t slots = chain->size[i] % gpus == 0 ? chain->size[i] / gpus
                         : i + 1 == chain->count    ? gt_rule_by_nodes(cluster, chain->size[i], gpus)
                                                    : 0;
        if (slots > q)
            ret->levels[ret->level_count++] = slots;
    }
}

static inline unsigned gt_rule_count_lost(const struct rule *rule, uint32_t f)
{
    unsigned lost = 0;
    for (unsigned i = 0; i < rule->level_count; i++)
        lost += f % rule->levels[i] < rule->q;
    return lost;
}

/* f >= q */
static inline unsigned gt_rule_lost(struct rule *rule, uint32_t f)
{
    if (f >= RULE_TABLE)
        return gt_rule_count_lost(rule, f);
    if (rule->lost[f] == LOST_UNKNOWN)
        rule->lost[f] = (uint8_t)gt_rule_count_lost(rule, f);
    return rule->lost[f];
}

static inline uint32_t gt_rule_key(struct rule *rule, uint32_t f)
{
    return (uint32_t)gt_rule_lost(rule, f) << RULE_LOST_SHIFT | f;
}
