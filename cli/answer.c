/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/answer.h"

#include <inttypes.h>

#include "base/bits.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"

enum { ANSWER_MAX = 4096 };

static void add_choice(const struct gt_choice *choice, struct gt_buf *to)
{
    gt_json_add_mask(to, "gpus", choice->mask);
    gt_json_add_unsigned(to, "score", choice->score);
    gt_json_add_unsigned(to, "loss", choice->loss);
}

void cli_answer_json(const struct cli_answer *answer, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(ANSWER_MAX);
    gt_auto_json cJSON *json = NULL;
    gt_json_begin(&text, NULL, '{');
    gt_json_add_unsigned(&text, "k", answer->k);
    gt_json_add_mask(&text, "free", answer->free);
    add_choice(&answer->chosen, &text);
    gt_json_add_bool(&text, "exact", answer->chosen.exact);
    if (answer->has_runner_up) {
        gt_json_begin(&text, "runnerUp", '{');
        add_choice(&answer->runner_up, &text);
        gt_json_end(&text, '}');
    } else
        gt_json_add_null(&text, "runnerUp");
    gt_json_end(&text, '}');
    if (text.failed || gt_json_parse(text.data, text.len, "answer", &json, NULL) < 0)
        to->failed = true;
    else
        gt_json_print(json, to);
}

/* What decided between the chosen GPUs and the runner-up, in the order of the rule. */
static void cli_answer_add_why(const struct cli_answer *answer, struct gt_buf *to)
{
    const struct gt_choice *won = &answer->chosen, *lost = &answer->runner_up;
    const char *gpus = answer->k == 1 ? "GPU" : "GPUs";
    if (!answer->has_runner_up) {
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
        if (!(answer->chosen.mask >> i & 1))
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

void cli_answer_text(const struct cli_answer *answer, struct gt_buf *to)
{
    unsigned total = gt_bit_count(answer->free);
    unsigned rest = total - answer->k;
    gt_buf_printf(to, "%s ", answer->k == 1 ? "GPU" : "GPUs");
    gt_text_add_mask(to, answer->chosen.mask);
    gt_buf_printf(to, ", of the %u that %s free (", total, total == 1 ? "is" : "are");
    gt_text_add_mask(to, answer->free);
    gt_buf_puts(to, ")\n");
    cli_answer_add_gpus(answer, to);

    gt_buf_printf(to, "score      %" PRIu32 " GB/s among the chosen\n", answer->chosen.score);
    gt_buf_printf(to, "loss       %" PRIu32 " GB/s cut between the chosen and the %u that stay%s free\n",
                  answer->chosen.loss, rest, rest == 1 ? "s" : "");
    if (answer->has_runner_up) {
        gt_buf_puts(to, "runner-up  ");
        gt_text_add_mask(to, answer->runner_up.mask);
        gt_buf_printf(to, ": score %" PRIu32 " GB/s, loss %" PRIu32 " GB/s\n", answer->runner_up.score,
                      answer->runner_up.loss);
    } else {
        gt_buf_puts(to, "runner-up  none\n");
    }
    gt_buf_puts(to, "why        ");
    cli_answer_add_why(answer, to);
    if (!answer->chosen.exact)
        gt_buf_puts(to,
                    "           the search ended at its time limit: the best found, not proven the best\n");
}
