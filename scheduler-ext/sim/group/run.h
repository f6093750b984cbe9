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
    struct gt_place *places; /* NULL: it has none; a pod without one has GT_NONE */
    uint32_t held;           /* pods with a place */
    uint32_t epoch;
    double since, rate; /* it gets on since then, so much of what it would with all units */
    double ends;
};

/* What jobs need that may have places for some of their pods: parts.c. */
struct sim_parts {
    bool on;
    bool *wanted;            /* [pod] scratch */
    struct gt_place *places; /* [pod] likewise */
    bool *homes;             /* [supernode] likewise: it may use the spare nodes there */
    bool *spare;             /* [node] */
    struct gt_node_set excluded;
    uint32_t *again; /* jobs that are still to be put into the queue, or have another rank there */
    uint32_t again_count;
};

struct sim_tenant { /* a namespace */
    struct gt_queue_share share;
    uint64_t holds;   /* GPUs */
    uint32_t present; /* its jobs that run or wait */
};

/* Nodes that are reserved for the job that has waited for long, as the placement controller keeps them. */
struct sim_holder {
    const struct gt_sim_job *job; /* NULL: none */
    double reserved_until;        /* seconds */
    bool changed;                 /* a reserved node failed or came back: choose again */
    struct gt_node_set reserved;
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
    uint32_t *failed_times; /* [node] */
    bool *dead;             /* [node] */
    struct sim_parts parts;
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

/* It ends, or is interrupted. */
void gt_run_release(struct group_run *run, uint32_t number);

/* A node goes or comes back, or is as if so. */
void gt_run_set_up(struct group_run *run, uint32_t node, bool up);
/* GPUs of a node were taken or given back. */
void gt_run_changed(struct group_run *run, uint32_t node);
/* Pods of one job must lie as the policy says; GPUs must be whole and used once. */
int gt_run_check(const struct group_run *run, const struct gt_sim_job *job, const struct gt_place *places,
                 struct gt_err **err);
/* Counts what it has got on, and lets it get on with another rate after a while. */
int gt_run_set_rate(struct group_run *run, uint32_t number, double rate, double after, struct gt_err **err);
/* Whether its namespace may hold so many GPUs more. */
bool gt_run_may_hold(const struct group_run *run, uint32_t number, uint64_t gpus);

/* ---- spares.c ---- */

/* The spare nodes of its supernode are chosen again. */
void gt_spares_node_changed(struct group_run *run, uint32_t node);

/* ---- start.c, submit.c ---- */

/* Tries to start a job: 1 started, 0 not, or an error. */
int gt_run_start(struct group_run *run, uint32_t number, struct gt_err **err);
/* A job that wants to start or to start again: it starts, waits, or is rejected. */
int gt_run_submit(struct group_run *run, uint32_t number, struct gt_err **err);

/* ---- failing.c: nodes that fail and come back ---- */

int gt_failing_open(struct group_run *run, struct gt_err **err);
int gt_failing_fail(struct group_run *run, uint32_t node, struct gt_err **err);
/* It has been away for long: its pods come again. */
int gt_failing_lose(struct group_run *run, uint32_t node, uint32_t epoch, struct gt_err **err);
int gt_failing_repair(struct group_run *run, uint32_t node, struct gt_err **err);

/* ---- parts.c: jobs that have some of their places ---- */

int gt_parts_open(struct group_run *run, struct gt_err **err);
void gt_parts_done(struct group_run *run);
/* Fewest units with which a job starts. */
uint32_t gt_parts_least(const struct group_run *run, const struct gt_sim_job *job);
/* Plans a job that has not started, the most units that fit, into run->places, and takes them. */
bool gt_parts_start(struct group_run *run, uint32_t number);
/* Places what a job lacks, as far as there is room: 1 it lacks nothing any more, 0 it does, or an error. */
int gt_parts_complete(struct group_run *run, uint32_t number, struct gt_err **err);
/* The part of its units that run. */
double gt_parts_rate(const struct group_run *run, uint32_t number);
/* Whether some of its units have begun and lack pods, or are too few. */
bool gt_parts_is_torn(const struct group_run *run, uint32_t number);
/* What it needs at least, as a request; in holder->units and pods. */
void gt_parts_request(struct group_run *run, uint32_t number, struct gt_plan_request *ret);

/* ---- waiting.c: the jobs that wait ---- */

int gt_waiting_open(struct group_run *run, struct gt_err **err);
void gt_waiting_done(struct group_run *run);
/* A job that just came: 1 it started, 0 it waits now, or an error. */
int gt_waiting_join(struct group_run *run, uint32_t number, struct gt_err **err);
/* Starts of the waiting jobs what now fits. A job like one that just failed is not tried again. */
int gt_waiting_start(struct group_run *run, struct gt_err **err);
/* A job that has some of its places waits for the others, or does no more. */
int gt_waiting_put(struct group_run *run, uint32_t number, struct gt_err **err);
void gt_waiting_remove(struct group_run *run, uint32_t number);
/* A node failed or came back. */
void gt_waiting_node_changed(struct group_run *run, uint32_t node);

#endif
