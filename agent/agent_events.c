/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "agent/agent_private.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/log.h"

enum { EVENTS_PAUSE_MS = 200, BETWEEN_MS = 1000 };

/* Several events often come together: the first one starts a pause, and one scan handles all of them. If
 * events keep coming, pauses get longer. */
static void wait_for_more(struct gt_agent *agent)
{
    if (agent->event_waits)
        return;
    agent->event_waits = true;
    bool storm = agent->event_scan_ms && gt_clock_ms() - agent->event_scan_ms < BETWEEN_MS;
    gt_source_arm(agent->event_timer, storm ? BETWEEN_MS : EVENTS_PAUSE_MS);
}

static void on_event_timer(void *arg)
{
    struct gt_agent *agent = arg;
    agent->event_waits = false;
    agent->event_scan_ms = gt_clock_ms();
    gt_scanner_request(agent->scanner, GT_SCAN_FULL);
}

static void on_hotplug(void *arg, uint32_t events)
{
    struct gt_agent *agent = arg;
    if (events & (POLLERR | POLLHUP) && !(events & POLLIN)) {
        gt_warning("hotplug events have ended, the slow rescan remains");
        gt_source_free(gt_steal(agent->hotplug_source));
        return;
    }
    unsigned count = gt_hotplug_drain(agent->hotplug, agent->options->vendor);
    if (!count)
        return;
    gt_debug("hotplug", GT_INT("events", count));
    wait_for_more(agent);
}

static void on_vendor_event(void *arg, uint32_t events)
{
    struct gt_agent *agent = arg;
    (void)events;
    /* The scan drains it; until then it would wake the loop again and again. */
    gt_source_free(gt_steal(agent->probe_source));
    agent->vendor_events++;
    gt_debug("vendor event");
    wait_for_more(agent);
}

void gt_agent_events_resume(struct gt_agent *agent)
{
    if (!agent->probe || agent->probe_source)
        return;
    int fd = gt_probe_client_event_fd(agent->probe);
    if (fd >= 0)
        gt_loop_add_fd(agent->loop, fd, POLLIN, on_vendor_event, agent, &agent->probe_source, NULL);
}

int gt_agent_events_start(struct gt_agent *agent, struct gt_err **err)
{
    gt_auto_err struct gt_err *no_hotplug = NULL;
    int r = gt_loop_add_timer(agent->loop, on_event_timer, agent, &agent->event_timer, err);
    if (r < 0 || agent->options->from)
        return r;
    r = gt_hotplug_new(&agent->hotplug, &no_hotplug);
    if (r >= 0)
        r = gt_loop_add_fd(agent->loop, gt_hotplug_fd(agent->hotplug), POLLIN, on_hotplug, agent,
                           &agent->hotplug_source, &no_hotplug);
    if (r < 0)
        gt_warning("no hotplug events, the slow rescan remains", GT_STR("why", gt_err_text(no_hotplug)));
    return 0;
}

void gt_agent_events_stop(struct gt_agent *agent)
{
    gt_source_free(gt_steal(agent->hotplug_source));
    gt_source_free(gt_steal(agent->probe_source));
    gt_source_free(gt_steal(agent->event_timer));
    gt_hotplug_free(gt_steal(agent->hotplug));
}

/* Events about the Node, for people: `kubectl describe node`. */

enum { NODE_NOTE_MAX = 1024, NODE_EVENTS_PER_MINUTE = 60 };

int gt_agent_recorder_start(struct gt_agent *agent, struct gt_err **err)
{
    return gt_kube_recorder_new(agent->kube, GT_DOMAIN "/" GT_AGENT_NAME, agent->options->node_name,
                                NODE_EVENTS_PER_MINUTE, &agent->recorder, err);
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
