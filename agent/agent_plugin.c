/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/agent_private.h"
#include "base/bits.h"
#include "base/log.h"

/*
 * The GPUs that were free: those that the kubelet has offered for this container, else those that were free
 * in its last list, without those given away since. An offer may have fewer than are free (NUMA), a list may
 * be seconds old.
 */
/* Compares the score of the GPUs that containers get with the best among the free ones. */
static void gt_agent_score(struct gt_agent *agent, const struct gt_allocation *allocation)
{
    const struct gt_inventory *inventory = agent->inventory;
    const struct gt_usage *usage = gt_usage_now(agent->usage);
    struct gt_choice best;
    uint64_t offered = agent->offered;
    agent->offered = 0;
    if (allocation->error || !inventory)
        return;
    uint64_t got = allocation->gpus;
    agent->unlisted |= got;
    if (!inventory->class)
        return;
    bool is_offer = got && !(got & ~offered);
    if (is_offer || usage->known) {
        uint64_t free = got | (is_offer ? offered : 0) | (usage->known ? usage->free & ~agent->given : 0);
        if (gt_choose(inventory->class, free, 0, gt_bit_count(got), 0, &best)) {
            uint32_t score = gt_class_sum(inventory->class, got);
            agent->scores.given += score;
            agent->scores.best += best.score > score ? best.score : score; /* a search may end early */
        }
    }
    agent->given |= got;
}

static void nodes_on_registered(void *arg)
{
    struct gt_agent *agent = arg;
    agent->nodes_error[0] = '\0';
    gt_info("registered for the probe", GT_STR("resource", agent->options->probe_resource));
}

static void nodes_on_registration_failed(void *arg, const char *why, unsigned retry_ms)
{
    struct gt_agent *agent = arg;
    gt_log(gt_log_level_of(agent->nodes_error, sizeof(agent->nodes_error), why),
           "registration for the probe failed", GT_STR("resource", agent->options->probe_resource),
           GT_STR("why", why), GT_INT("retry_ms", retry_ms));
}

static void nodes_on_allocated(void *arg, unsigned nodes, const char *error)
{
    const struct gt_agent *agent = arg;
    if (error)
        gt_warning("device nodes refused", GT_STR("resource", agent->options->probe_resource),
                   GT_STR("why", error));
    else
        gt_info("device nodes given", GT_STR("resource", agent->options->probe_resource),
                GT_INT("nodes", nodes));
}

int gt_agent_nodes_start(struct gt_agent *agent, struct gt_err **err)
{
    const struct gt_agent_options *options = agent->options;
    const struct gt_nodes_plugin_options plugin = {
        .resource = options->probe_resource,
        .kubelet_dir = options->kubelet_dir,
        .dev_root = options->dev_root,
    };
    const struct gt_nodes_plugin_events events = {nodes_on_registered, nodes_on_registration_failed,
                                                  nodes_on_allocated, agent};
    if (!options->probe_resource || options->from)
        return 0;
    return gt_nodes_plugin_new(agent->loop, &plugin, &events, &agent->nodes_plugin, err);
}

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
    bool second = agent->registration_error[0];
    gt_log(gt_log_level_of(agent->registration_error, sizeof(agent->registration_error), why),
           "registration failed", GT_STR("why", why), GT_INT("retry_ms", retry_ms));
    /* One failure is usual while a kubelet starts; the second in a row becomes an Event. */
    if (second && !agent->reported_unregistered) {
        gt_agent_record_event(
            agent, true, "PluginNotRegistered",
            "the kubelet does not register the device plugin of %s, so that no new pod gets GPUs: %.500s",
            agent->options->resource, why);
        agent->reported_unregistered = true;
    }
    gt_agent_publish_changed(agent->publish);
}

static void on_stream_ended(void *arg)
{
    struct gt_agent *agent = arg;
    gt_info("the kubelet ended the list of devices, registering again");
    gt_podresources_restarted(agent->podresources);
    gt_agent_publish_changed(agent->publish);
}

static void agent_plugin_on_allocated(void *arg, const struct gt_allocation *allocation)
{
    struct gt_agent *agent = arg;
    gt_podresources_soon(agent->podresources);
    gt_agent_score(agent, allocation);
    if (allocation->error)
        gt_warning("allocation refused", GT_STR("why", allocation->error), GT_INT("gpus", allocation->count),
                   GT_STR("ids", allocation->ids));
    else
        gt_info("allocated", GT_INT("gpus", allocation->count), GT_STR("ids", allocation->ids));
}

static void agent_plugin_on_preferred(void *arg, const struct gt_preference *preference)
{
    const struct gt_choice *choice = &preference->choice;
    unsigned count = preference->count;
    struct gt_agent *agent = arg;
    agent->offered = preference->offered;
    if (preference->plan == GT_PLAN_HIT)
        gt_info("preferred as planned", GT_INT("gpus", count), GT_STR("namespace", preference->namespace),
                GT_STR("pod", preference->pod), GT_STR("container", preference->container),
                GT_STR("ids", preference->ids));
    else if (choice->mask)
        gt_info("preferred", GT_INT("gpus", count), GT_INT("score", choice->score),
                GT_INT("loss", choice->loss), GT_BOOL("exact", choice->exact), GT_STR("ids", preference->ids),
                GT_STR("plan", gt_plan_result_name(preference->plan)));
    else
        gt_info("preferred", GT_INT("gpus", count), GT_STR("ids", preference->ids),
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
