/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "kube/client.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/placement/controller.h"

/*
 * Runs the detector of wrong placements (scheduler-ext/cache/audit.h) on every replica, and each exports the
 * metric. Only the leader writes the log and Events on the pod and its owner.
 */
struct gt_audit_watch;

/* `owners` must outlive it. */
int gt_audit_watch_new(const struct gt_part_env *env, const struct gt_owners *owners,
                       struct gt_audit_watch **ret, struct gt_err **err);
void gt_audit_watch_free(struct gt_audit_watch *watch); /* NULL is allowed */
/* A new leader reports all present findings. */
void gt_audit_watch_lead(struct gt_audit_watch *watch, bool leads);
void gt_audit_watch_metrics(const struct gt_audit_watch *watch, struct gt_buf *to);

/*
 * The ResourceClaimTemplates that pods name (api/pod_claim.h): created when the first pod of a namespace
 * needs one, and deleted some minutes after the last such pod is gone. A template without our label is left
 * as it is. A pod waits until its template exists, since its claim is made from it.
 */
struct gt_claim_templates;

int gt_claim_templates_new(const struct gt_part_env *env, struct gt_claim_templates **ret,
                           struct gt_err **err);
void gt_claim_templates_free(struct gt_claim_templates *templates); /* NULL is allowed */

/* After `false` no request is in flight. */
void gt_claim_templates_lead(struct gt_claim_templates *templates, bool leads);
void gt_claim_templates_observe_pod(struct gt_claim_templates *templates, const struct gt_pod *pod);
/* Every ResourceClaimTemplate of the cluster; then that all were listed: nothing is written before. */
void gt_claim_templates_observe(struct gt_claim_templates *templates, const cJSON *object);
void gt_claim_templates_observe_deleted(struct gt_claim_templates *templates, const char *namespace_,
                                        const char *name);
void gt_claim_templates_on_listed(struct gt_claim_templates *templates);

/*
 * Weights of namespaces in the order of waiting jobs, from the ConfigMap gputopo-namespace-weights
 * (docs/reference/placement-controller.md):
 *
 *     data: {ml: "3", default: "1"}
 *
 * A value that is not a number from 1 to 1000 is ignored and logged.
 */
struct gt_namespace_weights;

/* `namespace_` must outlive the weights. Without the ConfigMap all are equal. */
int gt_namespace_weights_new(struct gt_kube *kube, const char *namespace_, void (*on_change)(void *arg),
                             void *arg, struct gt_namespace_weights **ret, struct gt_err **err);
void gt_namespace_weights_free(struct gt_namespace_weights *weights);

/* The weight of a namespace, else that of the key "default", else 1. */
uint32_t gt_namespace_weight(const struct gt_namespace_weights *weights, const char *namespace_);

/* What is isolated by UUID follows the GPU into another node. */
struct gt_moved_gpus;

int gt_moved_gpus_new(const struct gt_part_env *env, struct gt_moved_gpus **ret, struct gt_err **err);
void gt_moved_gpus_free(struct gt_moved_gpus *moved); /* NULL is allowed */
/* After `false` no request is in flight. */
void gt_moved_gpus_lead(struct gt_moved_gpus *moved, bool leads);
/* A NodeGPUTopology, which the cache has. */
void gt_moved_gpus_observe(struct gt_moved_gpus *moved, const cJSON *object);
void gt_moved_gpus_observe_deleted(struct gt_moved_gpus *moved, const char *node);

/* The controller's part of /metrics. */
void gt_placement_metrics(const struct gt_placement *placement, struct gt_buf *to);
