/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_WRITE_H
#define GPUTOPO_PLACEMENT_WRITE_H

#include "scheduler-ext/placement/state.h"

/* Writes to pods and GPUPlacements: one at a time for each, in the order in which they were asked for. Where
 * one is asked for while another is not answered, or there is no memory, nothing happens: the job is
 * reconciled again. */
enum write_kind {
    WRITE_LIFT,
    WRITE_CONDITION,
    WRITE_FENCE,
    WRITE_DELETE,
    /* Of its claim: */
    WRITE_CLAIM_PROTECTION,
    WRITE_CLAIM_ALLOCATION,
    WRITE_CLAIM_CLEARED,
    /* Of a GPUPlacement: */
    WRITE_OBJECT,
    WRITE_OBJECT_GET,
    WRITE_OBJECT_DELETE,
};

void gt_write_lift_no_gpus(struct gt_placement *placement, struct record *record);
/* `texts` NULL: there is no plan. */
void gt_write_lift(struct pjob *pjob, struct record *record, const struct gt_plan_texts *texts);
void gt_write_condition(struct pjob *pjob, struct record *record, const struct gt_condition_text *condition);
/* What the pod's gate waits for; `node` is the hint nominatedNodeName, NULL: none. */
void gt_write_planned(struct pjob *pjob, struct record *record, const struct gt_condition_text *condition,
                      const char *node);
void gt_write_record_condition(struct gt_placement *placement, struct record *record,
                               const struct gt_condition_text *condition);
void gt_write_delete(struct pjob *pjob, struct record *record);
/* Plans of epochs before this one come too late from now on. */
void gt_write_fence(struct pjob *pjob, struct record *record, uint64_t epoch);

/* `allocation`: of WRITE_CLAIM_ALLOCATION, else NULL. */
void gt_write_claim(struct pjob *pjob, struct record *record, enum write_kind kind,
                    const struct gt_cache_claim *claim, const struct gt_claim_allocation *allocation);

/* Creates the job's object, or a part of its plan, or changes the one that is known to be there: with its
 * plan, or all but that. */
void gt_write_object(struct pjob *pjob, struct placement_object *object,
                     const struct gt_gpu_placement *content, bool with_plan);
/* Whether that may be asked for now. If not, the job is reconciled again when fewer plans wait: their texts
 * take memory, and after an upgrade each job of a cluster has one. */
bool gt_write_has_room(struct pjob *pjob);
/* The job goes. */
void gt_write_forget_job(struct pjob *pjob);
/* Reads it again; `pjob` waits for it, and may be NULL. */
void gt_write_object_get(struct gt_placement *placement, struct placement_object *object, struct pjob *pjob);
void gt_write_object_delete(struct gt_placement *placement, struct placement_object *object);

/* The watch shows that a write of this kind has worked. If that is the one whose answer is still to come, it
 * is counted now. `write` may be NULL. */
void gt_write_worked(const struct write *write, enum write_kind kind);
void gt_write_drop(struct write *write);
void gt_writes_send(struct gt_placement *placement);

#endif
