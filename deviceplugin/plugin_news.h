/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_PLUGIN_NEWS_H
#define GPUTOPO_DEVICEPLUGIN_PLUGIN_NEWS_H

#include "base/mailbox.h"
#include "deviceplugin/plugin.h"

/*
 * Private to plugin.c: what handlers tell the loop's thread, copied into letters. Without memory the news is
 * lost, the answer to the kubelet is not. `events` must live as long as the mailbox, whose owner it is.
 */
void gt_news_preferred(struct gt_mailbox *mailbox, const struct gt_preference *preference);
void gt_news_allocated(struct gt_mailbox *mailbox, const struct gt_allocation *allocation);

/* The owner of the mailbox begins with this. */
struct gt_news_owner {
    struct gt_plugin_events events;
};

#endif
