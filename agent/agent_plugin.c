/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/agent_private.h"
#include "base/log.h"

enum { IDS_LOGGED = 4096 };

static void on_registered(void *arg)
{
    struct gt_agent *agent = arg;
    agent->registration_error[0] = '\0';
    gt_info("registered", GT_STR("resource", agent->options->resource),
            GT_INT("gpus", agent->inventory ? agent->inventory->device_count : 0));
    gt_podresources_soon(agent->podresources);
    gt_agent_publish_changed(agent->publish);
}

static void on_registration_failed(void *arg, const char *why, unsigned retry_ms)
{
    struct gt_agent *agent = arg;
    /* The back-off may last for days where there is no kubelet: the same reason is said once. */
    bool again = strncmp(agent->registration_error, why, sizeof(agent->registration_error) - 1) == 0;
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "registration failed", GT_STR("why", why),
           GT_INT("retry_ms", retry_ms));
    snprintf(agent->registration_error, sizeof(agent->registration_error), "%s", why);
    gt_agent_publish_changed(agent->publish);
}

static void on_stream_ended(void *arg)
{
    struct gt_agent *agent = arg;
    gt_info("the kubelet ended the list of devices, registering again");
    gt_podresources_restarted(agent->podresources);
    gt_agent_publish_changed(agent->publish);
}

static void add_ids(struct gt_buf *to, const char *const *ids, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        gt_buf_puts(to, i ? "," : "");
        gt_buf_puts(to, ids[i]);
    }
    if (!to->data)
        gt_buf_add(to, "", 0);
}

static void on_allocated(void *arg, const struct gt_allocation *allocation)
{
    struct gt_agent *agent = arg;
    gt_podresources_soon(agent->podresources);
    gt_auto_buf struct gt_buf ids = GT_BUF(IDS_LOGGED);
    add_ids(&ids, allocation->ids, allocation->count);
    if (allocation->error)
        gt_warning("allocation refused", GT_STR("why", allocation->error), GT_INT("gpus", allocation->count),
                   GT_STR("ids", ids.data));
    else
        gt_info("allocated", GT_INT("gpus", allocation->count), GT_STR("ids", ids.data));
}

static void on_preferred(void *arg, const char *const *ids, unsigned count, const struct gt_choice *choice)
{
    (void)arg;
    gt_auto_buf struct gt_buf list = GT_BUF(IDS_LOGGED);
    add_ids(&list, ids, count);
    if (choice && choice->mask)
        gt_info("preferred", GT_INT("gpus", count), GT_INT("score", choice->score),
                GT_INT("loss", choice->loss), GT_BOOL("exact", choice->exact), GT_STR("ids", list.data));
    else
        gt_info("preferred", GT_INT("gpus", count), GT_STR("ids", list.data));
}

struct gt_plugin_events gt_agent_plugin_events(struct gt_agent *agent)
{
    return (struct gt_plugin_events){
        .registered = on_registered,
        .registration_failed = on_registration_failed,
        .stream_ended = on_stream_ended,
        .allocated = on_allocated,
        .preferred = on_preferred,
        .arg = agent,
    };
}
