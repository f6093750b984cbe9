/* SPDX-License-Identifier: Apache-2.0 */
#include "api/condition.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/json_get.h"
#include "base/json_write.h"

static const char *const status_names[] = {
    [GT_CONDITION_UNKNOWN] = "Unknown", [GT_CONDITION_FALSE] = "False", [GT_CONDITION_TRUE] = "True"};

const char *gt_condition_status_name(enum gt_condition_status status)
{
    return status_names[status];
}

void gt_conditions_read(const cJSON *status, const char *const types[], unsigned count,
                        struct gt_condition ret[])
{
    for (unsigned i = 0; i < count; i++)
        ret[i] = (struct gt_condition){.reason = "", .message = "", .since = ""};
    for (const cJSON *item = gt_first(gt_get(status, "conditions")); item; item = item->next) {
        const char *type = gt_get_string(item, "type"), *said = gt_get_string(item, "status");
        size_t i = GT_PLACE_OF_TEXT(types, count, type);
        if (i == count || ret[i].reason[0])
            continue;
        const char *reason = gt_get_string(item, "reason");
        ret[i] = (struct gt_condition){
            .status = strcmp(said, "True") == 0    ? GT_CONDITION_TRUE
                      : strcmp(said, "False") == 0 ? GT_CONDITION_FALSE
                                                   : GT_CONDITION_UNKNOWN,
            .reason = *reason ? reason : "Unknown", /* the API server demands one of our own kinds only */
            .message = gt_get_string(item, "message"),
            .since = gt_get_string(item, "lastTransitionTime"),
        };
    }
}

bool gt_condition_has(const struct gt_condition *condition, const char *reason)
{
    return condition->reason && strcmp(condition->reason, reason) == 0;
}

void gt_condition_write(const struct gt_condition *condition, const char *type, struct gt_buf *to)
{
    gt_json_printf(to, "{'type': %s, 'status': %s, ?'lastTransitionTime': %s, 'reason': %s, 'message': %s}",
                   type, status_names[condition->status], condition->since, condition->reason,
                   condition->message);
}

void gt_conditions_write(const struct gt_condition list[], const char *const types[], unsigned count,
                         struct gt_buf *to)
{
    gt_json_begin(to, "conditions", '[');
    for (unsigned i = 0; i < count; i++) {
        if (list[i].reason && list[i].reason[0])
            gt_condition_write(&list[i], types[i], to);
    }
    gt_json_end(to, ']');
}
