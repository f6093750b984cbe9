/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/status.h"

bool gt_status_healthy(const struct gt_status *status, struct gt_buf *to)
{
    if (status->scan_busy_s > GT_SCAN_STUCK_S) {
        gt_buf_printf(to, "a scan has been running for %.0f s\n", status->scan_busy_s);
        return false;
    }
    if (status->handler_busy_s > GT_HANDLER_STUCK_S) {
        gt_buf_printf(to, "a call of the kubelet has been worked on for %.0f s\n", status->handler_busy_s);
        return false;
    }
    gt_buf_puts(to, "ok\n");
    return true;
}

bool gt_status_ready(const struct gt_status *status, struct gt_buf *to)
{
    const char *not_advertised = NULL;
    if (!status->inventory) {
        gt_buf_printf(to, "the first scan of the node has been running for %.0f s\n", status->scan_busy_s);
        return false;
    }
    if (!status->has_plugin) {
        gt_buf_puts(to, "ok, without the device plugin\n");
        return true;
    }
    if (!status->inventory->device_count) {
        not_advertised = gt_node_not_advertised(status->inventory->node);
        /* A node with no GPU to advertise is ready: a rollout must not wait for it. */
        gt_buf_printf(to, "ok: %s\n",
                      not_advertised ? not_advertised : "this node has no GPU, nothing is advertised");
        return true;
    }
    if (!status->registered) {
        if (status->kubelet_socket)
            gt_buf_printf(to, "not registered with the kubelet: %s does not exist\n", status->kubelet_socket);
        else if (status->registration_error)
            gt_buf_printf(to, "not registered with the kubelet: %s\n", status->registration_error);
        else
            gt_buf_puts(to, "not registered with the kubelet yet\n");
        return false;
    }
    if (!status->streaming) {
        gt_buf_puts(to, "registered, but the kubelet does not listen to the list of devices\n");
        return false;
    }
    gt_buf_puts(to, "ok\n");
    return true;
}
