/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_UI_H
#define GPUTOPO_SERVE_UI_H

#include "http/http.h"

/* The cluster page: /ui and the files that it loads. They are part of the program and ask for nothing but
 * /debug/model. False where the path is none of theirs. */
bool gt_ui_serve(const char *path, struct gt_http_response *response);

#endif
