/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_PART_H
#define GPUTOPO_DECIDE_PART_H

#include "scheduler-ext/decide/view.h"

/*
 * Jobs that may start with a part of their pods. A part is of whole units: those in which nothing is to be
 * placed any more run without the others, once they hold the job's minimum. Of those that wait, first go
 * those of which pods run, then those that the minimum of a template asks for, then the others, by rank.
 */

/* Whether it may run with less than all. */
static inline bool gt_part_is_allowed(const struct gt_job_view *view)
{
    return view->grouped && view->minimum < view->count;
}

/* How many of its units have all their places. */
uint32_t gt_part_units(const struct gt_job_view *view);

/* Whether these may run though others wait. */
bool gt_part_suffices(const struct gt_job_view *view);

/* Whether what waits are only further units, of which no pod has a place. */
bool gt_part_grows(const struct gt_job_view *view);

struct gt_waiting_units {
    uint32_t *units; /* that wait, in the order in which they are to get places */
    uint32_t count;
    uint32_t started; /* the first of them, of which some pods have a place */
    uint32_t least;   /* with fewer of them nothing is gained */
};

int gt_waiting_units_make(const struct gt_job_view *view, struct gt_waiting_units *ret, struct gt_err **err);
void gt_waiting_units_done(struct gt_waiting_units *part);
#define gt_auto_waiting_units __attribute__((cleanup(gt_waiting_units_done)))

/* GPUs that members of a unit are to get. */
uint64_t gt_part_gpus(const struct gt_job_view *view, uint32_t unit);
/* Those of the fewest units with which something is gained. */
uint64_t gt_part_least_gpus(const struct gt_job_view *view);

#endif
