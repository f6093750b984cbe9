/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan.h"

/*
 * Defragmentation advice: which running pods to move away so that a pending job fits. The cluster is not
 * changed.
 *
 * A job of `runs` runs (units, or atoms of soft units), each of `pods` pods of `gpus` GPUs, fits exactly when
 * the supernodes' room for such pods, each divided by `pods` and rounded down, adds up to `runs`. So the cost
 * of removals adds up over nodes and supernodes, and three nested tables (dynamic programming) find the best
 * set: by GPUs on a node, by pods in a supernode, by runs in the cluster. Best is the set with the fewest
 * pods, and of those the one with the fewest GPUs taken from them.
 */

struct gt_advise_job {
    uint32_t runs, pods;
    unsigned gpus;
    uint32_t unit;     /* so many runs lie in one supernode of at most tier `within`; 0: anywhere */
    unsigned within;   /* which gt_advise() does not know */
    uint64_t requests; /* struct gt_numa_pod; 0 also where its pods differ in them */
    uint64_t work;     /* bounds the steps of the tables; 0: 100 million, a fraction of a second */
};

static inline struct gt_numa_pod gt_advise_numa_pod(const struct gt_advise_job *job)
{
    return (struct gt_numa_pod){job->gpus, job->requests};
}

/* What a request asks for. False where the job's runs are not all equal, or have begun. */
bool gt_advise_job_of(const struct gt_plan_request *request, struct gt_advise_job *ret);

struct gt_advice {
    bool possible;   /* false: the job does not fit even when all movable pods leave */
    uint32_t *moved; /* numbers of the pods to move, ascending; NULL where there are none */
    uint32_t count;
    uint32_t gpus; /* GPUs that they free */
};

/* -E2BIG where the tables need more than job->work steps. The caller frees ret->moved. A job that fits
 * already needs no pod to move: possible, count 0. */
int gt_advise(const struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
              const struct gt_advise_job *job, struct gt_advice *ret, struct gt_err **err);
