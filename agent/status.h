/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_STATUS_H
#define GPUTOPO_AGENT_STATUS_H

#include "base/buf.h"
#include "deviceplugin/plugin.h"

/* What /healthz and /readyz are made from. */
struct gt_status {
    const struct gt_inventory *inventory; /* NULL before the first scan */
    double scan_busy_s;                   /* how long the scan in progress has been running, 0: none */
    double handler_busy_s;                /* how long the oldest call of the kubelet has been worked on */
    bool has_plugin;                      /* or the driver of Dynamic Resource Allocation, in its place */
    bool registered, streaming;
    const char *registration_error; /* of the last attempt, NULL: none failed since */
    const char *kubelet_socket;     /* that does not exist, NULL: it does */
};

enum { GT_SCAN_STUCK_S = 120, GT_HANDLER_STUCK_S = 10 };

/* Whether the agent works (/healthz); one line into `to`. */
bool gt_status_healthy(const struct gt_status *status, struct gt_buf *to);

/* Whether it serves the kubelet; one line that says why not. */
bool gt_status_ready(const struct gt_status *status, struct gt_buf *to);

#endif
