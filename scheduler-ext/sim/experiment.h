/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/sim/group/engine.h"

/* One experiment: a cluster, a source of jobs, some policies, some seeds. Every policy gets the same jobs. */
enum { GT_EXPERIMENT_POLICIES_MAX = 32, GT_EXPERIMENT_SEEDS_MAX = 1000, GT_EXPERIMENT_JOBS_MAX = 1 << 22 };

struct gt_experiment {
    const struct gt_site *site;
    const struct gt_trace *trace;
    struct gt_draw draw; /* its seed is not used */
    struct gt_group_options group;
    uint64_t seed;
    uint32_t seeds;
    const struct gt_group_policy *policies[GT_EXPERIMENT_POLICIES_MAX];
    uint32_t policy_count;
    struct gt_sim_watch watch; /* progress counts all runs */
};

/* *ret has one report for each policy, in the order of `policies`; gt_experiment_done() frees them. */
int gt_experiment_run(const struct gt_experiment *experiment, struct gt_report **ret, struct gt_err **err);
void gt_experiment_done(struct gt_report *reports, uint32_t count);
