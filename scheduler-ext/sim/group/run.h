/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SIM_GROUP_RUN_H
#define GPUTOPO_SIM_GROUP_RUN_H

#include "scheduler-ext/core/drain.h"
#include "scheduler-ext/core/queue.h"
#include "scheduler-ext/sim/group/engine.h"
#include "scheduler-ext/sim/group/heap.h"
#include "scheduler-ext/sim/group/meter.h"

/* One run of the engine, and what its files ask of each other. */
struct running {
    struct gt_place *places; /* NULL: not running */
    uint32_t epoch;
    double ends;
};

struct sim_tenant { /* a namespace */
    struct gt_queue_share share;
    uint64_t holds;   /* GPUs */
    uint32_t present; /* its jobs that run or wait */
};

/* Nodes that are kept for the job that has waited for long, as the placement controller keeps them. */
struct sim_holder {
    const struct gt_sim_job *job; /* NULL: none */
    double turn_ends;             /* seconds */
    bool changed;                 /* a kept node failed or came back: choose anew */
    struct gt_node_set kept;
    struct gt_node_set shut; /* of those that have free GPUs, while others are placed */
    struct gt_cluster *model;
    struct gt_plan_unit *units; /* scratch of its plan */
    struct gt_plan_pod *pods;
};

struct group_run {
    const struct gt_jobs *jobs;
    const struct gt_group_policy *policy;
    const struct gt_group_options *options;
    struct gt_world *world;
    void *state;
    struct gt_heap heap;
    struct running *running; /* [job] */
    double *left;            /* [job] seconds still to run */
    struct sim_tenant
        *tenants; /* [tenant], and one that holds nothing: of all jobs where there are no turns */
    struct gt_queue *queue;
    struct sim_holder holder;
    struct gt_err *failed; /* in the queue's calls */
    uint32_t wait_count, run_count;
    uint64_t arrivals;       /* that had to wait */
    bool stop;               /* fifo: the first in line found no room in this round */
    struct gt_place *places; /* of the job that is being placed */
    struct gt_rng failures;
    struct gt_meter meter;
    double now;
    uint32_t decisions, pods_max;
};

static inline struct sim_tenant *gt_run_tenant(const struct group_run *run, uint32_t number)
{
    return &run->tenants[run->jobs->job[number].tenant];
}

/* ---- run.c: single steps ---- */

/* A job is in the cluster, from when it wants to start until it ends, is interrupted or rejected. */
void gt_run_come(struct group_run *run, uint32_t number);
void gt_run_go_away(struct group_run *run, uint32_t number);

/* Tries to start a job: 1 started, 0 not, or an error. */
int gt_run_start(struct group_run *run, uint32_t number, struct gt_err **err);
/* It ends, or is interrupted. */
void gt_run_release(struct group_run *run, uint32_t number);

/* A node goes or comes back, or is as if so. */
void gt_run_set_up(struct group_run *run, uint32_t node, bool up);

/* ---- waiting.c: the jobs that wait ---- */

int gt_waiting_open(struct group_run *run, struct gt_err **err);
void gt_waiting_done(struct group_run *run);
/* A job that just came: 1 it started, 0 it waits now, or an error. */
int gt_waiting_join(struct group_run *run, uint32_t number, struct gt_err **err);
/* Starts of the waiting jobs what now fits. A job like one that just failed is not tried again. */
int gt_waiting_start(struct group_run *run, struct gt_err **err);
/* A node failed or came back. */
void gt_waiting_node_changed(struct group_run *run, uint32_t node);

#endif
