/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CACHE_RESOURCES_H
#define GPUTOPO_CACHE_RESOURCES_H

#include "api/resources.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/mix.h"
#include "scheduler-ext/core/plan.h"

/*
 * What nodes have besides GPUs: CPU, memory, pods, extended resources. A node has what its Node calls
 * allocatable. Of that go the requests of all pods that are on it and have not ended, of those that are
 * planned for it, and what is held for pods that do not exist. A node that says nothing of its CPU, memory,
 * ephemeral storage or pods has enough of them.
 */

/* What one pod asks for, shared by those that ask for the same. */
struct gt_cache_request;
/* One more reference to the request of such a pod; NULL: it asks for nothing, or there is no memory. */
struct gt_cache_request *gt_cache_request_make(struct gt_cache *cache, const struct gt_resources *asked,
                                               bool has_gpus);
struct gt_cache_request *gt_cache_request_ref(const struct gt_cache_request *request);
void gt_cache_request_drop(struct gt_cache *cache, struct gt_cache_request *request); /* NULL is allowed */
/* NULL: nothing. */
const struct gt_cache_request *gt_cache_pod_request(const struct gt_cache_pod *pod);
/* Whether it asks for more of the first resource where they differ. `than` may be NULL. */
bool gt_cache_request_is_above(const struct gt_cache_request *request, const struct gt_cache_request *than);
/* What a pod of the job with so many GPUs that does not exist will ask for: the most that one of those there
 * does. NULL: nobody knows. */
const struct gt_cache_request *gt_cache_coming_request(const struct gt_cache_job *job, unsigned gpus);

enum gt_cache_room {
    GT_CACHE_ROOM_NOW,
    GT_CACHE_ROOM_EMPTIED, /* as if no pod with GPUs were on the node */
};

/* How many such pods the node has room for; UINT32_MAX: nothing limits them. */
uint32_t gt_cache_room_for(const struct gt_cache *cache, uint32_t node,
                           const struct gt_cache_request *request, enum gt_cache_room room);
/* The same for pods of several requests together. */
bool gt_cache_has_room(const struct gt_cache *cache, uint32_t node,
                       const struct gt_cache_request *const *requests, const uint32_t *pods, unsigned count);

/* The resource that a node has least of for such pods; NULL: nothing limits them. */
const char *gt_cache_scarcest(const struct gt_cache *cache, uint32_t node,
                              const struct gt_cache_request *request, uint64_t *ret_asked,
                              uint64_t *ret_left);

/* The mix of the pods with GPUs that came, each once. */
struct gt_mix *gt_cache_mix(struct gt_cache *cache);
/* What such a pod asks for, and what is left of a node (GT_NONE: one without GPUs, of which nothing is
 * known): GPUs are the available ones. */
void gt_cache_asked(const struct gt_cache *cache, const struct gt_cache_pod *pod, struct gt_mix_amounts *ret);
void gt_cache_left(const struct gt_cache *cache, uint32_t node, struct gt_mix_amounts *ret);

struct gt_cache_demand { /* of pods that are to be placed */
    const struct gt_cache_request *request;
    unsigned gpus; /* of each */
};

/* The nodes that hold fewer pods than their available GPUs would: as many GPUs as the best of the demands
 * could use there; `worst`: as any mix of them can use. `to` has a place for every node of the cluster;
 * returns how many were written. on_capacity() is called when one of them has more. */
uint32_t gt_cache_limits(struct gt_cache *cache, const struct gt_cache_demand *demands, unsigned count,
                         enum gt_cache_room room, bool worst, struct gt_plan_limit *to);

/* Takes what it asks for (NULL: nothing) from a node for a while, or gives it back: those who wait get no
 * notice. False, and nothing is taken, where the node lacks it. */
bool gt_cache_assume_room(struct gt_cache *cache, uint32_t node, const struct gt_cache_request *request);
void gt_cache_forget_room(struct gt_cache *cache, uint32_t node, const struct gt_cache_request *request);

/* Keeps room for a pod of the job with so many GPUs that does not exist; NULL where there is nothing to keep.
 */
struct gt_cache_hold;
struct gt_cache_hold *gt_cache_hold(struct gt_cache *cache, const struct gt_cache_job *job, uint32_t node,
                                    unsigned gpus);
/* False where somebody else has taken of it. */
bool gt_cache_hold_is_sound(const struct gt_cache *cache, const struct gt_cache_hold *hold);
void gt_cache_unhold(struct gt_cache *cache, struct gt_cache_hold *hold);

#endif
