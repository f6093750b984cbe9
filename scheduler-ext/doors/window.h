/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DOORS_WINDOW_H
#define GPUTOPO_DOORS_WINDOW_H

#include "scheduler-ext/core/score.h"
#include "scheduler-ext/placement/controller.h"

/* What the companion's windows for people look at: /debug/model, /explain, and through the former /ui. They
 * change nothing. */
struct gt_window {
    struct gt_feed *feed;
    const struct gt_placement *placement; /* NULL: that part is off */
    struct gt_aware_weights weights;      /* those of the feed's cluster */
    bool leads;                           /* this replica is the one that writes */
    bool synced;                          /* the feed has seen all there is */
    uint64_t now_ms;                      /* gt_clock_ms() */
    uint64_t wall_ms;                     /* Unix time at the same moment */
};

enum gt_window_gpu { GT_WINDOW_FREE, GT_WINDOW_USED, GT_WINDOW_ASSUMED, GT_WINDOW_ILL };

enum gt_window_gpu gt_window_gpu_state(const struct gt_cluster_node *node, unsigned gpu);
const char *gt_window_gpu_name(enum gt_window_gpu state);

/* The controller's word on a job; GT_PLACEMENT_NONE where it has none. */
void gt_window_job(const struct gt_window *window, const struct gt_feed_job *job,
                   struct gt_placement_job *ret);

/* That state in one word, or where the controller has none how far its pods are: "gated", "pending",
 * "starting", "running". */
const char *gt_window_job_state(const struct gt_feed_job *job, const struct gt_placement_job *info);
/* Whether that is all right, so that nobody need look at it. */
bool gt_window_is_settled(const struct gt_feed_job *job, const struct gt_placement_job *info);

const char *gt_window_pod_state(const struct gt_feed_pod *pod);
const char *gt_window_plan_state(const struct gt_feed_pod *pod);

/* The GPUs that a pod has, or that are kept for it, and the node; 0 and GT_NONE: none. */
uint64_t gt_window_pod_gpus(const struct gt_window *window, const struct gt_feed_pod *pod,
                            uint32_t *ret_node);

/* Number of its unit, or rank, as its plan tells; GT_NONE: it does not. */
uint32_t gt_window_pod_number(const struct gt_feed_pod *pod, const char *annotation);

/* What the pods of a job ask for in all. */
uint64_t gt_window_job_gpus(const struct gt_feed_job *job);

/* How many units its plan has, by its pods; 0: none is known. */
uint32_t gt_window_job_units(const struct gt_feed_job *job);

/* An annotation that one pod of a job has, which speaks for all; NULL: none has it. */
const char *gt_window_job_annotation(const struct gt_feed_job *job, const char *key);

/* What kind of object made its pods: "PyTorchJob", "ReplicaSet". */
const char *gt_window_job_kind(const struct gt_feed_job *job);

#endif
