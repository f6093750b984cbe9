/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent_private.h"
#include "api/names.h"

/* Events about the Node, for people: `kubectl describe node`. */

enum { NODE_NOTE_MAX = 1024, NODE_EVENTS_PER_MINUTE = 60 };

int gt_agent_recorder_start(struct gt_agent *agent, struct gt_err **err)
{
    return gt_kube_recorder_new(agent->kube, GT_DOMAIN "/" GT_AGENT_NAME, agent->options->node_name,
                                NODE_EVENTS_PER_MINUTE, &agent->recorder, err);
}

void gt_agent_recorder_stop(struct gt_agent *agent)
{
    gt_kube_recorder_free(gt_steal(agent->recorder));
}

void gt_agent_record_event(struct gt_agent *agent, bool warning, const char *reason, const char *format, ...)
{
    char note[NODE_NOTE_MAX];
    va_list args;
    if (!agent->recorder)
        return;
    va_start(args, format);
    vsnprintf(note, sizeof(note), format, args);
    va_end(args);
    const struct gt_event_object event = {
        .api_version = "v1",
        .kind = "Node",
        .name = agent->options->node_name,
        .uid = agent->options->node_name, /* as the kubelet does: kubectl looks for that */
        .warning = warning,
        .reason = reason,
        .action = "Observe",
        .note = note,
    };
    gt_kube_record(agent->recorder, &event);
}

bool gt_agent_recorder_stats(const struct gt_agent *agent, struct gt_kube_recorder_counters *ret)
{
    if (!agent->recorder)
        return false;
    gt_kube_recorder_counters(agent->recorder, ret);
    return true;
}
