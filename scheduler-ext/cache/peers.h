/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/plan_rules.h"

struct gt_peer_term;
struct gt_pod_peers;

/* The rules that a scheduler will check between a job's pods and the pods that are there (api/pod_peers.h).
 */

/* Whether the pod has such rules, or others have anti-affinity that means it. */
bool gt_cache_pod_has_peers(const struct gt_cache *cache, const struct gt_cache_pod *pod);

/* Whether rules between pods forbid the pod to be on the node, with the pods that are there. */
bool gt_cache_peers_bar(struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node);

struct gt_cache_peer_member {
    const struct gt_cache_pod *pod; /* it, or one of the same template; NULL: nothing is known of it */
    bool guessed;                   /* it is one of the same template */
    bool counted;                   /* it is on its node, or planned for it, by the cache */
};

/* Whether the term of pods with these rules means a member that has no place. */
bool gt_cache_means_member(const struct gt_cache *cache, const struct gt_pod_peers *peers,
                           const struct gt_peer_term *term, const struct gt_cache_peer_member *members,
                           uint32_t count);
/* Whether pods are planned and not bound, for which it counts whether others are bound before. */
bool gt_cache_has_ordered(const struct gt_cache *cache);
/* A pod of another job that is planned and not bound, and that its scheduler might refuse if one of the
 * members was bound before. NULL: none. */
const struct gt_cache_pod *gt_cache_awaited(const struct gt_cache *cache,
                                            const struct gt_cache_peer_member *members, uint32_t count);

/* The rules for members of a job, in the order of the plan's pods. *ret is NULL where there are none; the
 * caller ends it with gt_plan_rules_done() and free(). Appends to `said` (NULL is allowed) what they are: ";
 * a host port of its pods is taken on 3 nodes". */
int gt_cache_peer_rules(struct gt_cache *cache, const struct gt_cache_peer_member *members, uint32_t count,
                        struct gt_plan_rules **ret, struct gt_buf *said, struct gt_err **err);
