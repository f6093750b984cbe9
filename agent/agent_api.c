/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "agent/agent_private.h"
#include "agent/kubelet_config.h"
#include "api/meta.h"
#include "api/names.h"
#include "base/backoff.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/config.h"

/* The kubelet's configuration as it runs with it, by the API server (--kubelet-configz): with its flags and
 * its drop-in directory. */

static const char source[] = "configz";
enum { CONFIGZ_MAX = 1 << 20 };

static void on_configz(void *arg, struct gt_kube_answer *answer, const char *body, size_t body_len)
{
    struct gt_agent *agent = arg;
    struct gt_kubelet kubelet = {.policy = ""};
    agent->configz_call = NULL;
    if (answer->error) {
        snprintf(kubelet.unknown, sizeof(kubelet.unknown), "%s: %.200s", source, gt_err_text(answer->error));
        gt_text_make_printable(kubelet.unknown);
    } else
        gt_kubelet_config_parse(body, body_len, source, true, &kubelet);
    if (!agent->scanner || !gt_scanner_kubelet(agent->scanner, &kubelet))
        return;
    if (kubelet.unknown[0])
        gt_warning("the kubelet's configuration is not known from its configz",
                   GT_STR("why", kubelet.unknown));
    gt_scanner_request(agent->scanner, GT_SCAN_FULL);
}

void gt_agent_configz_ask(struct gt_agent *agent)
{
    gt_auto_err struct gt_err *err = NULL;
    char path[GT_API_NAME_MAX + 64];
    if (!agent->kube || !agent->options->kubelet_configz || agent->configz_call)
        return;
    snprintf(path, sizeof(path), "/api/v1/nodes/%s/proxy/configz", agent->options->node_name);
    const struct gt_kube_get get = {.path = path,
                                    .accept = GT_KUBE_ACCEPT,
                                    .deadline_ms = GT_KUBE_FOREVER,
                                    .try_ms = GT_KUBE_TRY_MS,
                                    .response_max = CONFIGZ_MAX,
                                    .done = on_configz,
                                    .arg = agent};
    if (gt_kube_start_raw(agent->kube, &get, &agent->configz_call, &err) < 0)
        gt_warning("the kubelet's configz is not asked", GT_STR("why", gt_err_text(err)));
}

/* The connection to the API server, and all that needs it. The agent works without it, and tries to find it
 * now and then, since a file or a library may appear later. */

enum { RETRY_FIRST_MS = 5000, RETRY_MAX_MS = 60000 };

static const char switched_off[] = "switched off (--publish=none or --no-publish)";

static bool agent_api_is_pod(void)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    return host && *host;
}

static bool honours_plans(const struct gt_agent_options *options)
{
    return options->device_plugin && options->honour_plan && options->advertise == GT_ADVERTISE_PLUGIN;
}

/* Whether an API server is wanted, else why not. */
static bool is_wanted(const struct gt_agent_options *options, const char **why_not)
{
    if (!options->publish && !honours_plans(options))
        *why_not = switched_off;
    else if (!options->kubeconfig && !agent_api_is_pod())
        *why_not = "not in a pod, and there is no --kubeconfig";
    else
        return true;
    return false;
}

static int agent_api_read_config(const struct gt_agent_options *options, struct gt_kube_config *config,
                                 struct gt_err **err)
{
    return options->kubeconfig ? gt_kube_config_file(options->kubeconfig, NULL, config, err)
                               : gt_kube_config_pod(NULL, config, err);
}

static void agent_api_disconnect(struct gt_agent *agent)
{
    gt_kube_cancel(gt_steal(agent->configz_call));
    gt_agent_shares_stop(agent);
    gt_kube_informer_free(gt_steal(agent->own_object));
    gt_agent_publish_stop(gt_steal(agent->publish));
    gt_agent_plans_stop(agent);
    gt_agent_dra_api_stop(agent);
    gt_kube_recorder_free(gt_steal(agent->recorder));
    gt_kube_free(gt_steal(agent->kube));
}

static int agent_api_connect_to(struct gt_agent *agent, struct gt_err **err)
{
    gt_auto_kube_config struct gt_kube_config config = {0};
    int r = agent_api_read_config(agent->options, &config, err);
    if (r >= 0)
        r = gt_kube_new(agent->loop, &config, GT_AGENT_NAME, &agent->kube, err);
    if (r >= 0)
        gt_kube_on_oversize(agent->kube, gt_kube_log_oversize, NULL);
    if (r >= 0)
        r = gt_agent_recorder_start(agent, err);
    if (r >= 0 && honours_plans(agent->options))
        r = gt_agent_plans_start(agent, err);
    if (r >= 0)
        r = gt_agent_dra_api_start(agent, err);
    if (r >= 0)
        r = gt_agent_shares_start(agent, err);
    if (r >= 0 && agent->options->publish)
        r = gt_agent_publish_start(agent, &agent->publish, err);
    if (r >= 0 && agent->options->publish == GT_PUBLISH_ALL)
        r = gt_agent_isolation_follow(agent, err);
    if (r < 0)
        agent_api_disconnect(agent);
    gt_agent_configz_ask(agent);
    return r;
}

static void try_later(struct gt_agent *agent, const struct gt_err *err)
{
    struct gt_jitter jitter;
    gt_jitter_seed(&jitter);
    snprintf(agent->no_api_why, sizeof(agent->no_api_why), "%s", gt_err_text(err));
    gt_source_arm(agent->api_timer,
                  gt_backoff_pause(agent->api_failures++, RETRY_FIRST_MS, RETRY_MAX_MS, &jitter));
}

static void complain(struct gt_agent *agent, enum gt_log_level level)
{
    gt_log(level, "the API server cannot be used, going on without", GT_STR("why", agent->no_api_why));
}

static void agent_api_on_timer(void *arg)
{
    struct gt_agent *agent = arg;
    gt_auto_err struct gt_err *err = NULL;
    if (agent_api_connect_to(agent, &err) >= 0) {
        gt_info("the API server can be used now", GT_BOOL("publish", agent->publish != NULL));
        agent->no_api_why[0] = '\0';
        gt_agent_publish_changed(agent->publish);
        return;
    }
    bool again = strncmp(agent->no_api_why, gt_err_text(err), sizeof(agent->no_api_why) - 1) == 0;
    try_later(agent, err);
    complain(agent, again ? GT_LOG_DEBUG : GT_LOG_WARNING);
}

int gt_agent_api_start(struct gt_agent *agent, struct gt_err **err)
{
    gt_auto_err struct gt_err *why = NULL;
    const char *why_not = NULL;
    if (!is_wanted(agent->options, &why_not)) {
        snprintf(agent->no_api_why, sizeof(agent->no_api_why), "%s", why_not);
        return 0;
    }
    GT_TRY(gt_loop_add_timer(agent->loop, agent_api_on_timer, agent, &agent->api_timer, err));
    if (agent_api_connect_to(agent, &why) < 0)
        try_later(agent, why);
    return 0;
}

const char *gt_agent_api_state(const struct gt_agent *agent)
{
    if (agent->publish)
        return "yes";
    return agent->options->publish ? agent->no_api_why : switched_off;
}

void gt_agent_api_complain(struct gt_agent *agent)
{
    if (agent->api_failures && !agent->kube)
        complain(agent, GT_LOG_WARNING);
}

void gt_agent_api_stop(struct gt_agent *agent)
{
    agent_api_disconnect(agent);
    gt_source_free(gt_steal(agent->api_timer));
}
