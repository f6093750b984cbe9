/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/answer.h"
#include "scheduler-ext/wire/extender_args.h"

static void quote_node(struct gt_buf *to, const struct gt_wire_names *nodes, uint32_t i)
{
    gt_answer_quote(to, gt_wire_name(nodes, i), gt_wire_name_length(nodes, i));
}

static void put_node(struct gt_buf *to, const struct gt_extender_args *args, uint32_t i)
{
    if (args->by_name) {
        quote_node(to, &args->nodes, i);
    } else if (args->kept) {
        gt_buf_add(to, args->kept + args->kept_offsets[i], args->kept_offsets[i + 1] - args->kept_offsets[i]);
    } else {
        GT_ANSWER_PUT(to, "{\"metadata\":{\"name\":");
        quote_node(to, &args->nodes, i);
        GT_ANSWER_PUT(to, "}}");
    }
}

static void put_failed(struct gt_buf *to, const struct gt_extender_args *args,
                       const struct gt_filter_verdict *verdicts, bool unresolvable)
{
    bool first = true;
    for (uint32_t i = 0; i < args->nodes.count; i++) {
        if (!verdicts[i].reason || verdicts[i].unresolvable != unresolvable)
            continue;
        if (!first)
            GT_ANSWER_PUT(to, ",");
        first = false;
        quote_node(to, &args->nodes, i);
        GT_ANSWER_PUT(to, ":");
        gt_answer_quote(to, verdicts[i].reason, strlen(verdicts[i].reason));
    }
}

void gt_filter_answer(struct gt_buf *to, const struct gt_extender_args *args,
                      const struct gt_filter_verdict *verdicts)
{
    bool first = true;
    gt_buf_puts(to, args->by_name ? "{\"NodeNames\":[" : "{\"Nodes\":{\"items\":[");
    for (uint32_t i = 0; i < args->nodes.count; i++) {
        if (verdicts[i].reason)
            continue;
        if (!first)
            GT_ANSWER_PUT(to, ",");
        first = false;
        put_node(to, args, i);
    }
    gt_buf_puts(to, args->by_name ? "],\"FailedNodes\":{" : "]},\"FailedNodes\":{");
    put_failed(to, args, verdicts, false);
    GT_ANSWER_PUT(to, "},\"FailedAndUnresolvableNodes\":{");
    put_failed(to, args, verdicts, true);
    GT_ANSWER_PUT(to, "},\"Error\":\"\"}");
}

void gt_filter_error(struct gt_buf *to, const char *error)
{
    GT_ANSWER_PUT(to, "{\"Error\":");
    gt_answer_quote(to, error, strlen(error));
    GT_ANSWER_PUT(to, "}");
}

void gt_prioritize_answer(struct gt_buf *to, const struct gt_extender_args *args, const uint8_t *scores)
{
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};
    GT_ANSWER_PUT(to, "[");
    for (uint32_t i = 0; i < args->nodes.count; i++) {
        if (i)
            GT_ANSWER_PUT(to, ",");
        GT_ANSWER_PUT(to, "{\"Host\":");
        quote_node(to, &args->nodes, i);
        GT_ANSWER_PUT(to, ",\"Score\":");
        gt_buf_puts(to, digits[scores[i] < 10 ? scores[i] : 10]);
        GT_ANSWER_PUT(to, "}");
    }
    GT_ANSWER_PUT(to, "]");
}
