/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/workload.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/owners/owners.h"

/*
 * The AdmissionCheck of Kueue: decides for a Workload that has quota whether supernodes have room for its
 * units now, with the same plan that its pods would get. No I/O and no clock. One thread.
 *
 * Ready: there is room, or it asks for no groups. Its places, with all resources of its pods, are reserved
 * against other Workloads until its pods have their plan, it loses its quota, or HOLD_MS have passed.
 *
 * Retry: there is no room. Kueue then releases the quota and tries again after 10 s, then after twice as long
 * each time, at most 60 s. This verdict is not given before the Workload has had quota for QUOTA_GRACE_MS,
 * since pods that were preempted for it may still be ending.
 *
 * Rejected: it breaks a rule, and Kueue deactivates it. A Workload that would never fit is Retry,
 * since hardware may come, and the text names the nodes that are missing.
 */
struct gt_admission;

enum { GT_ADMISSION_WORKLOADS_MAX = 50000, GT_ADMISSION_CHECKS_MAX = 64, GT_ADMISSION_FLAVORS_MAX = 1024 };

struct gt_admission_spec {
    struct gt_cache *cache;
    const char *resource;           /* of GPUs; must outlive the admission */
    const struct gt_owners *owners; /* the objects that Workloads are made from; NULL: they are not known */
    /* To write the verdict on a Workload. False: it could not be written, and is decided again later. */
    bool (*decided)(void *arg, const struct gt_workload *workload, const char *const checks[],
                    unsigned check_count, const struct gt_check_verdict *verdict);
    void *arg;
};

int gt_admission_new(const struct gt_admission_spec *spec, struct gt_admission **ret, struct gt_err **err);
void gt_admission_free(struct gt_admission *admission); /* NULL is allowed */
GT_DEFINE_CLEANUP(struct gt_admission *, gt_admission_free)
#define gt_auto_admission GT_CLEANUP(gt_admission_free)

/* Forgets all checks, flavors and Workloads. */
void gt_admission_clear(struct gt_admission *admission);

/* Adds or removes the name of an active AdmissionCheck that is ours. */
void gt_admission_add_check(struct gt_admission *admission, const char *name);
void gt_admission_remove_check(struct gt_admission *admission, const char *name);

/* A ResourceFlavor: the labels of its nodes, and what it tolerates. */
void gt_admission_put_flavor(struct gt_admission *admission, const cJSON *object);
void gt_admission_remove_flavor(struct gt_admission *admission, const char *name);

/* A Workload was added, changed, or deleted; not `whole`: what its claims ask for is not known, so it is not
 * placed now. An invalid one counts as deleted: -EINVAL. */
int gt_admission_put(struct gt_admission *admission, const cJSON *object, bool whole, struct gt_err **err);
void gt_admission_remove(struct gt_admission *admission, const char *namespace_, const char *name);

/* A verdict could not be written: the Workload is decided again after 5 s. */
void gt_admission_failed(struct gt_admission *admission, const char *namespace_, const char *name,
                         uint64_t now_ms);

/* Decides pending Workloads, highest priority first, and returns when to call it again; UINT64_MAX: after the
 * next change. `now_s` is Unix time. */
uint64_t gt_admission_decide(struct gt_admission *admission, uint64_t now_ms, int64_t now_s);

struct gt_admission_counters {
    uint64_t decided[GT_CHECK_STATES];
    uint32_t workloads, held; /* held: Ready, pods not planned yet */
    uint64_t refused;         /* invalid objects */
};
void gt_admission_counters(const struct gt_admission *admission, struct gt_admission_counters *ret);

/* Whether the cluster has room for the units of one Workload now. Nothing is changed. */
struct gt_fit_spec {
    struct gt_cache *cache;
    const struct gt_resource_flavor *flavors;
    unsigned flavor_count;
    const char *job; /* its key, or its namespace: what people reserve may be for it */
    uint32_t held;   /* Workloads with reserved places, only for the text */
};

enum gt_fit {
    GT_FIT_NOTHING, /* it asks for no groups */
    GT_FIT_YES,
    GT_FIT_NO,
    GT_FIT_NEVER,
    GT_FIT_FAILED, /* for example, no memory */
};

struct gt_fit_places {
    struct gt_plan_pod *pods;
    struct gt_cache_request **requests; /* [pod] other resources; NULL: none */
    struct gt_promise_id *promises;     /* [pod] scratch of the caller */
    uint32_t count;                     /* 0: none are known */
};
/* To be called before the cache is freed; empties *places. */
void gt_fit_places_done(struct gt_cache *cache, struct gt_fit_places *places);

/* Appends a sentence to `text`. *ret are the places with GT_FIT_YES, otherwise empty. */
enum gt_fit gt_fit_workload(const struct gt_fit_spec *spec, const struct gt_workload *workload,
                            struct gt_fit_places *ret, struct gt_buf *text);
