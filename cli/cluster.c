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

/* "table" is the name that "text" had. */
enum { CLUSTER_NAME = CLI_FORMATS, CLUSTER_TABLE, CLUSTER_SVG };
static const char *const cluster_formats[] = {CLI_FORMAT_WORDS, "name", "table", "svg", NULL};
static const char *const supernodes_formats[] = {CLI_FORMAT_WORDS, "name", "table", NULL};

struct cluster_options {
    struct cli_parse parse;
    struct cli_api_options api;
    unsigned format, nodes;
    const char *supernode;
    bool with_nodes, watch;
};

static const char *const nodes_words[] = {"all", "free", "wrong", "none", NULL}; /* as enum cli_nodes */

static const struct gt_option cluster_options[] = {
    {"nodes", "WHICH", "nodes of the table: all (default), free, wrong, or none, for sums alone",
     gt_option_word, GT_OPTION_FIELD(struct cluster_options, nodes), .words = nodes_words},
    {"supernode", "NAME", "only this supernode and those below it", gt_option_text,
     GT_OPTION_FIELD(struct cluster_options, supernode)},
    {"output", "FORMAT", "text (default), json, yaml, name or svg", gt_option_word,
     GT_OPTION_FIELD(struct cluster_options, format), .words = cluster_formats, .letter = 'o'},
    CLI_WATCH_OPTION(struct cluster_options),
    CLI_API_OPTIONS(struct cluster_options),
    CLI_HELP_OPTION,
};
static const struct gt_command cluster_command = {
    .about =
        "Show the GPUs of a cluster: supernodes, their nodes, what is free and who uses the rest. As JSON "
        "it is a file that plan --cluster takes.",
    .more = "Example: gputopo cluster --nodes none",
    .options = cluster_options,
    .count = GT_COUNT(cluster_options),
};

static const struct gt_option supernodes_options[] = {
    {"output", "FORMAT", "text (default), json, yaml or name", gt_option_word,
     GT_OPTION_FIELD(struct cluster_options, format), .words = supernodes_formats, .letter = 'o'},
    CLI_WATCH_OPTION(struct cluster_options),
    CLI_API_OPTIONS(struct cluster_options),
    CLI_HELP_OPTION,
};
static const struct gt_command supernodes_command = {
    .about = "List the supernodes of a cluster.",
    .options = supernodes_options,
    .count = GT_COUNT(supernodes_options),
};

/* ---- reading ---- */

static int cli_cluster_read(const struct cluster_options *options, struct cli_view *view, struct gt_err **err)
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
    if (options->with_nodes)
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

static int look_at_cluster(void *arg, struct gt_buf *to, struct gt_err **err)
{
    const struct cluster_options *options = arg;
    struct cli_screen screen = screen_of_stdout();
    const struct cli_table_part shown = {(enum cli_nodes)options->nodes, options->supernode};
    bool as_json = options->format == CLI_JSON || options->format == CLI_YAML;
    bool with_nodes = options->with_nodes;
    cli_auto_view struct cli_view view;
    cli_view_init(&view, (int64_t)time(NULL), with_nodes && as_json);
    GT_TRY(cli_cluster_read(options, &view, err));
    GT_TRY(cli_view_finish(&view, err));
    if (as_json && with_nodes)
        cli_view_json(&view, to);
    else if (as_json)
        cli_view_supernodes_json(&view, to);
    else if (options->format == CLUSTER_SVG)
        gt_picture_svg(&view.picture, to);
    else if (options->format == CLUSTER_NAME)
        cluster_add_names(&view, with_nodes, to);
    else if (with_nodes)
        GT_TRY(cli_view_table(&view.picture, &shown, &screen, to, err));
    else
        cli_view_supernodes(&view, &screen, to);
    if (!options->watch)
        warn(options->parse.verb, &view);
    if (as_json && with_nodes)
        warn_unknown(options->parse.verb, &view);
    return 0;
}

static int run_with(const struct cli_verb *verb, const struct gt_command *command, int argc, char **argv)
{
    struct cluster_options options = {.parse = {.verb = verb->name}, .with_nodes = verb == &cli_cluster};
    int exit_code;
    if (!cli_parse_options(command, argc, argv, &options.parse, NULL, &exit_code))
        return exit_code;
    bool is_text = options.format == CLI_TEXT || options.format == CLUSTER_TABLE;
    if (!is_text && (options.nodes || options.supernode))
        return cli_usage(verb->name, "--nodes and --supernode are for the table: others have all");
    if (!is_text && options.watch)
        return cli_usage(verb->name, "--watch is for text: other formats are printed once");
    if (options.watch)
        return cli_watch(verb->name, look_at_cluster, &options);
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(CLI_OUTPUT_MAX);
    if (look_at_cluster(&options, &text, &err) < 0)
        return cli_failed(verb->name, err);
    return cli_print_as(verb->name, options.format, &text);
}

static int run_cluster(const struct cli_verb *verb, int argc, char **argv)
{
    return run_with(verb, &cluster_command, argc, argv);
}
const struct cli_verb cli_cluster = {"cluster", run_cluster,
                                     "show the GPUs of a Kubernetes cluster and who uses them"};

static int run_supernodes(const struct cli_verb *verb, int argc, char **argv)
{
    return run_with(verb, &supernodes_command, argc, argv);
}
const struct cli_verb cli_supernodes = {"supernodes", run_supernodes,
                                        "list the supernodes of a Kubernetes cluster"};
