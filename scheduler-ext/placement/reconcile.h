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
/* Tries to place a waiting job. */
enum gt_queue_result gt_placement_try(struct pjob *pjob, bool restricted);
/* Chooses the nodes that are reserved for it; NULL: for nobody. */
bool gt_placement_hold(struct gt_placement *placement, struct pjob *pjob, uint64_t reserved_until_ms);

/* ---- report.c ---- */
/* Reports why a job waits. `view` NULL: the job has none, since it breaks a rule. */
void gt_placement_report(struct pjob *pjob, const struct gt_job_view *view, const struct gt_owner *owner,
                         bool warning);

/* ---- charge.c ---- */
/* GPUs that its namespace may have reserved for pods of this job that do not exist. */
uint64_t gt_placement_missing_room(const struct pjob *pjob);
/* Whether places may be reserved for those of its pods that do not exist; otherwise its state says why not.
 */
bool gt_placement_may_reserve(struct reconcile *reconcile);
/* Has those looked at again that may have now what they could not. */
void gt_placement_retry_lacking(struct gt_placement *placement);
void gt_placement_forget_lacking(struct pjob *pjob);
/* Where a quota has been smaller for a while than what is used and reserved, its places are given back, those
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
/* "NAMESPACE/KIND/NAME until TIME", of the job that nodes are reserved for; "": there is none. */
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
/* ---- reserve_missing.c ---- */
/* Why no pod comes of those that are missing. */
enum gt_none_come {
    GT_PODS_COME,     /* they do, as far as is known */
    GT_OWNER_STOPPED, /* it is suspended, for instance */
    GT_OWNER_FAILS,   /* it says that it cannot make them, and no pod came since */
};
enum gt_none_come gt_reserve_missing_none_come(const struct reconcile *reconcile);
/* For how long places of missing pods are kept from the last pod that came, and when that is over. */
uint64_t gt_reserve_missing_ms(const struct reconcile *reconcile);
uint64_t gt_reserve_missing_end(const struct reconcile *reconcile);
/* For a new leader: the end is that which the last one would have kept to. */
void gt_reserve_missing_adopt(struct reconcile *reconcile, const struct placement_known *content);
/* The state of a job whose pods all have their plan: it says where places of others are kept no more. */
void gt_reserve_missing_report(struct reconcile *reconcile);
/* Whether gates stay, since the owner makes no pods now; its state says so. The pods of one that is stopped
 * are about to go; one that fails may soon go on, and then the job is planned as a whole. */
bool gt_reserve_missing_waits(struct reconcile *reconcile);

/* ---- node_loss.c ---- */
/* Moves units that have lost nodes, as their jobs want it, in a round of evictions. False: it has to be
 * reconciled again before anything else is done. */
bool gt_node_loss_handle(struct reconcile *reconcile);
/* Until when the places of pods after those that leave are kept, seen from now. */
uint64_t gt_node_loss_until(const struct reconcile *reconcile);
/* For a new leader. */
void gt_node_loss_adopt(struct pjob *pjob, const struct placement_known *content);

/* ---- for both ways ---- */

/* Reconciles one job: reconcile.c does what follows from it, attempt.c tries a waiting job when it is first
 * in the queue comes. */
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

/* ---- acknowledge.c ---- */
/*
 * A plan is true once it is in the job's GPUPlacement. The way of a plan to its pods:
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
 *  4. A plan that one object does not hold is in parts, which are made first; the write of the job's
 *     object that names them makes it true (parts.c below).
 *
 * tests/model/placement_protocol.py searches the states of this protocol.
 */

/* Whether the places of gated pods, and those that are reserved, are in the object as this leader wrote it.
 * Otherwise what is to be done next for that is done; the job is reconciled again afterwards. */
bool gt_placement_acknowledge(struct reconcile *reconcile);

/* Whether its reservations may be given up, and their GPUs go to others: no write that names them can come
 * any more. Otherwise what is to be done next for that is done; the job is reconciled again afterwards. */
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

/* ---- parts.c ---- */
/*
 * A plan that one object does not hold is in parts. Only the write of the job's object makes it true, and
 * none of the rules of acknowledge.c is another one for it, since
 *
 *  - a part is made once and never changed: another plan has other parts. The digest in its name is that of
 *    its epoch and its content, so a late write of an old leader makes what is named, or what nobody names;
 *  - the job's object names its parts when all are acknowledged, and not before;
 *  - where one is not there, or not as it was written, nobody knows what was planned: it is as if the job's
 *    object were not there;
 *  - a part is deleted when it can never be named again: the job's object names others, its epoch is as high,
 *    and no write of it by another leader can be on its way: this one wrote it, or has led for request_ms.
 */

/* Whether the plan of the content may be written: it fits into one object, or its parts are there and the
 * object has their names instead. 0: parts are still to be acknowledged, and the job is reconciled again. */
int gt_placement_make_parts(struct reconcile *reconcile, struct placement_content *content,
                            struct gt_err **err);

/* Whether it is a part that no object of a job will name again. */
bool gt_placement_is_left_over(const struct gt_placement *placement, struct placement_object *object);

/* ---- claims.c ---- */
/*
 * Pods that have their GPUs by a claim. While such a pod is gated its claim holds the GPUs of its plan or
 * none: kube-scheduler binds it to just these then. A claim that holds others is cleared, and so is that of a
 * pod whose plan was lost, unless a scheduler has taken it. Each write holds for one version of the claim, so
 * none of an older plan comes later; what was written counts when the watch shows it, for so every allocation
 * that was there before has been seen, too.
 *
 * One GPU can still come into two claims: a scheduler chooses it before it sees ours, and writes that
 * later. So gates stay for claims_ms (times.h) after all claims of their plans were seen; what is seen
 * meanwhile is planned around.
 */

/* Whether the pod's gate may go as far as its claim goes; otherwise what is to be done next for that is done,
 * and the job is reconciled again. */
bool gt_claim_is_ready(struct reconcile *reconcile, const struct gt_cache_pod *pod, struct record *record);
/* Clears what no plan holds any more. */
void gt_claims_clear(struct reconcile *reconcile);
/* Pods on their nodes that cannot start, since another claim was first: where that lasts (unschedulable_ms)
 * it is reported, and those whose owners make others are evicted, where that is wanted. In a round of
 * evictions. */
void gt_claims_handle_refused(struct reconcile *reconcile);

/* ---- evict.c ---- */
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
