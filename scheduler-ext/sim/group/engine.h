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
    GT_QUEUE_BACKFILL, /* waits; later ones that fit go first, except for nodes that are reserved for the one
                          that waits longest */
    GT_QUEUE_FAIR,     /* the same, and namespaces take turns */
};

/* What a failed node means for the jobs on it. */
enum gt_sim_node_loss {
    GT_SIM_LOSS_RESTART, /* all of the job ends, and it comes again */
    GT_SIM_LOSS_WAIT,    /* as on-node-loss: wait: its pods come again, where their unit is */
    GT_SIM_LOSS_UNIT,    /* as on-node-loss: unit: where that has no room, the unit moves */
};

struct gt_sim_outage { /* of a node */
    double from, until;
    uint32_t node;
};

struct gt_group_options {
    enum gt_queue_policy queue;
    double patience;           /* seconds until nodes are reserved for a job that waits; INFINITY: none are */
    double reservation;        /* seconds for which they are; 0: for ever */
    uint32_t reserved_percent; /* of the GPUs that may be kept, or one node; 0: all */
    double warm_up;            /* part of the jobs before anything is measured, 0 to below 1 */
    double mtbf;               /* mean seconds to the failure of a node; 0: none fails */
    double repair;             /* mean seconds until it is back */
    const struct gt_sim_outage *outages; /* besides those that are drawn: for tests */
    uint32_t outage_count;
    enum gt_sim_node_loss node_loss;
    double lost_after;           /* seconds until the pods of a failed node come again */
    double restart;              /* seconds without progress, where pods come again or units are added */
    uint32_t spares;             /* wholly free nodes of a supernode that are left to pods that come again */
    double minimum;              /* part of its units with which a job starts; 0 or 1: all */
    double quota;                /* part of the GPUs that a namespace may hold; 0: all */
    uint64_t seed;               /* of the policy's and the failures' random numbers */
    double loss_weight;          /* of gpu-aware */
    struct gt_chain_sizes chain; /* of gputopo; none: it learns it */
    bool check;                  /* recount the whole state now and then: slow, for tests */
    struct gt_sim_watch watch;
};

/* Whether these options need a policy that can place a part of a job (gt_group_policy.plan). */
bool gt_group_needs_parts(const struct gt_group_options *options);

/* Places every job by the policy. -EUCLEAN when the policy broke a rule: GPUs used twice, a unit torn that it
 * had to keep. */
int gt_group_run(const struct gt_site *site, const struct gt_jobs *jobs, const struct gt_group_policy *policy,
                 const struct gt_group_options *options, struct gt_result *ret, struct gt_err **err);

#endif
