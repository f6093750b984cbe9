/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_ANSWER_H
#define GPUTOPO_CLI_ANSWER_H

#include "base/buf.h"
#include "topology/model/loss.h"
#include "topology/model/node.h"

/* The answer of `gputopo loss`, written by answer.c. */
struct cli_answer {
    const struct gt_node *node;
    uint64_t free; /* mask of the free GPUs */
    unsigned k;    /* GPUs that were asked for */
    struct gt_choice chosen, runner_up;
    bool has_runner_up; /* false where only one set of k GPUs exists */
};

void cli_answer_json(const struct cli_answer *answer, struct gt_buf *to);
void cli_answer_text(const struct cli_answer *answer, struct gt_buf *to);

#endif
