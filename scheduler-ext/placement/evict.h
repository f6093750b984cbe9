/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_EVICT_H
#define GPUTOPO_PLACEMENT_EVICT_H

#include "scheduler-ext/placement/reconcile.h"

/* Evictions of a job's pods through the API server, which asks their disruption budgets. A pod is asked for
 * again only when it is still there a while after the last answer. */

/* Why the last request for a pod of the job was refused; NULL: none was. For gt_evict_end(). */
const char *gt_evict_refusal(const struct pjob *pjob);
/* A round of the job: pods that are not named until its end are to stay. */
void gt_evict_begin(struct pjob *pjob);
void gt_evict_pod(struct reconcile *reconcile, const struct gt_cache_pod *pod);
void gt_evict_end(struct pjob *pjob);

void gt_evictions_done(struct pjob *pjob);

#endif
