/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/json_get.h"
#include "scheduler-ext/wire/answer.h"
#include "scheduler-ext/wire/request.h"

void gt_predicate_answer(struct gt_buf *to, const char *reason, enum gt_volcano_code code)
{
    if (!reason) {
        GT_ANSWER_PUT(to, "{\"status\":\"\",\"code\":0}");
        return;
    }
    GT_ANSWER_PUT(to, "{\"status\":");
    if (!*reason)
        reason = "refused";
    gt_answer_quote(to, reason, strlen(reason));
    gt_buf_printf(to, ",\"code\":%d}", (int)code);
}

static void put_score(struct gt_buf *to, double score)
{
    if (!isfinite(score))
        score = 0;
    gt_buf_printf(to, "%.15g", score);
}

void gt_node_score_answer(struct gt_buf *to, const struct gt_wire_request *request, const double *scores)
{
    GT_ANSWER_PUT(to, "{\"nodeScore\":{");
    for (uint32_t i = 0; i < request->count; i++) {
        if (i)
            GT_ANSWER_PUT(to, ",");
        gt_answer_quote(to, request->nodes[i], strlen(request->nodes[i]));
        GT_ANSWER_PUT(to, ":");
        put_score(to, scores[i]);
    }
    GT_ANSWER_PUT(to, "},\"errorMessage\":\"\"}");
}

static void quote_node(struct gt_buf *to, const struct gt_wire_request *request, uint32_t i)
{
    gt_answer_quote(to, request->nodes[i], strlen(request->nodes[i]));
}

static void put_node(struct gt_buf *to, const struct gt_wire_request *request, uint32_t i)
{
    if (request->by_name) {
        quote_node(to, request, i);
    } else if (request->copies) {
        uint32_t from = i ? request->ends[i - 1] : 0;
        gt_buf_add(to, request->copies + from, request->ends[i] - from);
    } else {
        GT_ANSWER_PUT(to, "{\"metadata\":{\"name\":");
        quote_node(to, request, i);
        GT_ANSWER_PUT(to, "}}");
    }
}

static void put_failed(struct gt_buf *to, const struct gt_wire_request *request,
                       const struct gt_filter_verdict *verdicts, bool unresolvable)
{
    bool first = true;
    for (uint32_t i = 0; i < request->count; i++) {
        if (!verdicts[i].reason || verdicts[i].unresolvable != unresolvable)
            continue;
        if (!first)
            GT_ANSWER_PUT(to, ",");
        first = false;
        quote_node(to, request, i);
        GT_ANSWER_PUT(to, ":");
        gt_answer_quote(to, verdicts[i].reason, strlen(verdicts[i].reason));
    }
}

void gt_filter_answer(struct gt_buf *to, const struct gt_wire_request *request,
                      const struct gt_filter_verdict *verdicts)
{
    bool first = true;
    gt_buf_puts(to, request->by_name ? "{\"NodeNames\":[" : "{\"Nodes\":{\"items\":[");
    for (uint32_t i = 0; i < request->count; i++) {
        if (verdicts[i].reason)
            continue;
        if (!first)
            GT_ANSWER_PUT(to, ",");
        first = false;
        put_node(to, request, i);
    }
    gt_buf_puts(to, request->by_name ? "],\"FailedNodes\":{" : "]},\"FailedNodes\":{");
    put_failed(to, request, verdicts, false);
    GT_ANSWER_PUT(to, "},\"FailedAndUnresolvableNodes\":{");
    put_failed(to, request, verdicts, true);
    GT_ANSWER_PUT(to, "},\"Error\":\"\"}");
}

void gt_filter_error(struct gt_buf *to, const char *error)
{
    GT_ANSWER_PUT(to, "{\"Error\":");
    gt_answer_quote(to, error, strlen(error));
    GT_ANSWER_PUT(to, "}");
}

void gt_preempt_answer(struct gt_buf *to, const struct gt_wire_request *request, const uint8_t *keep)
{
    const char *comma = "";
    GT_ANSWER_PUT(to, "{\"NodeNameToMetaVictims\":{");
    for (uint32_t i = 0; i < request->count; i++) {
        const cJSON *victims = gt_get(request->victims[i], "Pods");
        int64_t violations = 0;
        if (!keep[i])
            continue;
        gt_buf_puts(to, comma);
        comma = ",";
        quote_node(to, request, i);
        GT_ANSWER_PUT(to, ":{\"Pods\":[");
        for (const cJSON *victim = victims ? victims->child : NULL; victim; victim = victim->next) {
            GT_ANSWER_PUT(to, "{\"UID\":");
            gt_text_quote(to, gt_wire_victim_uid(victim));
            gt_buf_puts(to, victim->next ? "}," : "}");
        }
        gt_json_is_int(gt_get(request->victims[i], "NumPDBViolations"), &violations);
        gt_buf_printf(to, "],\"NumPDBViolations\":%lld}", (long long)violations);
    }
    GT_ANSWER_PUT(to, "}}");
}

void gt_prioritize_answer(struct gt_buf *to, const struct gt_wire_request *request, const uint8_t *scores)
{
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};
    GT_ANSWER_PUT(to, "[");
    for (uint32_t i = 0; i < request->count; i++) {
        if (i)
            GT_ANSWER_PUT(to, ",");
        GT_ANSWER_PUT(to, "{\"Host\":");
        quote_node(to, request, i);
        GT_ANSWER_PUT(to, ",\"Score\":");
        gt_buf_puts(to, digits[scores[i] < 10 ? scores[i] : 10]);
        GT_ANSWER_PUT(to, "}");
    }
    GT_ANSWER_PUT(to, "]");
}
