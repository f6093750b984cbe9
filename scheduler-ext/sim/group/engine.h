/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/sim/group/policy.h"
#include "scheduler-ext/sim/result.h"

/* Runs jobs through a cluster in simulated time: arrivals, departures, failing nodes. Waiting jobs are
 * ordered by the placement controller's own code, core/queue.h. */
enum gt_queue_policy {
    GT_QUEUE_NONE,     /* a job that does not fit at once is rejected */
    GT_QUEUE_FIFO,     /* waits; no job overtakes the first waiting one */
    GT_QUEUE_BACKFILL, /* waits; later jobs that fit may overtake, except on nodes that are reserved for the
                          job that waits longest */
    GT_QUEUE_FAIR,     /* the same, with fair shares of namespaces */
};

struct gt_group_options {
    enum gt_queue_policy queue;
    double patience;           /* seconds until nodes are reserved for a waiting job; INFINITY: never */
    double reservation;        /* seconds of this reservation; 0: no end */
    uint32_t reserved_percent; /* of the GPUs that may be reserved, at least one node; 0: all */
    double warm_up;            /* fraction of the jobs before the measurement begins, 0 to below 1 */
    double mtbf;               /* mean seconds between failures of a node; 0: none fails. Its jobs are
                                  submitted again */
    double repair;             /* mean seconds until it is repaired */
    double restart;            /* seconds without progress for a job of which units move */
    uint32_t moves_a_day;      /* units that move for waiting jobs in 24 hours; 0: none. They need
                                  gt_group_policy.model */
    double quota;              /* fraction of the GPUs that a namespace may use; 0: all */
    uint64_t seed;             /* of the random numbers of policy and failures */
    double loss_weight;        /* of gpu-aware */
    unsigned close;            /* of gputopo; as in struct gt_group_setup */
    bool check;                /* recount the whole state sometimes: slow, for tests */
    struct gt_sim_watch watch;
};

/* Runs all jobs with the policy. -EUCLEAN when the policy broke a rule: GPUs used twice, or a unit not kept
 * in one supernode although it had to be. */
int gt_group_run(const struct gt_site *site, const struct gt_jobs *jobs, const struct gt_group_policy *policy,
                 const struct gt_group_options *options, struct gt_result *ret, struct gt_err **err);

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
