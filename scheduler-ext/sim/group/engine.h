/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SIM_GROUP_ENGINE_H
#define GPUTOPO_SIM_GROUP_ENGINE_H

#include "scheduler-ext/sim/group/policy.h"
#include "scheduler-ext/sim/result.h"

/* Runs jobs through a cluster in simulated time: arrivals, departures, failing nodes. The order of those that
 * wait is the placement controller's own code, core/queue.h. */
enum gt_queue_policy {
    GT_QUEUE_NONE,     /* a job that does not fit at once is rejected */
    GT_QUEUE_FIFO,     /* waits; nobody overtakes the first that waits */
    GT_QUEUE_BACKFILL, /* waits; later ones that fit go first, but for nodes that are kept for the one that
                          waits longest */
    GT_QUEUE_TURNS,    /* the same, and namespaces take turns */
};

struct gt_group_options {
    enum gt_queue_policy queue;
    double patience;             /* seconds until nodes are kept for a job that waits; INFINITY: none are */
    double turn;                 /* seconds for which they are; 0: for ever */
    double warm_up;              /* part of the jobs before anything is measured, 0 to below 1 */
    double mtbf;                 /* mean seconds to the failure of a node; 0: none fails */
    double repair;               /* mean seconds until it is back */
    uint64_t seed;               /* of the policy's and the failures' random numbers */
    double loss_weight;          /* of gpu-aware */
    struct gt_chain_sizes chain; /* of gputopo; none: it learns it */
    bool check;                  /* recount the whole state now and then: slow, for tests */
    struct gt_sim_watch watch;
};

/* Places every job by the policy. -EUCLEAN when the policy broke a rule: GPUs used twice, a unit torn that it
 * had to keep. */
int gt_group_run(const struct gt_site *site, const struct gt_jobs *jobs, const struct gt_group_policy *policy,
                 const struct gt_group_options *options, struct gt_result *ret, struct gt_err **err);

#endif
