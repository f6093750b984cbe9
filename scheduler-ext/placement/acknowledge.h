/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_ACKNOWLEDGE_H
#define GPUTOPO_PLACEMENT_ACKNOWLEDGE_H

#include "scheduler-ext/placement/reconcile.h"

/*
 * A plan is true once it stands in the job's GPUPlacement. The way of a plan to its pods:
 *
 *  1. Pods get their plan only from an object that this leader has written in its term, and whose write the
 *     API server has acknowledged. So a new leader writes the object first, with a higher epoch: a write of
 *     the object by the old leader that comes later fails, since the version is another.
 *  2. Where places change that an acknowledged plan named, a write of the old plan may be on its way to a
 *     gated pod. Each of these pods is fenced first: a write of the new epoch moves its version on, so that
 *     the older write fails. The new plan is written when all fences are acknowledged.
 *  3. Nothing can be fenced where no pod is seen: the webhook of an old leader may have let one be made with
 *     the old plan. Such a place leaves its supernode only GT_PLACEMENT_REQUEST_MS after the last offer, or
 *     after this leader's term began.
 */
enum { GT_PLACEMENT_REQUEST_MS = 60000 }; /* no request to the API server lasts longer (--request-timeout) */

/* Whether the places of gated pods, and those that are reserved, stand in the object as this leader wrote it.
 * Otherwise what is to be done next for that is done; the job is reconciled again afterwards. */
bool gt_placement_acknowledge(struct reconcile *reconcile);

/* Has the object say why the job waits. `view` NULL: the job has none. */
void gt_placement_publish(struct pjob *pjob, const struct gt_job_view *view, const struct gt_owner *owner);

/* A new term, and its end: nothing counts as acknowledged. */
void gt_placement_forget_acknowledged(struct gt_placement *placement);

/* Deletes the objects of jobs that have no pods any more. */
void gt_placement_collect(struct gt_placement *placement);

/* What the object says of a job; nothing where there is none. For a replica that does not act. */
void gt_placement_read_job(const struct gt_placement *placement, const char *key,
                           struct gt_placement_job *to);

/* The object of a new job is found; none is made. */
void gt_placement_attach(struct pjob *pjob);

#endif
