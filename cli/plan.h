/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/core/advise.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/file/cluster_file.h"
#include "scheduler-ext/jobs/rules.h"

/* The question of `gputopo plan` and its answer: computed by plan.c, written by plan_text.c and plan_json.c.
 */
struct cli_plan {
    struct gt_cluster_file *file;
    struct gt_cluster *cluster;
    uint32_t pod_count;
    unsigned gpus; /* of each pod */
    struct gt_job_sizes sizes;
    const char *warning; /* NULL: none */
    bool aware;          /* no group size: gpu-aware places every pod by itself, and each pod is a unit */
    struct {
        bool explain, advise, relocate;
    } wants;

    bool placed;
    struct gt_buf reason; /* why it is not placed */
    uint32_t found;       /* aware: pods that found a node before the first that did not */
    struct gt_plan_unit *units;
    uint32_t unit_count;
    struct gt_plan_pod *pods;
    uint32_t *losses; /* [pod], aware: loss(F,k), the GB/s between its GPUs and those that stayed free */

    struct {
        struct gt_buf slow;          /* the slow GPUs that it gets, and why; "" none */
        struct gt_crossing crossing; /* with `explain`, as the next one */
        struct gt_closer closer;     /* how it would lie closer */
    } result;                        /* of a placed job */
    struct {
        struct gt_advice advice;         /* with `advise` */
        struct gt_relocation relocation; /* with `relocate` */
        struct cli_plan *after; /* the plan once those pods have left or moved; NULL: there is none */
    } way;                      /* of a job that is not placed */
};

void cli_plan_json(const struct cli_plan *plan, struct gt_buf *to);
void cli_plan_text(const struct cli_plan *plan, struct gt_buf *to);

const char *cli_plan_node(const struct cli_plan *plan, uint32_t node);
