/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/decide/attempt.h"

/* The rules between the pods of an attempt, which gt_attempt_make() adds. -ENOMEM. */
int gt_attempt_rules_make(struct gt_cache *cache, const struct gt_job_view *view, struct gt_attempt *to,
                          struct gt_err **err);
void gt_attempt_rules_done(struct gt_attempt *attempt);
