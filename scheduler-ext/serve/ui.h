/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_UI_H
#define GPUTOPO_SERVE_UI_H

#include "http/http.h"

/* Serves the cluster page: /ui and the files that it loads. They are built into the program and request only
 * /debug/model. False where the path is not one of these. */
bool gt_ui_serve(const char *path, struct gt_http_response *response);

#endif
