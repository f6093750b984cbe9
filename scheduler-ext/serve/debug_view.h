/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/score.h"
#include "scheduler-ext/placement/controller.h"

/* The input of the read-only endpoints for people: /debug/model, /explain, and what /ui asks. */
struct gt_debug_view {
    struct gt_cache *cache;
    const struct gt_placement *placement; /* NULL: that part is off */
    struct gt_aware_weights weights;      /* those of the cache's cluster */
    bool leads;                           /* this replica leads */
    bool synced;                          /* the cache is synced */
    uint64_t now_ms;                      /* gt_clock_ms() */
    uint64_t wall_ms;                     /* Unix time at the same moment */
};

/* How many of a job's pods are in each state; the first time and the highest priority of them. */
struct gt_debug_pods {
    uint32_t counts[GT_CACHE_RUNNING + 1];
    uint64_t created_s;
    int32_t priority;
};
struct gt_debug_pods gt_debug_count_pods(const struct gt_cache_job *job);

/* The controller's state of a job in one word; where it has none, the state of the pods: "gated", "pending",
 * "starting", "running". */
const char *gt_debug_job_state(const struct gt_cache_job *job, const struct gt_placement_job *info);
/* Whether the job needs no attention. */
bool gt_debug_is_settled(const struct gt_debug_view *view, const struct gt_cache_job *job,
                         const struct gt_placement_job *info);

const char *gt_debug_pod_state(const struct gt_cache_pod *pod);
const char *gt_debug_plan_state(const struct gt_cache_pod *pod);

/* The GPUs that a pod has, or that are reserved for it, and the node; 0 and GT_NONE: none. */
uint64_t gt_debug_pod_gpus(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                           uint32_t *ret_node);

/* The sizes of a job as its pods or its owner give them. */
void gt_debug_job_texts(const struct gt_debug_view *view, const struct gt_cache_job *job,
                        struct gt_job_texts *ret);
/* How many of its pods run without a plan though it has a group size. */
uint32_t gt_debug_job_unplaced(const struct gt_debug_view *view, const struct gt_cache_job *job);

/* The kind of object that created its pods: "PyTorchJob", "ReplicaSet". */
const char *gt_debug_job_kind(const struct gt_cache_job *job);

/* The model as JSON, docs/reference/debug-endpoints.md. */

/* Writes the whole model, the answer of /debug/model, in at most as many bytes as the buffer may have, of
 * which nodes take three quarters at most; what does not fit is left out and counted. */
void gt_model_json(const struct gt_debug_view *view, struct gt_buf *to);

/* Append one job or pod as an object. `ids`: with the device IDs by which the kubelet knows the GPUs. */
void gt_model_job_json(const struct gt_debug_view *view, const struct gt_cache_job *job, bool pods, bool ids,
                       struct gt_buf *to);
void gt_model_pod_json(const struct gt_debug_view *view, const struct gt_cache_pod *pod, bool ids,
                       struct gt_buf *to);

/* Parts of JSON that the model and the explanations share. */

/* A time of gt_clock_ms() as RFC 3339 in UTC; null where it is 0. */
void gt_model_time_json(struct gt_buf *to, const char *key, const struct gt_debug_view *view, uint64_t ms);

/* The supernode that a node is shown in; GT_NONE: none. */
uint32_t gt_model_supernode_of(const struct gt_cluster *cluster, uint32_t id,
                               struct gt_cluster_node *ret_node);

struct gt_picture_node;
/* Fills in a node but for its pods; its problems are appended to `note`, which outlives it. */
void gt_model_draw_node(const struct gt_debug_view *view, uint32_t id, struct gt_picture_node *ret,
                        struct gt_buf *note);

/* What is wrong with a node, or special; nothing: nothing is. */
void gt_model_node_note(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to);
void gt_model_node_json(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to);
