/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>

#include "base/bits.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "cli/cli.h"
#include "topology/model/loss.h"
#include "topology/model/node.h"

/* The answer of `gputopo loss`. */
struct cli_answer {
    const struct gt_node *node;
    uint64_t free;               /* mask of the free GPUs */
    unsigned k;                  /* GPUs that were asked for */
    struct gt_choice choices[2]; /* the best, and the runner-up */
    unsigned choice_count;       /* 1: only one set of k GPUs exists */
};

enum { ANSWER_MAX = 4096 };

static void add_choice(const struct gt_choice *choice, struct gt_buf *to)
{
    gt_json_add_mask(to, "gpus", choice->mask);
    gt_json_printf(to, "'score': %" PRIu32 ", 'loss': %" PRIu32, choice->score, choice->loss);
}

static void cli_answer_json(const struct cli_answer *answer, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(ANSWER_MAX);
    gt_json_printf(&text, "{'k': %u", answer->k);
    gt_json_add_mask(&text, "free", answer->free);
    add_choice(&answer->choices[0], &text);
    gt_json_printf(&text, "'exact': !%d, 'runnerUp': =%s", answer->choices[0].exact,
                   answer->choice_count > 1 ? "{" : "null");
    if (answer->choice_count > 1)
        add_choice(&answer->choices[1], &text);
    gt_buf_puts(&text, answer->choice_count > 1 ? "}}" : "}");
    gt_json_indent(&text, to);
}

/* What decided between the chosen GPUs and the runner-up, in the order of the rule. */
static void cli_answer_add_why(const struct cli_answer *answer, struct gt_buf *to)
{
    const struct gt_choice *won = &answer->choices[0], *lost = &answer->choices[1];
    const char *gpus = answer->k == 1 ? "GPU" : "GPUs";
    if (answer->choice_count < 2) {
        gt_buf_puts(to, "there is no other choice: these are all GPUs that are free");
    } else if (won->score > lost->score) {
        gt_buf_printf(to, "the links among them carry %" PRIu32 " GB/s more than among %s ",
                      won->score - lost->score, gpus);
        gt_text_add_mask(to, lost->mask);
        if (won->loss > lost->loss)
            gt_buf_printf(to,
                          ", which counts first, although it cuts %" PRIu32 " GB/s more of what stays free",
                          won->loss - lost->loss);
        else if (won->loss < lost->loss)
            gt_buf_printf(to, ", and it cuts %" PRIu32 " GB/s less of what stays free",
                          lost->loss - won->loss);
    } else if (won->score == lost->score && won->loss < lost->loss) {
        gt_buf_printf(to, "same score as %s ", gpus);
        gt_text_add_mask(to, lost->mask);
        gt_buf_printf(to, ", but cuts %" PRIu32 " GB/s less of what stays free", lost->loss - won->loss);
    } else {
        gt_buf_printf(to, "same score and same loss as %s ", gpus);
        gt_text_add_mask(to, lost->mask);
        gt_buf_printf(to, "; of equals the lower mask is taken (0x%" PRIx64 " before 0x%" PRIx64 ")",
                      won->mask, lost->mask);
    }
    gt_buf_puts(to, "\n");
}

static void cli_answer_add_gpus(const struct cli_answer *answer, struct gt_buf *to)
{
    const struct gt_node *node = answer->node;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        if (!(answer->choices[0].mask >> i & 1))
            continue;
        const struct gt_gpu *gpu = &node->gpus[i];
        char id[GT_ID_SIZE];
        gt_gpu_device_id(gpu, id);
        gt_buf_printf(to, "  GPU%-3u %s  %s", gpu->index, gpu->uuid[0] ? gpu->uuid : id, gpu->bdf);
        if (gpu->numa_node >= 0)
            gt_buf_printf(to, "  NUMA node %d", gpu->numa_node);
        gt_buf_printf(to, "%s\n", gt_gpu_usable(gpu) ? "" : "  unhealthy");
    }
}

static void cli_answer_text(const struct cli_answer *answer, struct gt_buf *to)
{
    unsigned total = gt_bit_count(answer->free);
    unsigned rest = total - answer->k;
    gt_buf_printf(to, "%s ", answer->k == 1 ? "GPU" : "GPUs");
    gt_text_add_mask(to, answer->choices[0].mask);
    gt_buf_printf(to, ", of the %u that %s free (", total, total == 1 ? "is" : "are");
    gt_text_add_mask(to, answer->free);
    gt_buf_puts(to, ")\n");
    cli_answer_add_gpus(answer, to);

    gt_buf_printf(to, "score      %" PRIu32 " GB/s among the chosen\n", answer->choices[0].score);
    gt_buf_printf(to, "loss       %" PRIu32 " GB/s cut between the chosen and the %u that stay%s free\n",
                  answer->choices[0].loss, rest, rest == 1 ? "s" : "");
    if (answer->choice_count > 1) {
        gt_buf_puts(to, "runner-up  ");
        gt_text_add_mask(to, answer->choices[1].mask);
        gt_buf_printf(to, ": score %" PRIu32 " GB/s, loss %" PRIu32 " GB/s\n", answer->choices[1].score,
                      answer->choices[1].loss);
    } else {
        gt_buf_puts(to, "runner-up  none\n");
    }
    gt_buf_puts(to, "why        ");
    cli_answer_add_why(answer, to);
    if (!answer->choices[0].exact)
        gt_buf_puts(to,
                    "           the search ended at its time limit: the best found, not proven the best\n");
}

/* Above 16 GPUs: how long a person may wait for a proven answer. The agent's own limit is shorter. */
enum { LOSS_SEARCH_LIMIT_US = 1000000 };

struct loss_options {
    struct cli_parse parse;
    struct cli_source source;
    const char *free; /* NULL: all GPUs except the unhealthy ones */
    uint64_t k;       /* 0: not given */
};

static const struct gt_option own_options[] = {
    {"gpus", "N", "how many GPUs are wanted", gt_option_number, GT_OPTION_FIELD(struct loss_options, k),
     .min = 1, .max = UINT32_MAX, .letter = 'k'},
    {"free", "LIST",
     "the GPUs to choose from: indices and ranges, UUIDs, device IDs or BDFs, separated by commas (default: "
     "all GPUs but the unhealthy ones)",
     gt_option_any_text, GT_OPTION_FIELD(struct loss_options, free)},
    CLI_FORMAT_OPTION,
    CLI_SOURCE_OPTIONS(struct loss_options),
    CLI_HELP_OPTION,
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
    GT_TRY(gt_class_new(&weights, &class, err));
    answer->choice_count =
        gt_choose_two(class, answer->free, answer->k, LOSS_SEARCH_LIMIT_US, answer->choices);
    if (!answer->choice_count)
        return gt_fail(err, EINVAL, "there is no choice of %u GPUs", answer->k);
    return 0;
}

static int cli_loss_run(struct cli_call *call)
{
    const struct loss_options *options = call->options;
    gt_auto_node struct gt_node *node = NULL;
    if (!options->k)
        return cli_misuse(call, "-k: expected the number of GPUs wanted");
    GT_TRY(cli_source_scan(call, &options->source, &node, NULL));
    if (node->gpu_count == 0)
        return cli_source_no_gpus(&options->source, node, call->err);
    struct cli_answer answer = {.node = node, .free = gt_node_usable(node), .k = (unsigned)options->k};
    call->is_misuse = options->free && cli_gpu_list(node, options->free, &answer.free, call->err) < 0;
    GT_TRY(call->is_misuse ? -EINVAL : cli_loss_choose(&answer, call->err));
    (options->parse.format == CLI_TEXT ? cli_answer_text : cli_answer_json)(&answer, call->text);
    return 0;
}

const struct cli_verb cli_loss = {
    .name = "loss",
    .about = "choose the best connected GPUs of those that are free",
    .command =
        {.about = "Choose the best connected N of the free GPUs of a node, and say what the choice costs the "
                  "rest.",
         .more = "Example: mx-smi topo -m | gputopo loss --from - --free 0-3,6,7 -k 2",
         CLI_OPTIONS(own_options)},
    .options_size = sizeof(struct loss_options),
    .run = cli_loss_run};
