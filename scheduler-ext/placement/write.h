/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/placement/state.h"

/* Writes to pods and GPUPlacements: one at a time for each object, in the order of the calls. A call does
 * nothing while another write of the object is in flight, or without memory: the job is reconciled again
 * later. */
enum write_kind {
    WRITE_LIFT,
    WRITE_CONDITION,
    WRITE_FENCE,
    WRITE_DELETE,
    /* Of the pod's claim: */
    WRITE_CLAIM_PROTECTION,
    WRITE_CLAIM_ALLOCATION,
    WRITE_CLAIM_CLEARED,
    /* Of a GPUPlacement: */
    WRITE_OBJECT,
    WRITE_OBJECT_GET,
    WRITE_OBJECT_DELETE,
};

/* `pjob` NULL: the pod is in no job. `texts` NULL: there is no plan. */
void gt_write_lift(struct gt_placement *placement, struct pjob *pjob, struct record *record,
                   const struct gt_plan_texts *texts);
/* `before_lift`: a planned pod's condition, which its gate waits for. `node`: the hint nominatedNodeName,
 * as in gt_patch_condition(). */
void gt_write_condition(struct gt_placement *placement, struct pjob *pjob, struct record *record,
                        const struct gt_condition_text *condition, bool before_lift, const char *node);
void gt_write_delete(struct pjob *pjob, struct record *record);
/* Fences the pod: plans of epochs before this one can no longer be written to it. */
void gt_write_fence(struct pjob *pjob, struct record *record, uint64_t epoch);

/* `allocation`: for WRITE_CLAIM_ALLOCATION, else NULL. */
void gt_write_claim(struct pjob *pjob, struct record *record, enum write_kind kind,
                    const struct gt_cache_claim *claim, const struct gt_claim_allocation *allocation);

/* Creates or changes the job's object, or a part of its plan; `with_plan` false: everything except the plan.
 */
void gt_write_object(struct pjob *pjob, struct placement_object *object,
                     const struct gt_gpu_placement *placement, bool with_plan);
/* Whether gt_write_object() may be called now. If not, the job is reconciled again when fewer plans wait. The
 * limit saves memory: after an upgrade every job of the cluster writes its plan. */
bool gt_write_has_capacity(struct pjob *pjob);
/* Reads the object again; `pjob` waits for it, and may be NULL. */
void gt_write_object_get(struct gt_placement *placement, struct placement_object *object, struct pjob *pjob);
void gt_write_object_delete(struct gt_placement *placement, struct placement_object *object);

/* The watch shows that a write of this kind has succeeded. Where its answer is still missing, it is counted
 * now. `write` may be NULL. */
void gt_write_worked(const struct write *write, enum write_kind kind);
void gt_write_drop(struct write *write);
/* Jobs that wait until fewer plans are to be written go on. */
void gt_writes_resume(struct gt_placement *placement);
void gt_writes_open(struct gt_placement *placement);
