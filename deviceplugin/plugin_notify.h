/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_PLUGIN_NOTIFY_H
#define GPUTOPO_DEVICEPLUGIN_PLUGIN_NOTIFY_H

#include "base/mailbox.h"
#include "deviceplugin/plugin.h"

/*
 * Private to plugin.c: what handlers report to the loop's thread, copied into messages. Without memory the
 * report is lost, but the kubelet still gets its answer. The mailbox's owner is a struct gt_notify_owner,
 * which must live as long as the mailbox.
 */
void gt_notify_preferred(struct gt_mailbox *mailbox, const struct gt_preference *preference);
void gt_notify_allocated(struct gt_mailbox *mailbox, const struct gt_allocation *allocation);

/* The owner of the mailbox begins with this. */
struct gt_notify_owner {
    struct gt_plugin_events events;
};

#endif
