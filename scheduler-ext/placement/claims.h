/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_CLAIMS_H
#define GPUTOPO_PLACEMENT_CLAIMS_H

#include "scheduler-ext/placement/reconcile.h"

/*
 * Pods that have their GPUs by a claim. While such a pod is gated its claim holds the GPUs of its plan or
 * none: kube-scheduler binds it to just these then. A claim that holds others is cleared, and so is that of a
 * pod whose plan was lost, unless a scheduler has taken it. Each write holds for one version of the claim, so
 * none of an older plan comes later; what was written counts when the watch tells, for so every allocation
 * that was there before has been seen, too.
 *
 * One GPU can still come into two claims: a scheduler chooses it before it hears of ours, and writes that
 * later. So gates stay for claims_ms (times.h) after all claims of their plans were seen; what is seen
 * meanwhile is planned around.
 */

/* Whether the pod's gate may go as far as its claim goes; otherwise what is to be done next for that is done,
 * and the job is reconciled again. */
bool gt_claim_is_ready(struct reconcile *reconcile, const struct gt_cache_pod *pod, struct record *record);
/* Clears what no plan holds any more. */
void gt_claims_clear(struct reconcile *reconcile);
/* Pods on their nodes that cannot start, since another claim was first: where that lasts (unschedulable_ms)
 * it is told, and those whose owners make others are evicted, where that is wanted. In a round of
 * evictions. */
void gt_claims_handle_refused(struct reconcile *reconcile);

#endif
