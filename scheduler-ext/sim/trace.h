/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "scheduler-ext/sim/site.h"

/* A small generator of random numbers (xoshiro256**, seeded by splitmix64): the same seed gives the same
 * numbers on every machine. */
struct gt_rng {
    uint64_t state[4];
};

void gt_rng_seed(struct gt_rng *rng, uint64_t seed);
uint32_t gt_rng_below(struct gt_rng *rng, uint32_t limit); /* 0 to limit - 1, unbiased; 0 for limit 0 */
double gt_rng_exponential(struct gt_rng *rng, double mean);

/*
 * The load of the cluster: a source of jobs (a file or a named distribution), and the list of jobs that is
 * drawn from it for one seed.
 */
enum {
    GT_TRACE_JOBS_MAX = 4 << 20,
    GT_TRACE_JOB_GPUS_MAX = 1 << 16,
    GT_TRACE_TENANTS_MAX = 1 << 16,
    GT_MIX_MAX = 16,
};

/* A row of a trace file. */
struct gt_trace_row {
    double duration;   /* seconds */
    int64_t submitted; /* Unix time; 0: not in the file */
    uint32_t gpus;
    uint32_t tenant; /* its namespace */
};

enum gt_trace_kind {
    GT_TRACE_FILE, /* jobs with run times: Philly */
    GT_TRACE_CDF,  /* a named distribution */
    GT_TRACE_MIX,  /* a few sizes, equally likely */
};

struct gt_size_class {
    uint32_t gpus;
    double share;   /* of the jobs */
    double seconds; /* mean run time */
};

struct gt_trace {
    enum gt_trace_kind kind;
    struct gt_trace_row *rows; /* of a file */
    uint32_t row_count;
    uint32_t tenants;                         /* number of namespaces of the rows; 0: they name none */
    struct gt_size_class classes[GT_MIX_MAX]; /* of a distribution */
    unsigned class_count;
};

/* "seren", "kalos", "philly", "helios", or "mix:1,4,16" (sizes in GPUs). -ENOENT when it is none of these,
 * -EINVAL for a bad mix. */
int gt_trace_from_name(const char *name, struct gt_trace **ret, struct gt_err **err);

/* The text of a file, the Philly jobs. Errors are FILE:LINE: what. The text is changed. */
int gt_trace_from_text(const char *file, char *text, size_t len, struct gt_trace **ret, struct gt_err **err);

void gt_trace_free(struct gt_trace *trace);
GT_DEFINE_CLEANUP(struct gt_trace *, gt_trace_free)
#define gt_auto_trace GT_CLEANUP(gt_trace_free)

/* A job of the simulator. Pods are in rank order and all equal; units and atoms are runs of pods. */
struct gt_sim_job {
    double submit, duration;   /* seconds; duration INFINITY: never ends */
    uint32_t pods, unit, atom; /* atom 0: the units are hard */
    uint32_t gpus;             /* of a pod */
    uint32_t tenant;           /* its namespace */
};

struct gt_draw {
    double load;   /* requested GPU time over available GPU time; without departures: GPUs over GPUs */
    uint32_t jobs; /* number of jobs; without departures as many as the load needs, at most this */
    bool departures;
    bool replay;    /* jobs of a file in their order and at their times, which are scaled to the load */
    bool pool;      /* pods of one GPU that need not lie together: what topology costs */
    uint32_t group; /* GPUs of a unit where possible; 0: drawn, see docs/reference/simulate.md */
    uint32_t atom;  /* GPUs of an atom where possible; 0: units are hard */
    uint64_t seed;
};

struct gt_jobs {
    struct gt_sim_job *job;
    uint32_t count;
    uint32_t tenants; /* number of namespaces; 0: all jobs are of one */
};

/* Draws the jobs, in the order of submission; gt_jobs_done() frees them. */
int gt_trace_draw(const struct gt_trace *trace, const struct gt_site *site, const struct gt_draw *draw,
                  struct gt_jobs *ret, struct gt_err **err);
static inline void gt_jobs_done(struct gt_jobs *jobs)
{
    free(jobs->job);
    jobs->job = NULL;
}
#define gt_auto_jobs __attribute__((cleanup(gt_jobs_done)))
