/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

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
