/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"

/* A condition of an object: an element of status.conditions. */
enum gt_condition_status { GT_CONDITION_UNKNOWN, GT_CONDITION_FALSE, GT_CONDITION_TRUE };

struct gt_condition {
    enum gt_condition_status status;
    /* Borrowed, never NULL after a read. If the reason is "", the condition does not exist. */
    const char *reason, *message;
    const char *since; /* lastTransitionTime; "" not known */
};

/*
 * Finds the conditions of these types; one that is missing or invalid is unknown and without a reason. The
 * texts belong to the object. `status` may be NULL.
 */
void gt_conditions_read(const cJSON *status, const char *const types[], unsigned count,
                        struct gt_condition ret[]);

/* Whether it exists with this reason. */
bool gt_condition_has(const struct gt_condition *condition, const char *reason);

/* "True", "False", "Unknown". */
const char *gt_condition_status_name(enum gt_condition_status status);

/* Appends a condition as an element of such a list. */
void gt_condition_write(const struct gt_condition *condition, const char *type, struct gt_buf *to);

/* Appends the member "conditions" with those that exist. */
void gt_conditions_write(const struct gt_condition list[], const char *const types[], unsigned count,
                         struct gt_buf *to);
