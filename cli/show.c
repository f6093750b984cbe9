/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "topology/model/render.h"

static const struct format {
    const char *name;
    void (*render)(const struct gt_node *node, struct gt_buf *to);
} formats[] = {
    {"matrix", gt_render_matrix}, {"json", gt_render_json}, {"yaml", gt_render_yaml},
    {"dot", gt_render_dot},       {"svg", gt_render_svg},
};

struct options {
    struct cli_parse parse;
    struct cli_source source;
    const struct format *format;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->source;
        return cli_parse_rest(key, arg, state);
    case 'o':
        for (size_t i = 0; i < GT_COUNT(formats); i++)
            if (strcmp(arg, formats[i].name) == 0) {
                options->format = &formats[i];
                return 0;
            }
        cli_usage(options->parse.verb, "-o: expected matrix, json, yaml, dot or svg, is '%.100s'", arg);
        return EINVAL;
    default:
        return cli_parse_rest(key, arg, state);
    }
}

static const struct argp_option own_options[] = {
    {.name = "output", .key = 'o', .arg = "FORMAT", .doc = "matrix (default), json, yaml, dot or svg"},
    {.name = "help", .key = CLI_KEY_HELP, .doc = "print this help", .group = -1},
    {0},
};
static const struct argp_child children[] = {{.argp = &cli_source_argp}, {0}};
static const struct argp argp = {
    .options = own_options,
    .parser = parse,
    .doc = "Print the GPUs and NICs of a node and how they are wired, on standard output.",
    .children = children,
};

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct options options = {
        .parse = {.verb = verb->name},
        .source = {.verb = verb->name},
        .format = &formats[0],
    };
    int exit_code;
    if (!cli_parse_options(&argp, argc, argv, &options.parse, &exit_code))
        return exit_code;
    if (!cli_source_check(&options.source))
        return CLI_USAGE;

    gt_auto_err struct gt_err *err = NULL;
    gt_auto_node struct gt_node *node = NULL;
    if (cli_source_scan(&options.source, &node, NULL, &err) < 0)
        return cli_failed(verb->name, err);
    gt_auto_buf struct gt_buf text = GT_BUF(CLI_OUTPUT_MAX);
    if (node->gpu_count == 0 && options.format->render == gt_render_matrix) {
        cli_source_no_gpus(&options.source, node, &err); /* in place of a matrix without rows */
        gt_buf_printf(&text, "%s\n", gt_err_text(err));
    } else {
        options.format->render(node, &text);
    }
    return cli_print(verb->name, &text);
}

const struct cli_verb cli_show = {"show", run};
