/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SIM_POD_ENGINE_H
#define GPUTOPO_SIM_POD_ENGINE_H

#include "scheduler-ext/sim/pod/policy.h"
#include "scheduler-ext/sim/result.h"

/*
 * The static protocol: the pods of the list in random order, then pods drawn from it, until the GPUs asked
 * for reach `load` times those of the cluster. Every pod that fits somewhere is placed and stays. The nodes
 * are in a random order, one for each seed, as the paper's simulator names them.
 */
struct gt_pod_options {
    double load;        /* 1.3 for the published protocol */
    bool random_ties;   /* of equal nodes a random one; else the first in the order of this seed */
    bool gpu_only;      /* scores see no CPU: it and memory decide only where a pod fits */
    double loss_weight; /* of gpu-aware */
    uint64_t seed;
    struct gt_sim_watch watch;
};

int gt_pod_run(const struct gt_site *site, const struct gt_trace *trace, const struct gt_pod_policy *policy,
               const struct gt_pod_options *options, struct gt_result *ret, struct gt_err **err);

#endif
