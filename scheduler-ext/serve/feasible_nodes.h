/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_FEASIBLE_NODES_H
#define GPUTOPO_SERVE_FEASIBLE_NODES_H

#include "scheduler-ext/serve/debug_view.h"

/* What every node of the cluster is worth to one pod that has no place, and why not: for explanations. */

enum { GT_ASSESSED_BEST = 10, GT_ASSESSED_EXAMPLES = 3 };

enum gt_refusal {
    GT_REFUSED_TOO_FEW,       /* fewer GPUs than it asks for are there for anybody */
    GT_REFUSED_GPUS_RESERVED, /* for planned or starting pods */
    GT_REFUSED_NODE_RESERVED, /* for a job that waits */
    GT_REFUSED_SPARE,         /* left to replacements for lost nodes */
    GT_REFUSED_UNSUITED,      /* its selector, affinity or tolerations rule it out */
    GT_REFUSED_CORDONED,
    GT_REFUSED_NOT_READY,
    GT_REFUSED_STALE,      /* its agent is silent */
    GT_REFUSED_NO_NODE,    /* there is no Node object */
    GT_REFUSED_LEFT_ALONE, /* the vendor's plugin serves it */
    GT_REFUSED_NOT_ELIGIBLE,
    GT_REFUSALS,
};

struct gt_assessed_node {
    uint32_t id;
    double value, score_part, loss_part, stranded_part;
    bool exact;
    double sum;    /* as Volcano gets it */
    uint8_t ten;   /* as kube-scheduler gets it */
    uint64_t mask; /* the GPUs that the agent would choose */
};

struct gt_feasible_nodes {
    uint32_t feasible;
    struct gt_assessed_node best[GT_ASSESSED_BEST]; /* best first; ties by name */
    unsigned best_count;
    struct gt_refused {
        uint32_t count;
        uint32_t examples[GT_ASSESSED_EXAMPLES];
    } refused[GT_REFUSALS];
};

int gt_feasible_nodes(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                      struct gt_feasible_nodes *ret, struct gt_err **err);

/* What is said of `count` refused nodes: "has fewer than 4 GPUs available", "have ..." */
void gt_refusal_text(enum gt_refusal refusal, uint32_t count, const struct gt_cache_pod *pod,
                     struct gt_buf *to);
/* A word for programs. */
const char *gt_refusal_name(enum gt_refusal refusal);

#endif
