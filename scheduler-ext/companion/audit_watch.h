/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/owners/owners.h"

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
