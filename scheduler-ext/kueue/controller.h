/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/client.h"
#include "scheduler-ext/kueue/admission.h"

/*
 * The controller of our AdmissionChecks: watches Kueue's objects and writes the verdicts of admission.h. Only
 * one may run in a cluster: the leading replica makes it when the cache is synced, and frees it when it stops
 * leading. It takes the newest version of Kueue's API that is served and known. Where the cluster has no
 * Kueue, it checks again from time to time. All on the loop's thread.
 */
struct gt_kueue;

struct gt_kueue_spec {
    struct gt_loop *loop;
    struct gt_kube *kube;
    struct gt_cache *cache;
    const struct gt_owners *owners; /* as in gt_admission_spec */
    bool (*may_write)(void *arg);   /* asked before each write */
    /* Changes one before it is read. False: a ResourceClaimTemplate that it refers to is not known. */
    bool (*prepare)(void *arg, cJSON *workload);
    void *arg;
};

int gt_kueue_new(const struct gt_kueue_spec *spec, struct gt_kueue **ret, struct gt_err **err);
/* Afterwards no request is in flight. To be called before the client and the cache are freed. NULL is
 * allowed. */
void gt_kueue_free(struct gt_kueue *kueue);
GT_DEFINE_CLEANUP(struct gt_kueue *, gt_kueue_free)
#define gt_auto_kueue GT_CLEANUP(gt_kueue_free)

/* The available room has changed. */
void gt_kueue_on_capacity(struct gt_kueue *kueue);

struct gt_kueue_counters {
    struct gt_admission_counters admission;
    uint64_t write_failures;
};
void gt_kueue_counters(const struct gt_kueue *kueue, struct gt_kueue_counters *ret);
