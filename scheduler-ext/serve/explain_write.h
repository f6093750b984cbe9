/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "scheduler-ext/serve/feasible_nodes.h"

/* Writes the text of an explanation. */
void gt_explain_job_text(const struct gt_debug_view *view, const struct gt_cache_job *job, struct gt_buf *to);
void gt_explain_pod_text(const struct gt_debug_view *view, const struct gt_cache_pod *pod, struct gt_buf *to);
void gt_explain_node_text(const struct gt_debug_view *view, uint32_t node, struct gt_buf *to);
void gt_explain_nodes_text(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                           const struct gt_feasible_nodes *nodes, struct gt_buf *to);

/* Gets the first value of a key in the query of a URL, with decoded escapes. False (and ret is "") where
 * there is none, where it is longer than `size` allows, or is not valid text. `query` may be NULL. */
bool gt_query_get(const char *query, const char *key, char *ret, size_t size);
