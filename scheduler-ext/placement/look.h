/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_LOOK_H
#define GPUTOPO_PLACEMENT_LOOK_H

#include "scheduler-ext/placement/internal.h"

/* One look at one job: look.c does what follows from it, turn.c decides when its turn in the queue comes. */
struct look {
    struct pjob *pjob;
    struct gt_placement *placement;
    struct gt_job_view *view;
    const struct gt_owner *owner; /* NULL: not known */
    enum gt_owner_kind kind;      /* GT_OWNER_KINDS: no object will ever speak for it */
    bool expected; /* the object exists, for its pods name it as theirs: it is only not known yet */
    struct gt_node_set refused; /* nodes that its scheduler refused lately */
    unsigned lost;              /* members whose plan is lost, or refused by the scheduler */
    uint64_t now;
};

/* Makes the view; gt_look_done() in any case. */
int gt_look_make(struct look *look, struct gt_err **err);
void gt_look_done(struct look *look);
#define auto_look __attribute__((cleanup(gt_look_done)))
/* Whether enough of the job is known to plan it; otherwise its state says what is missing. */
bool gt_look_is_ready(struct look *look);
/* A pod that may be written to now; NULL: not now. */
struct record *gt_look_writable(const struct look *look, const struct gt_feed_pod *pod);
/* Deletes a pod that is on no node, where that is wanted and somebody will make it again. */
bool gt_look_recreate(struct look *look, const struct gt_feed_pod *pod, struct record *record);

#endif
