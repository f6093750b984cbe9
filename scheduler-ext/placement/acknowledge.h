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
 *     the older write fails. The new plan is written when this leader has all fences acknowledged. The same
 *     goes for all gated pods where the object is not there though a plan may have been: it was there before,
 *     or the job is older than this leader's term.
 *     So long its GPUs are no other job's either: it keeps the old places until then.
 *  3. Nothing can be fenced where no pod is seen: the webhook may have let one be made with the old plan.
 *     Such a place changes only when no request can last any more that was made before the last offer, or
 *     before this leader's term (request_ms of times.h; the watch of pods is not as far behind).
 *
 *  4. A plan that one object does not hold stands in parts, which are made first; the write of the job's
 * object that names them makes it true (parts.h).
 *
 * tests/model/placement_protocol.py searches the states of this protocol.
 */

/* Whether the places of gated pods, and those that are reserved, stand in the object as this leader wrote it.
 * Otherwise what is to be done next for that is done; the job is reconciled again afterwards. */
bool gt_placement_acknowledge(struct reconcile *reconcile);

/* Whether its promises may be given up, and their GPUs go to others: no write that names them can come any
 * more. Otherwise what is to be done next for that is done; the job is reconciled again afterwards. */
bool gt_placement_may_give_up(struct reconcile *reconcile);

/* Has the object say why the job waits. `view` NULL: the job has none. */
void gt_placement_publish(struct pjob *pjob, const struct gt_job_view *view, const struct gt_owner *owner);

/* A new term, and its end: nothing counts as acknowledged. */
void gt_placement_forget_acknowledged(struct gt_placement *placement);

/* Deletes the objects of jobs that have no pods any more; in the first minute of a term the watch of pods may
 * be behind that of objects. */
void gt_placement_collect(struct gt_placement *placement);

/* What the object says of a job; nothing where there is none. For a replica that does not act. */
void gt_placement_read_job(const struct gt_placement *placement, const char *key,
                           struct gt_placement_job *to);

/* The object of a new job is found; none is made. */
void gt_placement_attach(struct pjob *pjob);

#endif
