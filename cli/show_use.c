/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/show_use.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/json.h"
#include "base/time_text.h"
#include "cli/http_get.h"
#include "cli/near.h"

#define AGENT_DEFAULT "127.0.0.1:9400"

enum { USE_ANSWER_MAX = 1 << 20, QUICK_MS = 500, PATIENT_MS = 5000, USE_NOTES_MAX = 64 << 10 };

/* ---- the agent ---- */

int cli_show_query_agent(const char *address, const struct gt_node *node, struct cli_use *ret,
                         struct gt_err **err)
{
    *ret = (struct cli_use){0};
    if (address && strcmp(address, "none") == 0)
        return 0;
    const char *where = address ? address : AGENT_DEFAULT;
    gt_auto_err struct gt_err *own = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(USE_ANSWER_MAX);
    cJSON *json = NULL;
    int r = cli_http_get(where, "/usage", address ? PATIENT_MS : QUICK_MS, &text, &own);
    if (r >= 0)
        r = gt_json_parse(text.data ? text.data : "", text.len, where, &json, &own);
    if (r >= 0)
        r = cli_use_from_agent(json, where, node, ret, &own);
    cJSON_Delete(json);
    if (r >= 0 || !address)
        return 0;
    return gt_fail(err, -r, "--agent: %s", gt_err_text(own));
}

/* ---- the cluster ---- */

void cli_shown_done(struct cli_shown *shown)
{
    gt_node_unref_p(&shown->node);
    free(shown->notes);
    free(shown->problem);
}

static void on_name(void *arg, cJSON *object)
{
    cli_near_add(arg, gt_meta_name(object));
}

static int fail_unknown(struct cli_api *api, const char *name, struct gt_err **err)
{
    struct cli_near near;
    cli_near_init(&near, name);
    const struct cli_api_list list = {
        .resource = &gt_kube_node_gpu_topologies, .names_only = true, .on_object = on_name, .arg = &near};
    int r = cli_api_list(api, &list, err);
    if (r < 0)
        return r;
    gt_auto_buf struct gt_buf text = GT_BUF(1024);
    cli_near_text(&near, &text);
    return gt_fail(err, ENOENT, "there is no NodeGPUTopology of node '%.100s'; %s", name,
                   text.data ? text.data : "");
}

static char *notes_of(const struct gt_node_gpu_topology *topology)
{
    gt_auto_buf struct gt_buf text = GT_BUF(USE_NOTES_MAX);
    int64_t observed = gt_time_of_text(topology->observed_at);
    if (observed) {
        char age[GT_TIME_TEXT_SIZE];
        gt_buf_printf(&text, "Observed:  %s, %s ago\n", topology->observed_at,
                      gt_time_span_text((int64_t)time(NULL) - observed, age));
    }
    for (unsigned i = 0; i < GT_TOPOLOGY_CONDITIONS; i++) {
        const struct gt_condition *condition = &topology->conditions[i];
        if (!condition->reason[0] || condition->status == GT_CONDITION_TRUE)
            continue;
        gt_auto_err struct gt_err *line = NULL; /* its text is one line without control characters */
        gt_fail(&line, EINVAL, "%s: %s: %s", gt_topology_condition_names[i],
                gt_condition_status_name(condition->status), condition->message);
        gt_buf_printf(&text, "Condition: %s\n", gt_err_text(line));
    }
    return gt_buf_take(&text);
}

static int show_object(const cJSON *object, struct cli_shown *ret, struct gt_err **err)
{
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {0};
    gt_auto_err struct gt_err *problem = NULL;
    int r = cli_use_read_topology(object, &topology, &problem, err);
    if (r < 0)
        return r;
    if (!topology.node)
        return gt_fail(err, ENODATA,
                       GT_PLURAL_NODE_GPU_TOPOLOGY
                       "/%s: the agent of this node has not reported anything yet",
                       topology.name);
    struct cli_shown shown = {.node = gt_node_ref(topology.node), .notes = notes_of(&topology)};
    cli_use_from_topology(&topology, &shown.use);
    if (problem)
        shown.problem = strdup(gt_err_text(problem));
    *ret = shown;
    return 0;
}

int cli_show_cluster_node(const struct cli_api_options *options, const char *name, struct cli_shown *ret,
                          struct gt_err **err)
{
    cli_auto_api struct cli_api *api = NULL;
    cJSON *object = NULL;
    int r = cli_api_open(options, &api, err);
    if (r < 0)
        return r;
    r = cli_api_get(api, &gt_kube_node_gpu_topologies, name, &object, err);
    if (r == -ENOENT) {
        if (err)
            gt_err_free(gt_steal(*err));
        return fail_unknown(api, name, err);
    }
    if (r < 0)
        return r;
    r = show_object(object, ret, err);
    cJSON_Delete(object);
    return r;
}
