/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "agent/agent_private.h"
#include "agent/kubelet_config.h"
#include "api/meta.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"

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
    if (gt_kube_start_raw(agent->kube, path, GT_KUBE_ACCEPT, GT_KUBE_FOREVER, GT_KUBE_TRY_MS, CONFIGZ_MAX,
                          NULL, on_configz, agent, &agent->configz_call, &err) < 0)
        gt_warning("the kubelet's configz is not asked", GT_STR("why", gt_err_text(err)));
}
