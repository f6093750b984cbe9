/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_PLAN_RULE_H
#define GPUTOPO_CORE_PLAN_RULE_H

#include "scheduler-ext/core/internal.h"

/* The min-loss rule. */

enum { RULE_TABLE = 512 };

/*
 * Which sizes of the chain lose a place when q slots leave a supernode of f: the larger ones whose remainder
 * in f is smaller than q. Depends on f alone, so it is looked up.
 */
struct rule {
    uint32_t q;
    uint32_t levels[GT_CHAIN_MAX]; /* in slots */
    unsigned level_count;
    uint32_t known;           /* key[] is filled below this */
    uint32_t key[RULE_TABLE]; /* [f] */
};

enum { RULE_LOST_SHIFT = 24 }; /* a key: sizes that lose a place, then f; the least key is the best */
_Static_assert((uint64_t)GT_CLUSTER_NODES_MAX *GT_GPUS_MAX < 1 << RULE_LOST_SHIFT, "f fits into a key");

static inline void gt_rule_make(const struct gt_cluster *cluster, uint32_t q, unsigned gpus, struct rule *ret)
{
    ret->q = q;
    ret->level_count = 0;
    ret->known = q;
    for (unsigned i = 0; i < cluster->chain_count; i++)
        if (cluster->chain[i] > q * gpus && cluster->chain[i] % gpus == 0)
            ret->levels[ret->level_count++] = cluster->chain[i] / gpus;
}

static inline uint32_t gt_rule_compute_key(const struct rule *rule, uint32_t f)
{
    uint32_t lost = 0;
    for (unsigned i = 0; i < rule->level_count; i++)
        lost += f % rule->levels[i] < rule->q;
    return lost << RULE_LOST_SHIFT | f;
}

/* f >= q */
static inline uint32_t gt_rule_key(struct rule *rule, uint32_t f)
{
    if (f >= RULE_TABLE)
        return gt_rule_compute_key(rule, f);
    for (; rule->known <= f; rule->known++)
        rule->key[rule->known] = gt_rule_compute_key(rule, rule->known);
    return rule->key[f];
}

#endif
