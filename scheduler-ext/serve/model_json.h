/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_MODEL_JSON_H
#define GPUTOPO_SERVE_MODEL_JSON_H

#include "scheduler-ext/serve/debug_view.h"

/* The model as JSON, docs/reference/debug-endpoints.md. */

/*
 * The whole of it, as /debug/model answers, in pieces: a large cluster takes longer than others may be kept
 * waiting. Between two pieces objects may change, so it is not all of one moment. It stays below `max` bytes:
 * nodes may take three quarters of it, what does not fit is left out and counted. `pods` false: jobs come
 * without the list of their pods.
 */
struct gt_model;
int gt_model_new(const struct gt_debug_view *view, bool pods, size_t max, struct gt_model **ret,
                 struct gt_err **err);
void gt_model_free(struct gt_model *model);
/* Goes on for about so long; true when it is complete. */
bool gt_model_write(struct gt_model *model, uint64_t budget_ns);
/* What is written; the caller may take it when it is complete. It may have failed. */
struct gt_buf *gt_model_text(struct gt_model *model);

/* One job, one pod: an object. `ids`: with the IDs that the kubelet knows the GPUs by. */
void gt_model_job_json(const struct gt_debug_view *view, const struct gt_cache_job *job, bool pods, bool ids,
                       struct gt_buf *to);
void gt_model_pod_json(const struct gt_debug_view *view, const struct gt_cache_pod *pod, bool ids,
                       struct gt_buf *to);

#endif
