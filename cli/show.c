/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>

#include "cli/cli.h"
#include "cli/show_use.h"
#include "topology/model/node_json.h"
#include "topology/model/render.h"

enum { SHOW_MATRIX, SHOW_JSON };
static const char *const formats[] = {"matrix", "json", "yaml", "dot", "svg", NULL};
static void (*const renderers[])(const struct gt_node *node, struct gt_buf *to) = {
    gt_render_matrix, gt_render_json, gt_render_yaml, gt_render_dot, gt_render_svg};

struct show_options {
    struct cli_parse parse;
    struct cli_source source;
    struct cli_api_options api;
    const char *node, *agent; /* NULL: not given */
    unsigned format;
};

static const struct gt_option own_options[] = {
    {"output", "FORMAT", "matrix (default), json, yaml, dot or svg", gt_option_word,
     GT_OPTION_FIELD(struct show_options, format), .words = formats, .letter = 'o'},
    {"node", "NAME", "a node of the cluster as its NodeGPUTopology describes it, instead of this machine",
     gt_option_text, GT_OPTION_FIELD(struct show_options, node)},
    {"agent", "ADDRESS:PORT|none",
     "ask this agent who uses the GPUs (default: 127.0.0.1:9400, if one answers there)", gt_option_any_text,
     GT_OPTION_FIELD(struct show_options, agent)},
    CLI_SOURCE_OPTIONS(struct show_options),
    CLI_API_OPTIONS(struct show_options),
    CLI_HELP_OPTION,
};

static const struct gt_command command = {
    .about =
        "Print the GPUs and NICs of a node and how they are wired, on standard output; and which of them "
        "are free, where that is known.",
    .options = own_options,
    .count = GT_COUNT(own_options),
};

static bool show_check(const struct show_options *options)
{
    const struct cli_source *source = &options->source;
    const char *other = source->from     ? "--from"
                        : source->root   ? "--root"
                        : source->probe  ? "--probe"
                        : source->vendor ? "--vendor"
                        : options->agent ? "--agent"
                                         : NULL;
    const char *alone = options->api.kubeconfig ? "--kubeconfig" : options->api.context ? "--context" : NULL;
    if (options->node && other) {
        cli_usage(options->parse.verb, "%s: not together with --node", other);
        return false;
    }
    if (!options->node && alone) {
        cli_usage(options->parse.verb, "%s: only together with --node", alone);
        return false;
    }
    if (source->from && options->agent) {
        cli_usage(options->parse.verb, "--agent: not together with --from");
        return false;
    }
    return cli_source_check(source);
}

static void render_json(const struct gt_node *node, const struct cli_use *use, struct gt_buf *to)
{
    cJSON *json = gt_node_to_json(node);
    if (json && cli_use_add_json(use, json))
        gt_json_print(json, to);
    else
        to->failed = true;
    cJSON_Delete(json);
}

static int show_print(const struct show_options *options, const struct gt_node *node,
                      const struct cli_use *use, const char *notes)
{
    const char *verb = options->parse.verb;
    gt_auto_buf struct gt_buf text = GT_BUF(CLI_OUTPUT_MAX);
    if (options->format == SHOW_JSON)
        render_json(node, use, &text);
    else
        renderers[options->format](node, &text);
    if (options->format == SHOW_MATRIX && (use->known || notes)) {
        gt_buf_puts(&text, "\n");
        cli_use_text(use, &text);
        gt_buf_puts(&text, notes ? notes : "");
    }
    return cli_print(verb, &text);
}

static int show_cluster_node(const struct show_options *options)
{
    __attribute__((cleanup(cli_shown_done))) struct cli_shown shown = {0};
    gt_auto_err struct gt_err *err = NULL;
    if (cli_show_cluster_node(&options->api, options->node, &shown, &err) < 0)
        return cli_failed(options->parse.verb, err);
    if (shown.problem)
        cli_warn(options->parse.verb, shown.problem);
    return show_print(options, shown.node, &shown.use, shown.notes);
}

static int show_machine(const struct show_options *options)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_node struct gt_node *node = NULL;
    const char *verb = options->parse.verb;
    if (cli_source_scan(&options->source, &node, NULL, &err) < 0)
        return cli_failed(verb, err);
    if (node->gpu_count == 0 && options->format == SHOW_MATRIX) {
        gt_auto_buf struct gt_buf text = GT_BUF(CLI_OUTPUT_MAX);
        cli_source_no_gpus(&options->source, node, &err); /* in place of a matrix without rows */
        gt_buf_printf(&text, "%s\n", gt_err_text(err));
        return cli_print(verb, &text);
    }
    struct cli_use use = {0};
    bool is_recorded = options->source.from || (options->source.root && !options->agent);
    if (!is_recorded && node->gpu_count && cli_show_query_agent(options->agent, node, &use, &err) < 0)
        return cli_failed(verb, err);
    return show_print(options, node, &use, NULL);
}

static int show_run(const struct cli_verb *verb, int argc, char **argv)
{
    struct show_options options = {.parse = {.verb = verb->name}, .source = {.verb = verb->name}};
    int exit_code;
    if (!cli_parse_options(&command, argc, argv, &options.parse, NULL, &exit_code))
        return exit_code;
    if (!show_check(&options))
        return CLI_USAGE;
    return options.node ? show_cluster_node(&options) : show_machine(&options);
}

const struct cli_verb cli_show = {"show", show_run};
