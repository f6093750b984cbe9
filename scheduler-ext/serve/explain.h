/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "http/http.h"
#include "scheduler-ext/serve/debug_view.h"
#include "scheduler-ext/serve/feasible_nodes.h"

/*
 * GET /explain (docs/reference/debug-endpoints.md): why a pod or job has its place, or waits; who has the
 * GPUs of a node. ?pod=NAMESPACE/NAME ?job=KEY ?job=NAMESPACE/NAME ?node=NAME ?name=...: any of them The
 * namespace may be left out where the name is unique. The answer is plain text, or JSON with &format=json. An
 * unknown name is answered with 404, an ambiguous one with 300, each with one line.
 */
void gt_explain(const struct gt_debug_view *view, const char *query, struct gt_http_response *response);

/* Serves the cluster page: /ui and the files that it loads. They are built into the program and request
 * /ui/state, /ui/node and /explain. False where the path is not one of these. */
bool gt_ui_serve(const char *path, struct gt_http_response *response);

/* Writes the text of an explanation. */
void gt_explain_job_text(const struct gt_debug_view *view, const struct gt_cache_job *job, struct gt_buf *to);
/* Which boundaries of domains it crosses, and who would have to move for fewer. `pods`: its own, by rank. */
void gt_explain_crossing(const struct gt_debug_view *view, const struct gt_cache_job *job,
                         const struct gt_cache_pod *const *pods, uint32_t count, struct gt_buf *to);
void gt_explain_pod_text(const struct gt_debug_view *view, const struct gt_cache_pod *pod, struct gt_buf *to);
void gt_explain_node_text(const struct gt_debug_view *view, uint32_t node, struct gt_buf *to);
void gt_explain_nodes_text(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                           const struct gt_feasible_nodes *nodes, struct gt_buf *to);

/* Gets the first value of a key in the query of a URL, with decoded escapes. False (and ret is "") where
 * there is none, where it is longer than `size` allows, or is not valid text. `query` may be NULL. */
bool gt_query_get(const char *query, const char *key, char *ret, size_t size);

/* The answer of /debug/decisions: those after the number of the query, as many as one answer takes.
 * `placement` NULL: none. */
void gt_decisions_serve(const struct gt_placement *placement, const char *query,
                        struct gt_http_response *response);
