/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"
#include "scheduler-ext/serve/debug_view.h"

/*
 * GET /explain (docs/reference/debug-endpoints.md): why a pod or job has its place, or waits; who has the
 * GPUs of a node. ?pod=NAMESPACE/NAME ?job=KEY ?job=NAMESPACE/NAME ?node=NAME ?name=...: any of them The
 * namespace may be left out where the name is unique. The answer is plain text, or JSON with &format=json. An
 * unknown name is answered with 404, an ambiguous one with 300, each with one line.
 */
void gt_explain(const struct gt_debug_view *view, const char *query, struct gt_http_response *response);

/* Serves the cluster page: /ui and the files that it loads. They are built into the program and request only
 * /debug/model. False where the path is not one of these. */
bool gt_ui_serve(const char *path, struct gt_http_response *response);
