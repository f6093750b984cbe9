/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/agent_private.h"
#include "base/log.h"

enum { IDS_LOGGED = 4096 };

static void agent_plugin_on_registered(void *arg)
{
    struct gt_agent *agent = arg;
    if (agent->reported_unregistered)
        gt_agent_record_event(agent, false, "PluginRegistered",
                              "the kubelet has registered the device plugin of %s", agent->options->resource);
    agent->reported_unregistered = false;
    agent->registration_error[0] = '\0';
    gt_info("registered", GT_STR("resource", agent->options->resource),
            GT_INT("gpus", agent->inventory ? agent->inventory->device_count : 0));
    gt_podresources_soon(agent->podresources);
    gt_agent_publish_changed(agent->publish);
}

static void agent_on_registration_failed(void *arg, const char *why, unsigned retry_ms)
{
    struct gt_agent *agent = arg;
    /* Without a kubelet the back-off may last for days: the same reason is logged once. */
    bool again = strncmp(agent->registration_error, why, sizeof(agent->registration_error) - 1) == 0;
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "registration failed", GT_STR("why", why),
           GT_INT("retry_ms", retry_ms));
    /* One failure is usual while a kubelet starts; the second in a row becomes an Event. */
    if (agent->registration_error[0] && !agent->reported_unregistered) {
        gt_agent_record_event(
            agent, true, "PluginNotRegistered",
            "the kubelet does not register the device plugin of %s, so that no new pod gets GPUs: %.500s",
            agent->options->resource, why);
        agent->reported_unregistered = true;
    }
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

static void agent_plugin_add_ids(struct gt_buf *to, const char *const *ids, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        gt_buf_puts(to, i ? "," : "");
        gt_buf_puts(to, ids[i]);
    }
    if (!to->data)
        gt_buf_add(to, "", 0);
}

static void agent_plugin_on_allocated(void *arg, const struct gt_allocation *allocation)
{
    struct gt_agent *agent = arg;
    gt_podresources_soon(agent->podresources);
    gt_agent_score(agent, allocation);
    gt_auto_buf struct gt_buf ids = GT_BUF(IDS_LOGGED);
    agent_plugin_add_ids(&ids, allocation->ids, allocation->count);
    if (allocation->error)
        gt_warning("allocation refused", GT_STR("why", allocation->error), GT_INT("gpus", allocation->count),
                   GT_STR("ids", ids.data));
    else
        gt_info("allocated", GT_INT("gpus", allocation->count), GT_STR("ids", ids.data));
}

static void agent_plugin_on_preferred(void *arg, const struct gt_preference *preference)
{
    const struct gt_choice *choice = &preference->choice;
    unsigned count = preference->count;
    struct gt_agent *agent = arg;
    agent->offered = preference->offered;
    gt_auto_buf struct gt_buf list = GT_BUF(IDS_LOGGED);
    agent_plugin_add_ids(&list, preference->ids, count);
    if (preference->plan == GT_PLAN_HIT)
        gt_info("preferred as planned", GT_INT("gpus", count), GT_STR("namespace", preference->namespace),
                GT_STR("pod", preference->pod), GT_STR("container", preference->container),
                GT_STR("ids", list.data));
    else if (choice->mask)
        gt_info("preferred", GT_INT("gpus", count), GT_INT("score", choice->score),
                GT_INT("loss", choice->loss), GT_BOOL("exact", choice->exact), GT_STR("ids", list.data),
                GT_STR("plan", gt_plan_result_name(preference->plan)));
    else
        gt_info("preferred", GT_INT("gpus", count), GT_STR("ids", list.data),
                GT_STR("plan", gt_plan_result_name(preference->plan)));
}

struct gt_plugin_events gt_agent_plugin_events(struct gt_agent *agent)
{
    return (struct gt_plugin_events){
        .registered = agent_plugin_on_registered,
        .registration_failed = agent_on_registration_failed,
        .stream_ended = on_stream_ended,
        .allocated = agent_plugin_on_allocated,
        .preferred = agent_plugin_on_preferred,
        .arg = agent,
    };
}
