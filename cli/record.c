/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

struct record_options {
    struct cli_parse parse;
    struct cli_source source;
    const char *output;
};

static const struct gt_option own_options[] = {
    {"output", "FILE", "write the recording to FILE, whole or not at all; - for standard output",
     gt_option_text, GT_OPTION_FIELD(struct record_options, output), .letter = 'o'},
    CLI_LIVE_SOURCE_OPTIONS(struct record_options),
    CLI_HELP_OPTION,
};

static const struct gt_command command = {
    .about = "Save this node in one file, with everything that was read from it, so that "
             "--from can replay it elsewhere.",
    .options = own_options,
    .count = GT_COUNT(own_options),
};

static void raw_done(struct gt_raw *raw)
{
    gt_raw_done(raw);
}

static int record_run(const struct cli_verb *verb, int argc, char **argv)
{
    struct record_options options = {
        .parse = {.verb = verb->name},
        .source = {.verb = verb->name},
    };
    int exit_code;
    if (!cli_parse_options(&command, argc, argv, &options.parse, NULL, &exit_code))
        return exit_code;
    if (!options.output)
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

const struct cli_verb cli_record = {"record", record_run, "save a node in a file that --from replays"};
