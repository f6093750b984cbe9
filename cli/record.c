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

static int record_run(struct cli_call *call)
{
    const struct record_options *options = call->options;
    gt_auto_node struct gt_node *node = NULL;
    __attribute__((cleanup(gt_raw_done))) struct gt_raw raw = {0};
    gt_auto_free char *text = NULL;
    if (!options->output)
        return cli_misuse(call, "-o: expected the file to write, or - for standard output");
    GT_TRY(cli_source_scan(call, &options->source, &node, &raw));
    GT_TRY(gt_recording_make(node, &raw, &text, call->err));
    return cli_write_file(call, options->output, text);
}

const struct cli_verb cli_record = {
    .name = "record",
    .about = "save a node in a file that --from replays",
    .command = {.about =
                    "Save this node in one file, with everything that was read from it, so that --from can "
                    "replay it elsewhere.",
                .more = "Example: gputopo record -o node.json",
                CLI_OPTIONS(own_options)},
    .options_size = sizeof(struct record_options),
    .run = record_run};
