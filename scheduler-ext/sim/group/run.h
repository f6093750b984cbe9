/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "scheduler-ext/core/drain.h"
#include "scheduler-ext/core/queue.h"
#include "scheduler-ext/sim/group/engine.h"
#include "scheduler-ext/sim/group/policy.h"
#include "scheduler-ext/sim/result.h"
#include "scheduler-ext/sim/site.h"

/* The bandwidth between GPUs: how much of it pods got, and how much free GPUs have left. Zeroed: not open. */
struct gt_links {
    struct gt_cluster *model;
    uint32_t nodes;
    int64_t best[GT_GPUS_MAX + 1]; /* [GPUs] the best on any empty node; -1: not computed yet */
    double share_sum;
    uint32_t share_count;
};

int gt_links_open(struct gt_links *links, const struct gt_site *site, struct gt_err **err);
void gt_links_done(struct gt_links *links);

/* Adds a pod that got these GPUs; it does not count where no node could give it a pair of linked GPUs. */
void gt_links_add(struct gt_links *links, uint32_t node, uint64_t mask);

/* Mean over the pods: the bandwidth among a pod's GPUs over the best that as many GPUs have on an empty node.
 * 1 where none counts. */
double gt_links_share(const struct gt_links *links);

/* The fraction of the free GPUs' bandwidth that is lost because not all GPUs of their nodes are free: 1 -
 * S(free) / (S(all) x free / all), each sum over all nodes; 0 where there is none to lose. */
double gt_links_fragmentation(const struct gt_links *links, uint64_t (*free)(const void *arg, uint32_t node),
                              const void *arg);

/* Jobs by size: up to a node, up to a supernode, larger. */
enum gt_meter_class { GT_METER_NODE, GT_METER_SUPERNODE, GT_METER_LARGER, GT_METER_CLASSES };

/* Supernodes, leaves, spines or halls: of the jobs that need several domains of the tier below (at first,
 * nodes). */
struct gt_meter_tier {
    uint32_t *gpus;            /* of the domains, the largest first; NULL: there is no such tier */
    const uint32_t *domain_of; /* [supernode], of the site; NULL: it is the supernode */
    uint32_t domains, jobs, in_one;
    double sum, bound_sum; /* domains of these jobs; the fewest that hold them in the empty cluster */
};

/* What is measured while jobs run, from the first job after the warm-up to the last. */
struct gt_meter {
    struct gt_world *world;
    const struct gt_jobs *jobs;
    double begin, end, now;
    double used_area, up_area, work;
    double asked, accepted;         /* GPU seconds; GPUs where jobs never end */
    double all_asked, all_accepted; /* from the start, for the series */
    double spread_sum, fragmentation_sum, link_fragmentation_sum;
    double recent_spread; /* sum over the units since the last sample */
    double last_spread;
    double wait_sum, gpu_wait_sum, gpu_sum;
    double slowdown_sum[GT_METER_CLASSES];
    uint32_t slowdown_count[GT_METER_CLASSES];
    uint32_t class_gpus[GT_METER_CLASSES - 1]; /* of the largest job of all but the last class */
    double *waits, *first_waits;
    struct gt_meter_tier tiers[1 + GT_SITE_UPPER];
    bool *ran;       /* [job] started before */
    bool *alone;     /* [job] its namespace had no other job when it was submitted */
    uint32_t *moves; /* [job] how often units of it moved */
    uint64_t nanoseconds, decisions;
    uint32_t first;      /* job after the warm-up */
    uint32_t unit, gpus; /* the largest unit: pods, GPUs of a pod; fragmentation is measured for it */
    uint32_t submitted, started, rejected, interrupted, moved;
    uint32_t units, split, fragmentation_count, wait_count, first_wait_count, recent_units, samples;
    struct gt_sample series[GT_SERIES_MAX];
    struct gt_links links;
    bool lasting; /* jobs never end */
};

struct group_run;
/* `unit`, `gpus`: of the largest unit. */
int gt_meter_open(struct group_run *run, uint32_t unit, uint32_t gpus, struct gt_err **err);
void gt_meter_done(struct gt_meter *meter);

void gt_meter_advance(struct gt_meter *meter, double now);
/* `alone`: its namespace has no other job that runs or waits. */
void gt_meter_submitted(struct gt_meter *meter, uint32_t job, bool alone);
void gt_meter_started(struct gt_meter *meter, uint32_t job, double now, double seconds,
                      const struct gt_place *places);
void gt_meter_finished(struct gt_meter *meter, uint32_t job, double now);
void gt_meter_rejected(struct gt_meter *meter);
void gt_meter_interrupted(struct gt_meter *meter, uint32_t job, double left);
/* A unit of the job got new places. */
void gt_meter_moved(struct gt_meter *meter, uint32_t job);
/* `gpus` GPUs of a job made progress from `since` until `until`. */
void gt_meter_worked(struct gt_meter *meter, double since, double until, double gpus);
void gt_meter_result(struct gt_meter *meter, struct gt_result *ret);

/* A heap of events by time; events of equal time in the order of adding. */
enum gt_event_kind { GT_EVENT_END, GT_EVENT_FAIL, GT_EVENT_REPAIR, GT_EVENT_PATIENCE };

struct gt_event {
    double time;
    uint64_t order;
    enum gt_event_kind kind;
    uint32_t subject; /* job or node */
    uint32_t epoch;   /* of the job: events of older epochs are ignored */
};

struct gt_heap {
    struct gt_event *event;
    uint32_t count, capacity;
    uint64_t added;
};

int gt_heap_add(struct gt_heap *heap, struct gt_event event, struct gt_err **err);
struct gt_event gt_heap_take(struct gt_heap *heap); /* count must not be 0 */
static inline void gt_heap_done(struct gt_heap *heap)
{
    free(heap->event);
}

/* The state of one run of the engine, and the functions that its files share. */
struct running {
    struct gt_place *places; /* of all pods; NULL: none */
    uint32_t epoch;
    double since; /* it makes progress since then */
    double ends;
    double joined; /* when it began to wait */
};

struct sim_tenant { /* a namespace */
    struct gt_queue_share share;
    uint64_t used;    /* GPUs */
    uint32_t present; /* its jobs that run or wait */
};

/* Moves for waiting jobs: moving.c. */
struct sim_moves {
    uint32_t waiting;     /* the first job that they could make room for; GT_NONE: none */
    double *times;        /* of all units that have moved */
    uint32_t first, made; /* the first one of the last 24 hours; how many in all */
    uint32_t capacity;
};

/* The nodes that are reserved for a job that has waited for long, as by the placement controller. */
struct sim_holder {
    const struct gt_sim_job *job; /* NULL: none */
    double reserved_until;        /* seconds */
    bool changed;                 /* a reserved node failed or was repaired: choose again */
    struct gt_node_set reserved;
    struct gt_node_set shut; /* reserved nodes with free GPUs, while other jobs are placed */
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
    struct running *running;    /* [job] */
    double *left;               /* [job] seconds still to run */
    struct sim_tenant *tenants; /* [tenant], and one for all jobs where there are no fair shares */
    struct gt_queue *queue;
    struct sim_holder holder;
    struct sim_moves moves;
    struct {
        struct gt_err *failed; /* in the queue's calls */
        bool stop;             /* fifo: the first waiting job found no room */
    } round;                   /* of the queue */
    struct {
        uint32_t waiting, running;
        uint64_t arrivals;   /* that had to wait */
    } counts;                /* of jobs */
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

/* A job begins and ends to be in the cluster: from its submission until it ends, is interrupted or
 * rejected. */
void gt_run_come(struct group_run *run, uint32_t number);
void gt_run_go_away(struct group_run *run, uint32_t number);

/* Gives back its GPUs: it ends, or is interrupted. */
void gt_run_release(struct group_run *run, uint32_t number);

/* A node fails or is repaired, or counts as such. */
void gt_run_set_up(struct group_run *run, uint32_t node, bool up);
/* GPUs of a node were taken or given back. */
void gt_run_changed(struct group_run *run, uint32_t node);
/* Checks that the places of a job's pods follow the policy's rules, and that no GPU is used twice. */
int gt_run_check(const struct group_run *run, const struct gt_sim_job *job, const struct gt_place *places,
                 struct gt_err **err);
/* It goes on after so many seconds. */
int gt_run_go_on(struct group_run *run, uint32_t number, double after, struct gt_err **err);
/* Counts its progress so far. */
void gt_run_count(struct group_run *run, uint32_t number);
/* Whether its namespace may use `gpus` more GPUs. */
bool gt_run_may_use(const struct group_run *run, uint32_t number, uint64_t gpus);

/* Tries to start a job: 1 started, 0 not, or an error. */
int gt_run_start(struct group_run *run, uint32_t number, struct gt_err **err);

/* ---- failing.c: nodes that fail and are repaired ---- */

int gt_failing_open(struct group_run *run, struct gt_err **err);
int gt_failing_fail(struct group_run *run, uint32_t node, struct gt_err **err);
int gt_failing_repair(struct group_run *run, uint32_t node, struct gt_err **err);

/* ---- waiting.c: the jobs that wait ---- */

int gt_waiting_open(struct group_run *run, struct gt_err **err);
void gt_waiting_done(struct group_run *run);
/* A job that wants to start or to start again: it starts, waits, or is rejected. */
int gt_waiting_submit(struct group_run *run, uint32_t number, struct gt_err **err);
/* Starts those waiting jobs that fit now. Of jobs of the same shape only one is tried in vain. */
int gt_waiting_start(struct group_run *run, struct gt_err **err);
/* A node failed or was repaired. */
void gt_waiting_node_changed(struct group_run *run, uint32_t node);

/* ---- moving.c: moves for waiting jobs ---- */

/* The job waits from now on. */
int gt_moving_joined(struct group_run *run, uint32_t number, struct gt_err **err);
/* There is no room for the job, which was tried in its turn. */
void gt_moving_blocked(struct group_run *run, uint32_t number);
/* Moves pods so that the first waiting job fits that moves can make room for. 1: it fits now; 0: nothing
 * moved. */
int gt_moving_make_room(struct group_run *run, struct gt_err **err);
