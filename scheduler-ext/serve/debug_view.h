/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_DEBUG_VIEW_H
#define GPUTOPO_SERVE_DEBUG_VIEW_H

#include "scheduler-ext/core/score.h"
#include "scheduler-ext/placement/controller.h"

/* What the companion shows to people: /debug/model, /explain, and /ui, which uses the former. They
 * change nothing. */
struct gt_debug_view {
    struct gt_cache *cache;
    const struct gt_placement *placement; /* NULL: that part is off */
    struct gt_aware_weights weights;      /* those of the cache's cluster */
    bool leads;                           /* this replica is the one that writes */
    bool synced;                          /* the cache has seen all there is */
    uint64_t now_ms;                      /* gt_clock_ms() */
    uint64_t wall_ms;                     /* Unix time at the same moment */
};

/* The controller's word on a job; GT_PLACEMENT_NONE where it has none. */
void gt_debug_job(const struct gt_debug_view *view, const struct gt_cache_job *job,
                  struct gt_placement_job *ret);

/* That state in one word, or where the controller has none how far its pods are: "gated", "pending",
 * "starting", "running". */
const char *gt_debug_job_state(const struct gt_cache_job *job, const struct gt_placement_job *info);
/* Whether the job needs no attention. */
bool gt_debug_is_settled(const struct gt_cache_job *job, const struct gt_placement_job *info);

const char *gt_debug_pod_state(const struct gt_cache_pod *pod);
const char *gt_debug_plan_state(const struct gt_cache_pod *pod);

/* The GPUs that a pod has, or that are reserved for it, and the node; 0 and GT_NONE: none. */
uint64_t gt_debug_pod_gpus(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                           uint32_t *ret_node);

/* Number of its unit, or rank, as its plan says; GT_NONE: it does not. */
uint32_t gt_debug_pod_number(const struct gt_cache_pod *pod, const char *annotation);

/* What the pods of a job ask for in all. */
uint64_t gt_debug_job_gpus(const struct gt_cache_job *job);

/* How many units its plan has, by its pods; 0: none is known. */
uint32_t gt_debug_job_units(const struct gt_cache_job *job);

/* An annotation that one pod of a job has, which speaks for all; NULL: none has it. */
const char *gt_debug_job_annotation(const struct gt_cache_job *job, const char *key);

/* What kind of object made its pods: "PyTorchJob", "ReplicaSet". */
const char *gt_debug_job_kind(const struct gt_cache_job *job);

#endif
