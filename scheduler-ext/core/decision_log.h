/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan_rules.h"

/*
 * The last decisions, each with all that it was made from, as lines of JSON (docs/reference/bundle.md):
 * file/decision_file.h makes the same plan from them again. Of a job that waits only the last decision is
 * kept. Bounded by number and bytes, the oldest go first; without memory a decision is left out, and counted.
 * No clock: the owner says what time it is.
 */
enum { GT_DECISIONS_MAX = 256, GT_DECISIONS_BYTES = 4 << 20 };

struct gt_decision_log;

struct gt_decided {
    const char *job;                       /* "namespace/Kind/name" */
    const struct gt_plan_request *request; /* as gt_plan_ruled() has left it */
    bool placed;
    const struct gt_plan_failure *failure; /* where it was not placed */
};

int gt_decision_log_new(struct gt_decision_log **ret, struct gt_err **err);
void gt_decision_log_free(struct gt_decision_log *log);
GT_DEFINE_CLEANUP(struct gt_decision_log *, gt_decision_log_free)

/* Unix time of the next decisions, in milliseconds. */
void gt_decision_log_set_time(struct gt_decision_log *log, uint64_t wall_ms);

/* To be called after the plan, before the cluster changes. `log` NULL: nothing is kept. */
void gt_decision_log_add(struct gt_decision_log *log, struct gt_cluster *cluster,
                         const struct gt_decided *decided);

/* Appends decisions with a number above `after`, oldest first, with the clusters that they name; at least one
 * where there is one, further ones until there are `max` bytes. */
void gt_decision_log_write(const struct gt_decision_log *log, uint64_t after, size_t max, struct gt_buf *to);

/* Decisions that it has now, those that it has left out for want of memory, and its bytes. */
struct gt_decision_log_size {
    uint32_t kept;
    uint64_t left_out;
    size_t bytes;
};
struct gt_decision_log_size gt_decision_log_size(const struct gt_decision_log *log);
