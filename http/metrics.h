/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"

/* One of a daemon's servers. */
struct gt_http_listener {
    const char *name; /* value of the label `listener`, such as "http" */
    struct gt_http *http;
};

enum { GT_HTTP_LISTENERS_MAX = 4 };

/* Appends the counters of the servers, and when their certificates expire (docs/reference/metrics.md). Those
 * whose `http` is NULL are left out. */
void gt_http_metrics(const struct gt_http_listener *listeners, unsigned count, struct gt_buf *to);
