/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/decision_log.h"
#include "scheduler-ext/core/internal.h"

/*
 * What is kept of a decision. A cluster of 10,000 nodes is planned on in a tenth of a millisecond: so what
 * has a value for each node is copied as it is, shared with the last decision where it is the same, and
 * written as text only when somebody asks.
 */
struct kept_bytes {
    uint32_t users;
    size_t len;
    char data[];
};

enum kept_column {
    KEPT_FREE,
    KEPT_HEALTHY,
    KEPT_SLOW,
    KEPT_ELIGIBLE,
    KEPT_LIMITS,
    KEPT_EXCLUDED,
    KEPT_CLUSTER, /* its line of JSON: it changes seldom */
    KEPT_COLUMNS
};

struct kept {
    uint64_t number, wall_ms, shape;
    uint32_t nodes;
    struct kept_bytes *columns[KEPT_COLUMNS];
    char *job, *text; /* text: the beginning of its JSON */
    size_t len;
    bool placed;
};

/* The cluster without its state. */
void gt_kept_cluster_json(const struct gt_cluster *cluster, struct gt_buf *to);
/* The beginning of a decision's line: what does not grow with the nodes. */
void gt_kept_decision_json(struct gt_cluster *cluster, const struct gt_decided *decided, struct gt_buf *to);
/* The whole line. */
void gt_kept_json(const struct kept *kept, struct gt_buf *to);
