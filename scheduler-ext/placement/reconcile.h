/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_RECONCILE_H
#define GPUTOPO_PLACEMENT_RECONCILE_H

#include "scheduler-ext/core/queue.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/placement/state.h"

struct reconcile;

/* Does what is to be done next for a job. */
void gt_placement_reconcile(struct pjob *pjob);

/* ---- attempt.c ---- */
/* A waiting job's turn. */
enum gt_queue_result gt_placement_try(struct pjob *pjob, bool restricted);
/* Chooses the nodes that are kept for it; NULL: for nobody. */
bool gt_placement_hold(struct gt_placement *placement, struct pjob *pjob, uint64_t reserved_until_ms);

/* ---- report.c ---- */
/* Tells people why a job waits. `view` NULL: the job has none, since it breaks a rule. */
void gt_placement_report(struct pjob *pjob, const struct gt_job_view *view, const struct gt_owner *owner,
                         bool warning);

/* ---- charge.c ---- */
/* GPUs that its namespace may have reserved for pods of this job that do not exist. */
uint64_t gt_placement_promise_room(const struct pjob *pjob);
/* Whether places may be reserved for those of its pods that do not exist; otherwise its state says why not.
 */
bool gt_placement_may_promise(struct reconcile *reconcile);
/* Has those looked at again that may have now what they could not. */
void gt_placement_retry_lacking(struct gt_placement *placement);
void gt_placement_forget_lacking(struct pjob *pjob);
/* Where a quota has been smaller for a while than what is used and promised, its places are given back, those
 * of the newest jobs first. True: they were, or are about to be, and the job is looked at again. */
bool gt_placement_give_back(struct reconcile *reconcile);

/* ---- lift.c ---- */
/* Whether pods that are still missing are waited for no more. */
bool gt_reconcile_may_lift(struct reconcile *reconcile);
/* What has to be written of plans; the gates go when all can. */
void gt_reconcile_write_plans(struct reconcile *reconcile);
/* A pod cannot be made with the hint: those that were made with their plan get it as soon as they are there.
 */
void gt_reconcile_hint(struct reconcile *reconcile);

/* ---- pinned.c ---- */
void gt_placement_set_lost(struct pjob *pjob, bool lost);
/* Adds the nodes of other jobs' pods whose gate has gone and whose plan is lost. */
int gt_placement_pinned(const struct pjob *pjob, struct gt_node_set *to, struct gt_err **err);
enum { PLACEMENT_HOLDER_SIZE = GT_GPU_PLACEMENT_JOB_MAX + GT_TIME_TEXT_SIZE + 16 };
/* "NAMESPACE/KIND/NAME until TIME", of the job that nodes are kept for; "": there is none. */
void gt_placement_say_holder(const struct gt_placement *placement, char to[static PLACEMENT_HOLDER_SIZE]);

/* ---- admission.c ---- */
/* Whether the queue of another scheduler has let the job in; otherwise its state says which has not. */
bool gt_reconcile_is_admitted(struct reconcile *reconcile);
/* How many of its pods start together, as the PodGroup says that they name; 0: it does not. */
uint32_t gt_reconcile_minimum(const struct reconcile *reconcile);
/* Counts all of it for its queue, before another job of that is tried. */
void gt_reconcile_enter_queue(struct reconcile *reconcile);
/* Counts for its queue what of it is planned and on no node. */
void gt_reconcile_count_unbound(struct reconcile *reconcile);
/* Nothing of it counts any more. */
void gt_reconcile_leave_queue(struct pjob *pjob);
/* ---- promise.c ---- */
/* Why no pod comes of those that are missing. */
enum gt_none_come {
    GT_PODS_COME,     /* they do, as far as is known */
    GT_OWNER_STOPPED, /* it is suspended, for instance */
    GT_OWNER_FAILS,   /* it says that it cannot make them, and no pod came since */
};
enum gt_none_come gt_promise_none_come(const struct reconcile *reconcile);
/* For how long places of missing pods are kept from the last pod that came, and when that is over. */
uint64_t gt_promise_ms(const struct reconcile *reconcile);
uint64_t gt_promise_end(const struct reconcile *reconcile);
/* For a new leader: the end is that which the last one would have kept to. */
void gt_promise_adopt(struct reconcile *reconcile, const struct placement_known *content);
/* The state of a job whose pods all have their plan: it says where places of others are kept no more. */
void gt_promise_tell(struct reconcile *reconcile);
/* Whether gates stay, since the owner makes no pods now; its state says so. The pods of one that is stopped
 * are about to go; one that fails may soon go on, and then the job is planned as a whole. */
bool gt_promise_waits(struct reconcile *reconcile);

/* ---- node_loss.c ---- */
/* Moves units that have lost nodes, as their jobs want it, in a round of evictions. False: it has to be
 * reconciled again before anything else is done. */
bool gt_node_loss_handle(struct reconcile *reconcile);
/* Until when the places of pods after those that leave are kept, seen from now. */
uint64_t gt_node_loss_until(const struct reconcile *reconcile);
/* For a new leader. */
void gt_node_loss_adopt(struct pjob *pjob, const struct placement_known *content);

/* ---- for both ways ---- */

/* Reconciles one job: reconcile.c does what follows from it, attempt.c tries a waiting job when its turn in
 * the queue comes. */
struct reconcile {
    struct pjob *pjob;
    struct gt_placement *placement;
    struct gt_job_view *view;
    const struct gt_owner *owner; /* NULL: not known */
    enum gt_owner_kind kind;      /* GT_OWNER_KINDS: no object will ever speak for it */
    bool expected; /* the object exists, for its pods name it as theirs: it is only not known yet */
    struct gt_node_set refused; /* nodes that its scheduler refused lately */
    struct gt_node_set pinned;  /* while it is tried: to which pods of others are pinned */
    uint64_t gpus_max;          /* of a part that is planned now, for its queue has no more; 0: no limit */
    unsigned lost;              /* members whose plan is lost, or refused by the scheduler */
    uint64_t now;
};

/* Makes the view; gt_reconcile_done() in any case. */
int gt_reconcile_make(struct reconcile *reconcile, struct gt_err **err);
void gt_reconcile_done(struct reconcile *reconcile);
#define auto_reconcile __attribute__((cleanup(gt_reconcile_done)))
/* Whether enough of the job is known to plan it; otherwise its state says what is missing. */
bool gt_reconcile_is_ready(struct reconcile *reconcile);
/* Deletes a pod that is on no node, where that is wanted and somebody will make it again. */
bool gt_reconcile_recreate(struct reconcile *reconcile, const struct gt_cache_pod *pod,
                           struct record *record);

#endif
