/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUEUE_ADMISSION_H
#define GPUTOPO_KUEUE_ADMISSION_H

#include "api/workload.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/plan.h"

/*
 * The AdmissionCheck of Kueue: of a Workload that has quota, whether supernodes can take its units now, by
 * the same plan that its pods would get. No I/O and no clock. One thread.
 *
 * Ready: they can, or it asks for no groups. Its places, and what its pods need there besides GPUs, count as
 * taken for other Workloads until its pods have their plan, it loses its quota, or HOLD_MS have gone.
 *
 * Retry: they cannot. Kueue gives the quota to others meanwhile and asks again: after 10 s, then twice as
 * long each time, 60 s at most. Not before QUOTA_GRACE_MS with quota: pods that were preempted for it are
 * still ending.
 *
 * Rejected: they never will. It breaks a rule, or a unit is larger than any supernode with nobody on it.
 */
struct gt_admission;

enum { GT_ADMISSION_WORKLOADS_MAX = 50000, GT_ADMISSION_CHECKS_MAX = 64, GT_ADMISSION_FLAVORS_MAX = 1024 };

struct gt_admission_spec {
    struct gt_cache *cache;
    const char *resource; /* of GPUs; lives as long */
    /* Nodes that are reserved for a job which waits; NULL: there are none. */
    bool (*is_node_reserved)(void *arg, uint32_t node);
    void *kept_arg;
    /* A Workload has this verdict; it may be written. False: it could not be, and is decided again later. */
    bool (*decided)(void *arg, const struct gt_workload *workload, const char *const checks[],
                    unsigned check_count, const struct gt_check_verdict *verdict);
    void *arg;
};

int gt_admission_new(const struct gt_admission_spec *spec, struct gt_admission **ret, struct gt_err **err);
void gt_admission_free(struct gt_admission *admission); /* NULL is allowed */
GT_DEFINE_CLEANUP(struct gt_admission *, gt_admission_free)
#define gt_auto_admission GT_CLEANUP(gt_admission_free)

/* Names of the AdmissionChecks that are ours, and active. */
void gt_admission_add_check(struct gt_admission *admission, const char *name);
void gt_admission_remove_check(struct gt_admission *admission, const char *name);

/* A ResourceFlavor: the labels of its nodes, and what it tolerates. */
void gt_admission_put_flavor(struct gt_admission *admission, const cJSON *object);
void gt_admission_remove_flavor(struct gt_admission *admission, const char *name);

/* An object was added or has changed, or is gone. -EINVAL where it is invalid; it counts as gone. */
int gt_admission_put(struct gt_admission *admission, const cJSON *object, struct gt_err **err);
void gt_admission_remove(struct gt_admission *admission, const char *namespace_, const char *name);

/* What was decided could not be written: it is decided again, not before `now_ms` + 5 s. */
void gt_admission_failed(struct gt_admission *admission, const char *namespace_, const char *name,
                         uint64_t now_ms);

/* Decides what is to be decided, the highest priority first, and returns when it wants to be called again;
 * UINT64_MAX: when something has changed. `now_s` is Unix time. */
uint64_t gt_admission_decide(struct gt_admission *admission, uint64_t now_ms, int64_t now_s);

struct gt_admission_counters {
    uint64_t decided[GT_CHECK_STATES];
    uint32_t workloads, held; /* held: Ready, and not planned yet */
    uint64_t refused;         /* objects that made no sense */
};
void gt_admission_counters(const struct gt_admission *admission, struct gt_admission_counters *ret);

#endif
