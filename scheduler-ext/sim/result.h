/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/*
 * The results of one run of one policy. Shares are 0 to 1. Definitions: docs/reference/simulate.md.
 */
enum { GT_SERIES_MAX = 256 };

struct gt_sample { /* at equal steps of the run */
    double at;     /* seconds; where jobs never end: requested GPUs over all GPUs */
    double occupancy, acceptance, spread, fragmentation;
};

/* X(key in JSON, field) for every number of a run of which reports have the mean over seeds. */
#define GT_RESULT_FIELDS(X)                                                                                  \
    X("jobs", jobs)                                                                                          \
    X("placed", placed)                                                                                      \
    X("rejected", rejected)                                                                                  \
    X("interrupted", interrupted)                                                                            \
    X("acceptance", acceptance)                                                                              \
    X("occupancy", occupancy)                                                                                \
    X("fragmentation", fragmentation)                                                                        \
    X("linkFragmentation", link_fragmentation)                                                               \
    X("splitShare", split_share)                                                                             \
    X("spreadMean", spread_mean)                                                                             \
    X("jobsInOne", jobs_in_one)                                                                              \
    X("jobSupernodes", job_supernodes)                                                                       \
    X("jobSupernodesBound", job_supernodes_bound)                                                            \
    X("jobsInOneLeaf", jobs_in_one_leaf)                                                                     \
    X("jobLeaves", job_leaves)                                                                               \
    X("jobLeavesBound", job_leaves_bound)                                                                    \
    X("jobsInOneSpine", jobs_in_one_spine)                                                                   \
    X("jobSpines", job_spines)                                                                               \
    X("jobSpinesBound", job_spines_bound)                                                                    \
    X("jobsInOneHall", jobs_in_one_hall)                                                                     \
    X("jobHalls", job_halls)                                                                                 \
    X("jobHallsBound", job_halls_bound)                                                                      \
    X("linkShare", link_share)                                                                               \
    X("served", served)                                                                                      \
    X("worked", worked)                                                                                      \
    X("moved", moved)                                                                                        \
    X("jobsMoved", jobs_moved)                                                                               \
    X("movedMost", moved_most)                                                                               \
    X("waitMean", wait_mean)                                                                                 \
    X("waitGpuMean", wait_gpu_mean)                                                                          \
    X("slowdownNode", slowdown_node)                                                                         \
    X("slowdownSupernode", slowdown_supernode)                                                               \
    X("slowdownLarger", slowdown_larger)                                                                     \
    X("waitP50", wait_p50)                                                                                   \
    X("waitP99", wait_p99)                                                                                   \
    X("waitFirstP99", wait_first_p99)                                                                        \
    X("decisionsPerSecond", decisions_per_second)

struct gt_result {
#define X(key, field) double field;
    GT_RESULT_FIELDS(X)
#undef X
    uint32_t fragmentation_size; /* GPUs of the unit for which fragmentation is measured */
    struct gt_sample series[GT_SERIES_MAX];
    uint32_t samples;
};

/* Callbacks of a run, so that the caller can measure time and show progress. */
struct gt_sim_watch {
    uint64_t (*nanoseconds)(void); /* a clock, to time decisions; NULL: decisionsPerSecond is 0 */
    void (*progress)(void *arg, uint32_t done, uint32_t total); /* NULL: not needed */
    void *arg;
};

/* A policy with its runs, one for each seed. */
struct gt_report {
    const char *policy;
    uint64_t seed; /* of the first run */
    uint32_t runs;
    struct gt_result *run;
};

/* Mean over the runs, and half the width of its 95 % confidence interval (Student's t; 0 for one run). */
struct gt_mean {
    double mean, ci95;
};
struct gt_mean gt_report_mean(const struct gt_report *report, double (*get)(const struct gt_result *run));

/* Writers, report.c. `title` names the experiment. */
void gt_report_table(const struct gt_report *reports, uint32_t count, const char *title, struct gt_buf *to);
void gt_report_csv(const struct gt_report *reports, uint32_t count, struct gt_buf *to);
void gt_report_json(const struct gt_report *reports, uint32_t count, struct gt_buf *to);
