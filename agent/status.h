/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "deviceplugin/plugin.h"

/* The data for /healthz and /readyz. */
struct gt_status {
    const struct gt_inventory *inventory; /* NULL before the first scan */
    double scan_busy_s;                   /* how long the current scan has been running, 0: none */
    double handler_busy_s; /* how long the oldest call of the kubelet has been handled, 0: none */
    bool has_plugin;       /* or the driver of Dynamic Resource Allocation instead */
    bool registered, streaming;
    const char *registration_error; /* of the last attempt, NULL: it did not fail */
    const char *kubelet_socket;     /* its path if it does not exist, NULL: it exists */
};

enum { GT_SCAN_STUCK_S = 120, GT_HANDLER_STUCK_S = 10 };

/* Whether the agent works (/healthz); one line into `to`. */
bool gt_status_healthy(const struct gt_status *status, struct gt_buf *to);

/* Whether it serves the kubelet; one line into `to` says why not. */
bool gt_status_ready(const struct gt_status *status, struct gt_buf *to);
