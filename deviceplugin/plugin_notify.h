/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_PLUGIN_NOTIFY_H
#define GPUTOPO_DEVICEPLUGIN_PLUGIN_NOTIFY_H

#include "base/mailbox.h"
#include "deviceplugin/plugin.h"

/*
 * Private to plugin.c: what handlers report to the loop's thread, copied into letters. Without memory the
 * report is lost, the answer to the kubelet is not. `events` must live as long as the mailbox, whose owner it
 * is.
 */
void gt_notify_preferred(struct gt_mailbox *mailbox, const struct gt_preference *preference);
void gt_notify_allocated(struct gt_mailbox *mailbox, const struct gt_allocation *allocation);

/* The owner of the mailbox begins with this. */
struct gt_notify_owner {
    struct gt_plugin_events events;
};

#endif
