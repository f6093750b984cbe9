/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct gt_err;

/* Decisions that a companion has kept (core/decision_log.h, docs/reference/bundle.md), made again. */
enum { GT_DECISION_LINE_MAX = 16 << 20 };

struct gt_decision_again {
    uint64_t number;
    const char *job, *time;      /* "" not known */
    const char *recorded, *made; /* the same bytes: nothing has changed */
};

struct gt_decision_file {
    void (*on_decision)(void *arg, const struct gt_decision_again *again);
    void *arg;
};

/* Makes each plan of these lines of JSON again. An invalid line is -EINVAL: "SOURCE: line 3: ..."; those
 * before it were told. */
int gt_decision_file_run(const char *text, size_t len, const char *source,
                         const struct gt_decision_file *file, struct gt_err **err);
