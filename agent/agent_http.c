/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "agent/agent_private.h"
#include "agent/status.h"
#include "base/prometheus.h"
#include "http/http.h"

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

/* Of all that serves the kubelet. */
static double handler_busy_s(const struct gt_agent *agent)
{
    uint64_t gpus = agent->plugin ? gt_plugin_busy_ms(agent->plugin) : 0,
             nodes = agent->nodes_plugin ? gt_nodes_plugin_busy_ms(agent->nodes_plugin) : 0,
             claims = agent->dra ? gt_dra_busy_ms(agent->dra) : 0, most = gpus > nodes ? gpus : nodes;
    return (double)(most > claims ? most : claims) / 1000;
}

static struct gt_status agent_http_status_of(struct gt_agent *agent, char (*socket)[PATH_MAX])
{
    struct gt_status status = {
        .inventory = agent->inventory,
        .scan_busy_s = agent->scanner ? gt_scanner_busy(agent->scanner) : 0,
        .handler_busy_s = handler_busy_s(agent),
        .has_plugin = agent->plugin != NULL,
        .registration_error = agent->registration_error[0] ? agent->registration_error : NULL,
    };
    if (agent->plugin) {
        struct gt_plugin_stats stats;
        gt_plugin_stats(agent->plugin, &stats);
        status.registered = stats.registration.registered;
        status.streaming = stats.registration.streaming;
        snprintf(*socket, sizeof(*socket), "%s/device-plugins/kubelet.sock", agent->options->kubelet_dir);
        status.kubelet_socket = access(*socket, F_OK) < 0 ? *socket : NULL;
    }
    if (agent->dra_offers) {
        struct gt_dra_stats stats;
        gt_dra_stats(agent->dra, &stats);
        status.has_plugin = true;
        status.registered = status.streaming = stats.registered;
        status.registration_error = agent->dra_error[0] ? agent->dra_error : NULL;
    }
    return status;
}

static void agent_http_serve_metrics(struct gt_agent *agent, struct gt_http_response *response)
{
    struct gt_metrics metrics = {
        .inventory = agent->inventory,
        .scans = agent->scans,
        .scores = agent->scores,
        .health = agent->health_counts,
        .has_plugin = agent->plugin != NULL,
        .honours_plans = agent->plugin && agent->options->honour_plan,
        .api.wanted = agent->api_timer != NULL,
        .api.used = agent->kube != NULL,
        .has_probe = agent->probe != NULL,
        .has_nodes_plugin = agent->nodes_plugin != NULL,
        .nodes_registered = agent->nodes_plugin && gt_nodes_plugin_registered(agent->nodes_plugin),
        .vendor_events = agent->vendor_events,
        .usage = gt_usage_now(agent->usage),
    };
    gt_podresources_stats(agent->podresources, &metrics.lists);
    struct gt_plan_counts plans;
    if (gt_agent_plans_stats(agent, &plans, &metrics.plans_current))
        metrics.plans = &plans;
    struct gt_kube_recorder_counters events;
    if (agent->recorder) {
        gt_kube_recorder_counters(agent->recorder, &events);
        metrics.api.events = &events;
    }
    struct gt_publish_stats publish;
    if (gt_agent_publish_stats(agent->publish, &publish, &metrics.api.client))
        metrics.api.publish = &publish;
    if (agent->plugin)
        gt_plugin_stats(agent->plugin, &metrics.plugin);
    metrics.has_cdi = agent->plugin && agent->options->strategy != GT_STRATEGY_DEVICES;
    if (metrics.has_cdi)
        gt_cdi_stats(agent->cdi, &metrics.cdi);
    struct gt_dra_stats dra;
    if (agent->dra) {
        gt_dra_stats(agent->dra, &dra);
        metrics.dra = &dra;
    }
    if (agent->probe)
        gt_probe_client_stats(agent->probe, &metrics.probe);
    response->content_type = GT_PROM_TYPE;
    gt_metrics_write(&metrics, &response->body);
    if (agent->kube)
        gt_writer_metrics(gt_kube_writer(agent->kube), &response->body);
    const struct gt_http_listener listeners[] = {{"http", agent->http}, {"health", agent->health}};
    gt_http_metrics(listeners, GT_COUNT(listeners), &response->body);
}

static void serve_status(struct gt_agent *agent, bool (*is_well)(const struct gt_status *, struct gt_buf *),
                         struct gt_http_response *response)
{
    char socket[PATH_MAX];
    struct gt_status status = agent_http_status_of(agent, &socket);
    response->status = is_well(&status, &response->body) ? 200 : 503;
}

static void serve_usage(struct gt_agent *agent, struct gt_http_response *response)
{
    struct gt_podresources_stats stats;
    gt_podresources_stats(agent->podresources, &stats);
    response->content_type = "application/json";
    gt_usage_json(agent->usage, agent->options->node_name, stats.last_s, &response->body);
}

static bool agent_http_serve_health(struct gt_agent *agent, const char *path,
                                    struct gt_http_response *response)
{
    if (strcmp(path, "/healthz") == 0)
        serve_status(agent, gt_status_healthy, response);
    else if (strcmp(path, "/readyz") == 0)
        serve_status(agent, gt_status_ready, response);
    else
        return false;
    return true;
}

void gt_agent_serve_health(void *arg, const struct gt_http_request *request,
                           struct gt_http_response *response)
{
    if (agent_http_serve_health(arg, request->path, response))
        return;
    response->status = 404;
    gt_buf_puts(&response->body, "there are /healthz and /readyz\n");
}

void gt_agent_serve(void *arg, const struct gt_http_request *request, struct gt_http_response *response)
{
    struct gt_agent *agent = arg;
    const char *path = request->path;
    if (agent_http_serve_health(agent, path, response))
        return;
    if (strcmp(path, "/metrics") == 0)
        agent_http_serve_metrics(agent, response);
    else if (strcmp(path, "/usage") == 0)
        serve_usage(agent, response);
    else {
        response->status = 404;
        gt_buf_puts(&response->body, "there are /healthz, /readyz, /metrics and /usage\n");
    }
}
