/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

struct options {
    struct cli_parse parse;
    struct cli_source source;
    const char *output;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->source;
        return cli_parse_rest(key, arg, state);
    case 'o':
        options->output = arg;
        return 0;
    default:
        return cli_parse_rest(key, arg, state);
    }
}

static const struct argp_option own_options[] = {
    {.name = "output",
     .key = 'o',
     .arg = "FILE",
     .doc = "write the recording to FILE, whole or not at all; - for standard output"},
    CLI_LAST_OPTIONS,
};
static const struct argp_child children[] = {{.argp = &cli_live_source_argp}, {0}};
static const struct argp argp = {
    .options = own_options,
    .parser = parse,
    .doc = "Save this node in one file, with everything that was read from it, so that "
           "--from can replay it elsewhere.",
    .children = children,
};

static void raw_done(struct gt_raw *raw)
{
    gt_raw_done(raw);
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct options options = {
        .parse = {.verb = verb->name},
        .source = {.verb = verb->name},
    };
    int exit_code;
    if (!cli_parse_options(&argp, argc, argv, &options.parse, &exit_code))
        return exit_code;
    if (!options.output || !*options.output)
        return cli_usage(verb->name, "-o: expected the file to write, or - for standard output");

    gt_auto_err struct gt_err *err = NULL;
    gt_auto_node struct gt_node *node = NULL;
    __attribute__((cleanup(raw_done))) struct gt_raw raw = {0};
    gt_auto_free char *text = NULL;
    if (cli_source_scan(&options.source, &node, &raw, &err) < 0 ||
        gt_recording_make(node, &raw, &text, &err) < 0)
        return cli_failed(verb->name, err);
    return cli_write_file(verb->name, options.output, text);
}

const struct cli_verb cli_record = {"record", run};
