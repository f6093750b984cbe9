/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/plan_rules.h"

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

/* The rules for members of a job, in the order of the plan's pods. *ret is NULL where there are none; the
 * caller ends it with gt_plan_rules_done() and free(). Appends to `said` (NULL is allowed) what they are: ";
 * a host port of its pods is taken on 3 nodes". */
int gt_cache_peer_rules(struct gt_cache *cache, const struct gt_cache_peer_member *members, uint32_t count,
                        struct gt_plan_rules **ret, struct gt_buf *said, struct gt_err **err);
