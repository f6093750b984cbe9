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

/* A node of the cluster, from its NodeGPUTopology. */
struct cli_shown {
    struct gt_node *node;
    struct cli_use use;
    char *notes;   /* lines: when it was observed, and conditions that report a problem */
    char *problem; /* what is invalid in its report of use; NULL: nothing */
};

#define AGENT_DEFAULT "127.0.0.1:9400"

enum { USE_ANSWER_MAX = 1 << 20, QUICK_MS = 500, PATIENT_MS = 5000, USE_NOTES_MAX = 64 << 10 };

/* ---- the agent ---- */

/*
 * Asks the agent of this machine. `address` NULL: its default address, and no error where nobody answers
 * there or the answer is about another node; "none": asks nobody. Otherwise use is not known.
 */
static int cli_show_query_agent(const char *address, const struct gt_node *node, struct cli_use *ret,
                                struct gt_err **err)
{
    *ret = (struct cli_use){0};
    if (address && strcmp(address, "none") == 0)
        return 0;
    const char *where = address ? address : AGENT_DEFAULT;
    gt_auto_err struct gt_err *own = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(USE_ANSWER_MAX);
    gt_auto_json cJSON *json = NULL;
    int r = cli_http_get(where, "/usage", address ? PATIENT_MS : QUICK_MS, &text, &own);
    if (r >= 0)
        r = gt_json_parse(text.data ? text.data : "", text.len, where, &json, &own);
    if (r >= 0)
        r = cli_use_from_agent(json, where, node, ret, &own);
    if (r >= 0 || !address)
        return 0;
    return gt_fail(err, -r, "--agent: %s", gt_err_text(own));
}

/* ---- the cluster ---- */

static void cli_shown_done(struct cli_shown *shown)
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

static int show_object(const cJSON *object, struct cli_shown *ret, struct gt_err **err)
{
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {0};
    gt_auto_err struct gt_err *problem = NULL;
    GT_TRY(cli_use_read_topology(object, &topology, &problem, err));
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

int cli_api_get_topology(struct cli_api *api, const char *node, cJSON **ret, struct gt_err **err)
{
    int r = cli_api_get(api, &gt_kube_node_gpu_topologies, node, ret, err);
    if (r != -ENOENT)
        return r;
    if (err)
        gt_err_free(gt_steal(*err));
    return fail_unknown(api, node, err);
}

static int cli_show_cluster_node(const struct cli_api_options *options, const char *name,
                                 struct cli_shown *ret, struct gt_err **err)
{
    cli_auto_api struct cli_api *api = NULL;
    gt_auto_json cJSON *object = NULL;
    GT_TRY(cli_api_open(options, &api, err));
    GT_TRY(cli_api_get_topology(api, name, &object, err));
    return show_object(object, ret, err);
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

static void render_json(const struct gt_node *node, const struct cli_use *use, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    gt_json_begin(&text, NULL, '{');
    gt_node_add_json(node, node->name, &text);
    cli_use_add_json(use, &text);
    gt_json_end(&text, '}');
    gt_json_indent(&text, to);
}

static int show_print(struct cli_call *call, const struct gt_node *node, const struct cli_use *use,
                      const char *notes)
{
    const struct show_options *options = call->options;
    struct gt_buf *text = call->text;
    if (options->parse.format == CLI_JSON || options->parse.format == CLI_YAML)
        render_json(node, use, text);
    else if (options->parse.format == CLI_TEXT)
        gt_render_matrix(node, text);
    else if (options->parse.format == SHOW_DOT)
        gt_render_dot(node, text);
    else
        gt_render_svg(node, text);
    if (options->parse.format == CLI_TEXT && (use->known || notes)) {
        gt_buf_puts(text, "\n");
        cli_use_text(use, text);
        gt_buf_puts(text, notes ? notes : "");
    }
    return 0;
}

static int show_cluster_node(struct cli_call *call, const struct show_options *options)
{
    __attribute__((cleanup(cli_shown_done))) struct cli_shown shown = {0};
    GT_TRY(cli_show_cluster_node(&options->api, options->node, &shown, call->err));
    if (shown.problem)
        cli_warn(call->verb->name, shown.problem);
    return show_print(call, shown.node, &shown.use, shown.notes);
}

static int show_machine(struct cli_call *call, const struct show_options *options)
{
    gt_auto_node struct gt_node *node = NULL;
    GT_TRY(cli_source_scan(call, &options->source, &node, NULL));
    if (node->gpu_count == 0 && options->parse.format == CLI_TEXT) {
        gt_auto_err struct gt_err *none = NULL;
        cli_source_no_gpus(&options->source, node, &none); /* in place of a matrix without rows */
        gt_buf_printf(call->text, "%s\n", gt_err_text(none));
        return 0;
    }
    struct cli_use use = {0};
    bool is_recorded = options->source.from || (options->source.root && !options->agent);
    if (!is_recorded && node->gpu_count)
        GT_TRY(cli_show_query_agent(options->agent, node, &use, call->err));
    return show_print(call, node, &use, NULL);
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
