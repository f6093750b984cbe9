/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/agent_private.h"
#include "base/log.h"

static void nodes_on_registered(void *arg)
{
    struct gt_agent *agent = arg;
    agent->nodes_error[0] = '\0';
    gt_info("registered for the probe", GT_STR("resource", agent->options->probe_resource));
}

static void nodes_on_registration_failed(void *arg, const char *why, unsigned retry_ms)
{
    struct gt_agent *agent = arg;
    bool again = strncmp(agent->nodes_error, why, sizeof(agent->nodes_error) - 1) == 0;
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "registration for the probe failed",
           GT_STR("resource", agent->options->probe_resource), GT_STR("why", why),
           GT_INT("retry_ms", retry_ms));
    snprintf(agent->nodes_error, sizeof(agent->nodes_error), "%s", why);
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
