/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/serve/debug_view.h"

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
