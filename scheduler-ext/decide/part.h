/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/decide/view.h"

/*
 * Jobs that may start with a part of their pods. A part consists of whole units: once units whose pods all
 * have places contain the job's minimum, they run without the others. Waiting units are placed in this order:
 * those of which pods run, those that a template's minimum needs, then the others by rank.
 */

/* Whether the job may run with less than all its pods. */
static inline bool gt_part_is_allowed(const struct gt_job_view *view)
{
    return view->grouped && view->minimum < view->count;
}

/* How many of its units have places for all their pods. */
uint32_t gt_part_units(const struct gt_job_view *view);

/* Whether these units may run while others wait. */
bool gt_part_suffices(const struct gt_job_view *view);

/* Whether only further units wait, of which no pod has a place. */
bool gt_part_grows(const struct gt_job_view *view);

struct gt_waiting_units {
    uint32_t *units; /* the waiting units, in the order in which they get places */
    uint32_t count;
    uint32_t started; /* how many of the first ones have some pods with a place */
    uint32_t least;   /* placing fewer units than this is of no use */
};

int gt_waiting_units_make(const struct gt_job_view *view, struct gt_waiting_units *ret, struct gt_err **err);
void gt_waiting_units_done(struct gt_waiting_units *waiting);
#define gt_auto_waiting_units __attribute__((cleanup(gt_waiting_units_done)))

/* GPUs of the unit's members that have no place yet. */
uint64_t gt_part_gpus(const struct gt_job_view *view, uint32_t unit);
/* The GPUs of the first `least` waiting units. */
uint64_t gt_part_least_gpus(const struct gt_job_view *view);
