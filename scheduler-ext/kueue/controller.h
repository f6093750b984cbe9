/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUEUE_CONTROLLER_H
#define GPUTOPO_KUEUE_CONTROLLER_H

#include "kube/client.h"
#include "scheduler-ext/kueue/admission.h"

/*
 * Answers for AdmissionChecks whose controller we are: follows Kueue's objects, and writes the verdicts of
 * admission.h. One at a time may live in a cluster: it is made by the replica that leads, when the cache has
 * seen everything, and freed when that ceases to lead. Where the cluster has no Kueue it asks again now and
 * then. All on the loop's thread.
 */
struct gt_kueue;

struct gt_kueue_spec {
    struct gt_loop *loop;
    struct gt_kube *kube;
    struct gt_cache *cache;
    bool (*is_node_reserved)(void *arg, uint32_t node); /* as in gt_admission_spec */
    bool (*may_write)(void *arg);                       /* asked before each write */
    void (*prepare)(void *arg, cJSON *workload);        /* changes one before it is read */
    void *arg;
};

int gt_kueue_new(const struct gt_kueue_spec *spec, struct gt_kueue **ret, struct gt_err **err);
/* Nothing is on its way afterwards. Before the client and the cache. NULL is allowed. */
void gt_kueue_free(struct gt_kueue *kueue);
GT_DEFINE_CLEANUP(struct gt_kueue *, gt_kueue_free)
#define gt_auto_kueue GT_CLEANUP(gt_kueue_free)

/* There may be more room, or less. */
void gt_kueue_on_capacity(struct gt_kueue *kueue);

struct gt_kueue_counters {
    struct gt_admission_counters admission;
    uint64_t write_failures;
};
void gt_kueue_counters(const struct gt_kueue *kueue, struct gt_kueue_counters *ret);

#endif
