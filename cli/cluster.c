/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "base/text.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "cli/view.h"

/* The verbs cluster and supernodes: the whole cluster from its custom resources. */

enum { PROBLEMS_SHOWN = 20 };

enum { CLUSTER_NAME = CLI_FORMATS, CLUSTER_SVG };
static const char *const cluster_formats[] = {CLI_FORMAT_WORDS, "name", "svg", NULL};
static const char *const supernodes_formats[] = {CLI_FORMAT_WORDS, "name", NULL};

struct cluster_options {
    struct cli_parse parse;
    struct cli_api_options api;
    unsigned nodes;
    const char *supernode;
};

static const char *const nodes_words[] = {"all", "free", "wrong", "none", NULL}; /* as enum cli_nodes */

static const struct gt_option cluster_options[] = {
    {"nodes", "WHICH", "nodes of the table: all (default), free, wrong, or none, for sums alone",
     gt_option_word, GT_OPTION_FIELD(struct cluster_options, nodes), .words = nodes_words},
    {"supernode", "NAME", "only this supernode and those below it", gt_option_text,
     GT_OPTION_FIELD(struct cluster_options, supernode)},
    CLI_OWN_FORMAT_OPTION("text (default), json, yaml, name or svg", cluster_formats),
    CLI_WATCH_OPTION,
    CLI_API_OPTIONS(struct cluster_options),
    CLI_HELP_OPTION,
};
static const struct gt_option supernodes_options[] = {
    CLI_OWN_FORMAT_OPTION("text (default), json, yaml or name", supernodes_formats),
    CLI_WATCH_OPTION,
    CLI_API_OPTIONS(struct cluster_options),
    CLI_HELP_OPTION,
};
/* ---- reading ---- */

static int cli_cluster_read(const struct cluster_options *options, bool with_nodes, struct cli_view *view,
                            struct gt_err **err)
{
    cli_auto_api struct cli_api *api = NULL;
    const struct cli_api_list supernodes = {.resource = &gt_kube_supernodes,
                                            .on_begin = cli_view_clear_supernodes,
                                            .on_object = cli_view_add_supernode,
                                            .arg = view};
    const struct cli_api_list nodes = {.resource = &gt_kube_node_gpu_topologies,
                                       .on_begin = cli_view_clear_nodes,
                                       .on_object = cli_view_add_node,
                                       .arg = view};
    GT_TRY(cli_api_open(&options->api, &api, err));
    GT_TRY(cli_api_list(api, &supernodes, err));
    if (with_nodes)
        GT_TRY(cli_api_list(api, &nodes, err));
    return 0;
}

/* ---- output ---- */

/* Colours and the limit of the width, only on a terminal. */
static struct cli_screen screen_of_stdout(void)
{
    struct cli_screen screen = {0};
    if (!isatty(STDOUT_FILENO))
        return screen;
    struct winsize size;
    const char *columns = getenv("COLUMNS"), *terminal = getenv("TERM"), *none = getenv("NO_COLOR");
    uint64_t number;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        screen.width = size.ws_col;
    else if (columns && gt_text_to_unsigned(columns, 10000, &number))
        screen.width = (unsigned)number;
    screen.color = !(none && *none) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
    return screen;
}

static void warn(const char *verb, const struct cli_view *view)
{
    for (uint32_t i = 0; i < view->problem_count && i < PROBLEMS_SHOWN; i++)
        cli_warn(verb, view->problems[i]);
    if (view->problem_count > PROBLEMS_SHOWN) {
        char text[64];
        snprintf(text, sizeof(text), "%u more objects like that", view->problem_count - PROBLEMS_SHOWN);
        cli_warn(verb, text);
    }
}

/* What a cluster file cannot express. */
static void warn_unknown(const char *verb, const struct cli_view *view)
{
    uint32_t unknown = 0;
    const char *first = "";
    for (uint32_t i = 0; i < view->picture.node_count; i++) {
        const struct gt_picture_node *node = &view->picture.nodes[i];
        if (node->known && node->gpus && !node->use_known && !unknown++)
            first = node->name;
    }
    char text[400];
    if (!unknown)
        return;
    snprintf(text, sizeof(text), "%s%s: it is not known which GPUs are free, written as none", first,
             unknown > 1 ? " and others" : "");
    cli_warn(verb, text);
}

static void cluster_add_names(const struct cli_view *view, bool with_nodes, struct gt_buf *to)
{
    uint32_t count = with_nodes ? view->picture.node_count : view->picture.supernode_count;
    for (uint32_t i = 0; i < count; i++)
        gt_buf_printf(to, "%s\n",
                      with_nodes ? view->picture.nodes[i].name : view->picture.supernodes[i].name);
}

static int cluster_run(struct cli_call *call)
{
    const struct cluster_options *options = call->options;
    const unsigned format = options->parse.format;
    struct cli_screen screen = screen_of_stdout();
    const struct cli_table_part shown = {(enum cli_nodes)options->nodes, options->supernode};
    bool as_json = format == CLI_JSON || format == CLI_YAML, with_nodes = call->verb == &cli_cluster;
    cli_auto_view struct cli_view view;
    cli_view_init(&view, (int64_t)time(NULL), with_nodes && as_json);
    if (format != CLI_TEXT && (options->nodes || options->supernode))
        return cli_misuse(call, "--nodes and --supernode are for the table: others have all");
    GT_TRY(cli_cluster_read(options, with_nodes, &view, call->err));
    GT_TRY(cli_view_finish(&view, call->err));
    if (as_json && with_nodes)
        cli_view_json(&view, call->text);
    else if (as_json)
        cli_view_supernodes_json(&view, call->text);
    else if (format == CLUSTER_SVG)
        gt_picture_svg(&view.picture, call->text);
    else if (format == CLUSTER_NAME)
        cluster_add_names(&view, with_nodes, call->text);
    else if (with_nodes)
        GT_TRY(cli_view_table(&view.picture, &shown, &screen, call->text, call->err));
    else
        cli_view_supernodes(&view, &screen, call->text);
    if (!options->parse.watch)
        warn(call->verb->name, &view);
    if (as_json && with_nodes)
        warn_unknown(call->verb->name, &view);
    return 0;
}

const struct cli_verb cli_cluster = {
    .name = "cluster",
    .about = "show the GPUs of a Kubernetes cluster and who uses them",
    .command =
        {.about =
             "Show the GPUs of a cluster: supernodes, their nodes, what is free and who uses the rest. As "
             "JSON it is a file that plan --cluster takes.",
         .more = "Example: gputopo cluster --nodes none",
         CLI_OPTIONS(cluster_options)},
    .options_size = sizeof(struct cluster_options),
    .run = cluster_run};

const struct cli_verb cli_supernodes = {.name = "supernodes",
                                        .about = "list the supernodes of a Kubernetes cluster",
                                        .command = {.about = "List the supernodes of a cluster.",
                                                    .more = "Example: gputopo supernodes -o name",
                                                    CLI_OPTIONS(supernodes_options)},
                                        .options_size = sizeof(struct cluster_options),
                                        .run = cluster_run};
