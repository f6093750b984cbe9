/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/sim/group/policy.h"
#include "scheduler-ext/sim/links.h"
#include "scheduler-ext/sim/result.h"

/* What is measured while jobs run, from the first job after the warm-up to the last. */
enum { GT_SPREADS = 1024 }; /* a unit on more supernodes counts as so many */

/* Jobs by size: up to a node, up to a supernode, larger. */
enum gt_meter_class { GT_METER_NODE, GT_METER_SUPERNODE, GT_METER_LARGER, GT_METER_CLASSES };

/* Supernodes, leaves or spines: of the jobs that need several domains of the tier below (at first, nodes). */
struct gt_meter_tier {
    uint32_t *gpus;  /* of the domains, the largest first; NULL: there is no such tier */
    uint32_t supers; /* of a domain, in a row */
    uint32_t domains, jobs, in_one;
    double sum, bound_sum; /* domains of these jobs; the fewest that hold them in the empty cluster */
};

struct gt_meter {
    struct gt_world *world;
    const struct gt_jobs *jobs;
    double begin, end, now;
    double used_area, up_area, work;
    double asked, accepted;         /* GPU seconds; GPUs where jobs never end */
    double all_asked, all_accepted; /* from the start, for the series */
    double spread_sum, spread_bound_sum, fragmentation_sum, link_fragmentation_sum;
    double recent_spread; /* sum over the units since the last sample */
    double last_spread;
    double wait_sum, gpu_wait_sum, gpu_sum;
    double slowdown_sum[GT_METER_CLASSES];
    uint32_t slowdown_count[GT_METER_CLASSES];
    uint32_t class_gpus[GT_METER_CLASSES - 1]; /* of the largest job of all but the last class */
    double *waits, *first_waits;
    struct gt_meter_tier tiers[1 + GT_SITE_UPPER];
    bool *ran;   /* [job] started before */
    bool *alone; /* [job] its namespace had no other job when it was submitted */
    uint64_t nanoseconds, decisions;
    uint32_t first;      /* job after the warm-up */
    uint32_t unit, gpus; /* the largest unit: pods, GPUs of a pod; fragmentation is measured for it */
    uint32_t submitted, started, rejected, interrupted, moved;
    uint32_t units, fragmentation_count, wait_count, first_wait_count, recent_units, samples;
    uint32_t spread[GT_SPREADS]; /* [supernodes] number of units */
    struct gt_sample series[GT_SERIES_MAX];
    struct gt_links links;
    bool lasting; /* jobs never end */
};

int gt_meter_open(struct gt_meter *meter, struct gt_world *world, const struct gt_jobs *jobs, double warm_up,
                  uint32_t unit, uint32_t gpus, struct gt_err **err);
void gt_meter_done(struct gt_meter *meter);

void gt_meter_advance(struct gt_meter *meter, double now);
/* `alone`: its namespace has no other job that runs or waits. */
void gt_meter_submitted(struct gt_meter *meter, uint32_t job, bool alone);
void gt_meter_started(struct gt_meter *meter, uint32_t job, double now, double seconds,
                      const struct gt_place *places);
void gt_meter_finished(struct gt_meter *meter, uint32_t job, double now);
void gt_meter_rejected(struct gt_meter *meter);
void gt_meter_interrupted(struct gt_meter *meter, uint32_t job, double left);
/* One of the job's nodes failed; it still has its other places. */
void gt_meter_stopped(struct gt_meter *meter);
/* A unit of a job got new places. */
void gt_meter_moved(struct gt_meter *meter);
/* `gpus` GPUs of a job made progress from `since` until `until`. */
void gt_meter_worked(struct gt_meter *meter, double since, double until, double gpus);
void gt_meter_result(struct gt_meter *meter, struct gt_result *ret);
