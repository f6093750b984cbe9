/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod_peers.h"
#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/cache/peers.h"

/* What the files that make the rules of a plan share. */

enum { PEER_SETS_MAX = GT_PLAN_SORTS_MAX, PEER_TERMS_MAX = 64, PEER_KEYS_MAX = 16 };

/* The domains of a label: its values. They are shared, so equal texts have equal pointers. */
struct peer_key {
    const char *key;
    bool by_node;        /* each node by itself */
    const char **values; /* sorted by pointer */
    uint32_t count;
};

struct peer_term { /* of a member's rules, or anti-affinity of others */
    const struct gt_pod_peers *peers;
    const struct gt_peer_term *term;
    struct peer_key *key;
    bool *meant, *has; /* APART: [domain] a pod that it means is there; a pod that has it. One block */
    uint32_t *there;   /* others: [domain] pods that it means; SPREAD: GT_NONE where no node counts */
    uint32_t *by_node; /* SPREAD, if pods are also limited on each node: [node] pods that it means */
};

struct peer_sort {
    const struct gt_pod_peers *peers;
    uint64_t meant; /* by which terms */
    bool guessed;   /* claims that only one pod has are not known */
};

struct peer_work {
    struct gt_cache *cache;
    const struct gt_cache_peer_member *members;
    const struct gt_pod_peers *sets[PEER_SETS_MAX]; /* of members */
    const struct cache_pod *of[PEER_SETS_MAX];      /* a member that has it */
    struct peer_term terms[PEER_TERMS_MAX];
    struct peer_key keys[PEER_KEYS_MAX];
    struct peer_sort sorts[GT_PLAN_SORTS_MAX];
    unsigned set_count, term_count, own_terms, key_count;
    uint32_t ports_taken[PEER_SETS_MAX]; /* nodes */
    bool volumes_unread, volumes_unbound, volumes_bar;
    uint32_t attach_full; /* nodes without room for what a pod needs of its driver */
    const char *attach_driver;
    const struct gt_cache_pod *awaited; /* NULL: none */
    struct gt_plan_rules *rules;
};

static inline uint32_t gt_peer_nodes(const struct peer_work *work)
{
    return gt_cluster_nodes(work->cache->cluster);
}

/* Bars a node (GT_NONE: none) to sorts. */
int gt_peer_bar(struct peer_work *work, uint64_t sorts, uint32_t node);
/* NULL: there are too many, which is noted. */
struct gt_plan_rule *gt_peer_add_rule(struct peer_work *work, enum gt_peer_kind kind, uint64_t who,
                                      uint64_t with);
/* Rules by the claims of the pods: where volumes can be used and attached, and where devices are left. */
int gt_cache_peer_claims(struct peer_work *work);
