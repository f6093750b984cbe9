/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/resources.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/mix.h"
#include "scheduler-ext/core/plan.h"

/*
 * What nodes have: CPU, memory, pods, extended resources, and how many GPUs pods may ask for by limits; which
 * GPUs are free is in the cluster of core/. A node has its Node's `allocatable`,
 * less the requests of all pods that are on it and have not ended, of pods that are planned for it, and what
 * is reserved for pods that do not exist yet. Where a Node does not report CPU, memory, ephemeral storage or
 * pods, they count as enough. Where claims give its GPUs, nothing limits their number here.
 */

/* What one pod asks for, shared by those that ask for the same. */
struct gt_cache_request;
/* A new reference to the request of such a pod; NULL: it asks for nothing, or there is no memory. */
struct gt_cache_request *gt_cache_request_make(struct gt_cache *cache, const struct gt_resources *resources,
                                               bool has_gpus);
struct gt_cache_request *gt_cache_request_ref(const struct gt_cache_request *request);
void gt_cache_request_drop(struct gt_cache *cache, struct gt_cache_request *request); /* NULL is allowed */
/* The pod's request, borrowed; NULL: it asks for nothing. */
const struct gt_cache_request *gt_cache_pod_request(const struct gt_cache_pod *pod);
/* Whether it asks for more of the first resource in which the two differ. `than` may be NULL. */
bool gt_cache_request_is_above(const struct gt_cache_request *request, const struct gt_cache_request *than);
/* What a pod of the job with `gpus` GPUs that does not exist yet will ask for: the most that any existing one
 * asks for. NULL: not known. */
const struct gt_cache_request *gt_cache_coming_request(const struct gt_cache_job *job, unsigned gpus);

enum gt_cache_room {
    GT_CACHE_ROOM_NOW,
    GT_CACHE_ROOM_EMPTIED, /* as if no pod with GPUs were on the node */
    GT_CACHE_ROOM_EMPTY,   /* as if no pod at all were on the node */
};

/* How many such pods the node has room for; UINT32_MAX: nothing limits them. */
uint32_t gt_cache_room_for(const struct gt_cache *cache, uint32_t node,
                           const struct gt_cache_request *request, enum gt_cache_room room);
/* The same for pods of several requests together. */
bool gt_cache_has_room(const struct gt_cache *cache, uint32_t node,
                       const struct gt_cache_request *const *requests, const uint32_t *pods, unsigned count);

/* The resource that limits the number of such pods on a node most; NULL: nothing limits them. */
const char *gt_cache_scarcest(const struct gt_cache *cache, uint32_t node,
                              const struct gt_cache_request *request, uint64_t *ret_asked,
                              uint64_t *ret_left);

/* How many GPUs pods may still ask for by limits on a node, as kube-scheduler counts; UINT32_MAX: nothing
 * limits them. */
uint32_t gt_cache_gpus_left(const struct gt_cache *cache, uint32_t node);

/* The resource of which no node, except for those of `excluded`, has as much as such a pod needs, however
 * empty it is; *ret_most: the most that one has. NULL: there is none. */
const char *gt_cache_never_enough(const struct gt_cache *cache, const struct gt_node_set *excluded,
                                  const struct gt_cache_request *request, uint64_t *ret_asked,
                                  uint64_t *ret_most);

/* The mix of all pods with GPUs that were added, each counted once. */
struct gt_mix *gt_cache_mix(struct gt_cache *cache);
/* What a pod asks for, and what is left on a node (GT_NONE: a node without GPUs, about which nothing is
 * known); its GPUs are the available ones. */
void gt_cache_asked(const struct gt_cache *cache, const struct gt_cache_pod *pod, struct gt_mix_amounts *ret);
void gt_cache_left(const struct gt_cache *cache, uint32_t node, struct gt_mix_amounts *ret);

struct gt_cache_demand { /* of pods that are to be placed */
    const struct gt_cache_request *request;
    unsigned gpus; /* of each */
};

/* Writes the nodes where other resources limit the pods more than the available GPUs do, with the number of
 * GPUs that pods can still use there: of the demands, the one that can use most counts; `worst`: what any mix
 * of them can use. `to` has one entry for every node of the cluster; returns how many were written.
 * on_capacity() is called when one of these nodes gets more. */
uint32_t gt_cache_limits(struct gt_cache *cache, const struct gt_cache_demand *demands, unsigned count,
                         enum gt_cache_room room, bool worst, struct gt_plan_limit *to);

/* Takes the request (NULL: nothing) from a node for a while, or gives it back without a call of
 * on_capacity(). False, and nothing is taken, where the node does not have enough. */
bool gt_cache_assume_room(struct gt_cache *cache, uint32_t node, const struct gt_cache_request *request);
void gt_cache_forget_room(struct gt_cache *cache, uint32_t node, const struct gt_cache_request *request);

/* Reserves other resources for a pod of the job with `gpus` GPUs that does not exist yet; NULL where there is
 * nothing to reserve. */
struct gt_cache_reserve;
struct gt_cache_reserve *gt_cache_reserve(struct gt_cache *cache, const struct gt_cache_job *job,
                                          uint32_t node, unsigned gpus);
/* False where another pod has taken some of what is reserved. */
bool gt_cache_reserve_is_sound(const struct gt_cache *cache, const struct gt_cache_reserve *reserve);
void gt_cache_unreserve(struct gt_cache *cache, struct gt_cache_reserve *reserve);
