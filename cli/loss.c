/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/bits.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/cli.h"

/* Above 16 GPUs: how long a person may wait for a proven answer. The agent's own limit is shorter. */
enum { LOSS_SEARCH_LIMIT_US = 1000000 };

struct loss_options {
    struct cli_parse parse;
    struct cli_source source;
    const char *free; /* NULL: all GPUs except the unhealthy ones */
    uint64_t k;       /* 0: not given */
    unsigned format;
};

static const struct gt_option own_options[] = {
    {"gpus", "N", "how many GPUs are wanted", gt_option_number, GT_OPTION_FIELD(struct loss_options, k),
     .min = 1, .max = UINT32_MAX, .letter = 'k'},
    {"free", "LIST",
     "the GPUs to choose from: indices and ranges, UUIDs, device IDs or BDFs, separated by commas (default: "
     "all GPUs but the unhealthy ones)",
     gt_option_any_text, GT_OPTION_FIELD(struct loss_options, free)},
    CLI_FORMAT_OPTION(struct loss_options),
    CLI_SOURCE_OPTIONS(struct loss_options),
    CLI_HELP_OPTION,
};

static const struct gt_command command = {
    .about =
        "Choose the best connected N of the free GPUs of a node, and say what the choice costs the rest.",
    .options = own_options,
    .count = GT_COUNT(own_options),
};

static int fail_too_few(uint64_t free, unsigned k, struct gt_err **err)
{
    gt_auto_buf struct gt_buf list = GT_BUF(1024);
    unsigned count = gt_bit_count(free);
    if (!count)
        return gt_fail(err, EINVAL, "%u GPU%s wanted, none is free", k, k == 1 ? "" : "s");
    gt_text_add_mask(&list, free);
    return gt_fail(err, EINVAL, "%u GPUs wanted, %u %s free (%s)", k, count, count == 1 ? "is" : "are",
                   list.data ? list.data : "");
}

static int cli_loss_choose(struct cli_answer *answer, struct gt_err **err)
{
    if (answer->k > gt_bit_count(answer->free))
        return fail_too_few(answer->free, answer->k, err);
    struct gt_weights weights;
    gt_weights_of(answer->node, &weights);
    gt_auto_class struct gt_class *class = NULL;
    int r = gt_class_new(&weights, &class, err);
    if (r < 0)
        return r;
    if (!gt_choose_two(class, answer->free, answer->k, LOSS_SEARCH_LIMIT_US, &answer->chosen,
                       &answer->runner_up, &answer->has_runner_up))
        return gt_fail(err, EINVAL, "there is no choice of %u GPUs", answer->k);
    return 0;
}

static int cli_loss_run(const struct cli_verb *verb, int argc, char **argv)
{
    struct loss_options options = {
        .parse = {.verb = verb->name},
        .source = {.verb = verb->name},
    };
    int exit_code;
    if (!cli_parse_options(&command, argc, argv, &options.parse, NULL, &exit_code))
        return exit_code;
    if (!options.k)
        return cli_usage(verb->name, "-k: expected the number of GPUs wanted");
    if (!cli_source_check(&options.source))
        return CLI_USAGE;

    gt_auto_err struct gt_err *err = NULL;
    gt_auto_node struct gt_node *node = NULL;
    if (cli_source_scan(&options.source, &node, NULL, &err) < 0)
        return cli_failed(verb->name, err);
    if (node->gpu_count == 0) {
        cli_source_no_gpus(&options.source, node, &err);
        return cli_failed(verb->name, err);
    }
    struct cli_answer answer = {.node = node, .free = gt_node_usable(node), .k = (unsigned)options.k};
    if (options.free && cli_gpu_list(node, options.free, &answer.free, &err) < 0)
        return cli_usage(verb->name, "%s", gt_err_text(err));
    if (cli_loss_choose(&answer, &err) < 0)
        return cli_failed(verb->name, err);

    gt_auto_buf struct gt_buf text = GT_BUF(CLI_OUTPUT_MAX);
    if (options.format == CLI_JSON)
        cli_answer_json(&answer, &text);
    else
        cli_answer_text(&answer, &text);
    return cli_print(verb->name, &text);
}

const struct cli_verb cli_loss = {"loss", cli_loss_run};
