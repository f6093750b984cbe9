/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/sim/result.h"
#include "tests/bench/sim/pods/policy.h"

/*
 * The static protocol of the FGD paper (Weng et al., USENIX ATC 2023): the pods of the list in random order,
 * then pods drawn from it, until the requested GPUs reach `load` times those of the cluster. Every pod that
 * fits somewhere is placed and stays. The order of nodes is random for each seed, as in the paper's
 * simulator.
 */
struct gt_pod_options {
    double load;        /* 1.3 for the published protocol */
    bool random_ties;   /* a random node among equal ones; else the first in the order of this seed */
    bool gpu_only;      /* CPU and memory count for feasibility only, not for scores */
    double loss_weight; /* of gpu-aware */
    uint64_t seed;
};

int gt_pod_run(const struct openb_nodes *nodes, const struct openb_pods *pods,
               const struct gt_pod_policy *policy, const struct gt_pod_options *options,
               struct gt_result *ret, struct gt_err **err);
