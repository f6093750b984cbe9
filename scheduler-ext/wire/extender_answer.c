/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/json_get.h"
#include "base/json_write.h"
#include "scheduler-ext/wire/request.h"

void gt_predicate_answer(struct gt_buf *to, const char *reason, enum gt_volcano_code code)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "status", !reason || *reason ? (reason ? reason : "") : "refused");
    gt_json_add_unsigned(to, "code", reason ? code : 0);
    gt_json_end(to, '}');
}

void gt_node_score_answer(struct gt_buf *to, const struct gt_wire_request *request, const double *scores)
{
    gt_json_begin(to, NULL, '{');
    gt_json_begin(to, "nodeScore", '{');
    for (uint32_t i = 0; i < request->count; i++)
        gt_json_add_real(to, request->nodes[i], isfinite(scores[i]) ? scores[i] : 0, 15);
    gt_json_end(to, '}');
    gt_json_add_text(to, "errorMessage", "");
    gt_json_end(to, '}');
}

static void put_failed(struct gt_buf *to, const char *key, const struct gt_wire_request *request,
                       const struct gt_filter_verdict *verdicts, bool unresolvable)
{
    gt_json_begin(to, key, '{');
    for (uint32_t i = 0; i < request->count; i++)
        if (verdicts[i].reason && verdicts[i].unresolvable == unresolvable)
            gt_json_add_text(to, request->nodes[i], verdicts[i].reason);
    gt_json_end(to, '}');
}

void gt_filter_answer(struct gt_buf *to, const struct gt_wire_request *request,
                      const struct gt_filter_verdict *verdicts)
{
    gt_json_begin(to, NULL, '{');
    gt_json_begin(to, "NodeNames", '[');
    for (uint32_t i = 0; i < request->count; i++)
        if (!verdicts[i].reason)
            gt_json_add_text(to, NULL, request->nodes[i]);
    gt_json_end(to, ']');
    put_failed(to, "FailedNodes", request, verdicts, false);
    put_failed(to, "FailedAndUnresolvableNodes", request, verdicts, true);
    gt_json_add_text(to, "Error", "");
    gt_json_end(to, '}');
}

void gt_filter_error(struct gt_buf *to, const char *error)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "Error", error);
    gt_json_end(to, '}');
}

void gt_preempt_answer(struct gt_buf *to, const struct gt_wire_request *request, const uint8_t *keep)
{
    gt_json_begin(to, NULL, '{');
    gt_json_begin(to, "NodeNameToMetaVictims", '{');
    for (uint32_t i = 0; i < request->count; i++) {
        const cJSON *victims = gt_get(request->victims[i], "Pods");
        int64_t violations = 0;
        if (!keep[i])
            continue;
        gt_json_begin(to, request->nodes[i], '{');
        gt_json_begin(to, "Pods", '[');
        for (const cJSON *victim = victims ? victims->child : NULL; victim; victim = victim->next) {
            gt_json_begin(to, NULL, '{');
            gt_json_add_text(to, "UID", gt_get_string(victim, "UID"));
            gt_json_end(to, '}');
        }
        gt_json_end(to, ']');
        gt_json_is_int(gt_get(request->victims[i], "NumPDBViolations"), &violations);
        gt_json_add_int(to, "NumPDBViolations", violations);
        gt_json_end(to, '}');
    }
    gt_json_ends(to, "}}");
}

void gt_prioritize_answer(struct gt_buf *to, const struct gt_wire_request *request, const uint8_t *scores)
{
    gt_json_begin(to, NULL, '[');
    for (uint32_t i = 0; i < request->count; i++) {
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "Host", request->nodes[i]);
        gt_json_add_unsigned(to, "Score", scores[i] < 10 ? scores[i] : 10);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}
