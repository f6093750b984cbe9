/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/time_text.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/use.h"
#include "topology/model/node_json.h"
#include "topology/model/render.h"

/* The sources from which `gputopo show` reads who uses a node's GPUs. */

/* A node with who uses it. */
struct cli_shown {
    cJSON *json; /* that `of` borrows its texts from */
    struct gt_node_gpu_topology of;
    char *notes; /* lines: when it was observed, and conditions that report a problem; NULL: none */
};

#define AGENT_DEFAULT "127.0.0.1:9400"

enum { USE_ANSWER_MAX = 1 << 20, QUICK_MS = 500, PATIENT_MS = 5000, USE_NOTES_MAX = 64 << 10 };

/* ---- the agent ---- */

/*
 * Asks the agent of this machine. `address` NULL: its default address, and no error where nobody answers
 * there or the answer is about another node; "none": asks nobody. Otherwise use is not known.
 */
static int cli_show_query_agent(const char *address, struct cli_shown *to, struct gt_err **err)
{
    if (address && strcmp(address, "none") == 0)
        return 0;
    const char *where = address ? address : AGENT_DEFAULT;
    gt_auto_err struct gt_err *own = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(USE_ANSWER_MAX);
    int r = cli_http_get(where, "/usage", address ? PATIENT_MS : QUICK_MS, &text, &own);
    if (r >= 0)
        r = gt_json_parse(text.data ? text.data : "", text.len, where, &to->json, &own);
    if (r >= 0)
        r = cli_use_from_agent(to->json, where, &to->of, &own);
    if (r >= 0 || !address)
        return 0;
    return gt_fail(err, -r, "--agent: %s", gt_err_text(own));
}

/* ---- the cluster ---- */

static void cli_shown_done(struct cli_shown *shown)
{
    gt_node_gpu_topology_done(&shown->of);
    cJSON_Delete(shown->json);
    free(shown->notes);
}
#define show_auto __attribute__((cleanup(cli_shown_done)))

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
    GT_TRY(cli_api_list(api, &list, err));
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

int cli_api_get_topology(struct cli_api *api, const char *node, cJSON **ret, struct gt_err **err)
{
    int r = cli_api_get(api, &gt_kube_node_gpu_topologies, node, ret, err);
    if (r != -ENOENT)
        return r;
    if (err)
        gt_err_free(gt_steal(*err));
    return fail_unknown(api, node, err);
}

enum { SHOW_DOT = CLI_FORMATS };
static const char *const formats[] = {CLI_FORMAT_WORDS, "dot", "svg", NULL};

struct show_options {
    struct cli_parse parse;
    struct cli_source source;
    struct cli_api_options api;
    const char *node, *agent; /* NULL: not given */
};

static const struct gt_option own_options[] = {
    CLI_OWN_FORMAT_OPTION("text (default), json, yaml, dot or svg", formats),
    {"node", "NAME", "a node of the cluster as its NodeGPUTopology describes it, instead of this machine",
     gt_option_text, GT_OPTION_FIELD(struct show_options, node)},
    {"agent", "ADDRESS:PORT|none",
     "ask this agent who uses the GPUs (default: 127.0.0.1:9400, if one answers there)", gt_option_any_text,
     GT_OPTION_FIELD(struct show_options, agent)},
    CLI_SOURCE_OPTIONS(struct show_options),
    CLI_API_OPTIONS(struct show_options),
    CLI_HELP_OPTION,
};

static void render_json(const struct gt_node_gpu_topology *topology, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    gt_json_begin(&text, NULL, '{');
    gt_node_add_json(topology->node, topology->node->name, &text);
    cli_use_add_json(topology, &text);
    gt_json_end(&text, '}');
    gt_json_indent(&text, to);
}

static int show_print(struct cli_call *call, const struct cli_shown *shown)
{
    const struct show_options *options = call->options;
    const struct gt_node *node = shown->of.node;
    struct gt_buf *text = call->text;
    if (options->parse.format == CLI_JSON || options->parse.format == CLI_YAML)
        render_json(&shown->of, text);
    else if (options->parse.format == CLI_TEXT)
        gt_render_matrix(node, text);
    else if (options->parse.format == SHOW_DOT)
        gt_render_dot(node, text);
    else
        gt_render_svg(node, text);
    if (options->parse.format == CLI_TEXT && (shown->of.use_known || shown->notes)) {
        gt_buf_puts(text, "\n");
        cli_use_text(&shown->of, text);
        gt_buf_puts(text, shown->notes ? shown->notes : "");
    }
    return 0;
}

static int show_cluster_node(struct cli_call *call, const struct show_options *options)
{
    cli_auto_api struct cli_api *api = NULL;
    show_auto struct cli_shown shown = {0};
    gt_auto_err struct gt_err *problem = NULL;
    GT_TRY(cli_api_open(&options->api, &api, call->err));
    GT_TRY(cli_api_get_topology(api, options->node, &shown.json, call->err));
    GT_TRY(cli_use_read_topology(shown.json, &shown.of, &problem, call->err));
    if (!shown.of.node)
        return gt_fail(call->err, ENODATA,
                       GT_PLURAL_NODE_GPU_TOPOLOGY
                       "/%s: the agent of this node has not reported anything yet",
                       shown.of.name);
    if (problem)
        cli_warn(call->verb->name, gt_err_text(problem));
    shown.notes = notes_of(&shown.of);
    return show_print(call, &shown);
}

static int show_machine(struct cli_call *call, const struct show_options *options)
{
    show_auto struct cli_shown shown = {0};
    GT_TRY(cli_source_scan(call, &options->source, &shown.of.node, NULL));
    const struct gt_node *node = shown.of.node;
    if (node->gpu_count == 0 && options->parse.format == CLI_TEXT) {
        gt_auto_err struct gt_err *none = NULL;
        cli_source_no_gpus(&options->source, node, &none); /* in place of a matrix without rows */
        gt_buf_printf(call->text, "%s\n", gt_err_text(none));
        return 0;
    }
    bool is_recorded = options->source.from || (options->source.root && !options->agent);
    if (!is_recorded && node->gpu_count)
        GT_TRY(cli_show_query_agent(options->agent, &shown, call->err));
    return show_print(call, &shown);
}

static int show_run(struct cli_call *call)
{
    const struct show_options *options = call->options;
    const struct cli_source *source = &options->source;
    const char *other = source->from     ? "--from"
                        : source->root   ? "--root"
                        : source->probe  ? "--probe"
                        : source->vendor ? "--vendor"
                        : options->agent ? "--agent"
                                         : NULL;
    const char *alone = options->api.kubeconfig ? "--kubeconfig" : options->api.context ? "--context" : NULL;
    if (options->node && other)
        return cli_misuse(call, "%s: not together with --node", other);
    if (!options->node && alone)
        return cli_misuse(call, "%s: only together with --node", alone);
    if (source->from && options->agent)
        return cli_misuse(call, "--agent: not together with --from");
    return (options->node ? show_cluster_node : show_machine)(call, options);
}

const struct cli_verb cli_show = {
    .name = "show",
    .about = "print the GPUs and NICs of a node and how they are wired",
    .command =
        {.about =
             "Print the GPUs and NICs of a node and how they are wired, on standard output; and which of "
             "them are free, where that is known.",
         .more = "Example: gputopo show --from node.json -o svg > node.svg",
         CLI_OPTIONS(own_options)},
    .options_size = sizeof(struct show_options),
    .run = show_run};
