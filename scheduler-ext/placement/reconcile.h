/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/queue.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/placement/state.h"

struct reconcile;

/* Takes the next step for a job. */
void gt_placement_reconcile(struct pjob *pjob);

/* ---- unplaced.c ---- */
/* Removes the gates of a job without units. */
void gt_reconcile_let_go(struct reconcile *reconcile, const struct gt_cache_pod *first_gated);

/* ---- attempt.c ---- */
/* Tries to place a waiting job. */
enum gt_queue_result gt_placement_try(struct pjob *pjob, bool restricted);
/* Chooses and reserves nodes for a waiting job; `pjob` NULL: ends the reservation. */
bool gt_placement_hold(struct gt_placement *placement, struct pjob *pjob, uint64_t reserved_until_ms);
/* Sets `fits` of jobs that wait for something else than room. */
void gt_placement_look(struct gt_placement *placement);

/* ---- report.c ---- */
/* Reports why a job waits. `view` NULL: it has none, since it breaks a rule. */
void gt_placement_report(struct pjob *pjob, const struct gt_job_view *view, const struct gt_owner *owner,
                         bool warning);

/* ---- charge.c ---- */
/* How many GPUs may be reserved for missing pods of this job, by the limit of its namespace. */
uint64_t gt_placement_missing_room(const struct pjob *pjob);
/* Whether places may be reserved for its missing pods; otherwise its state says why not. */
bool gt_placement_may_reserve(struct reconcile *reconcile);
/* Marks the jobs that may now get reservations that were refused before. */
void gt_placement_retry_lacking(struct gt_placement *placement);
void gt_placement_forget_lacking(struct pjob *pjob);
/* Where a quota has been exceeded for a while by used and reserved GPUs, reservations are given up, those of
 * the newest jobs first. True: this job's were, or will be, and it is reconciled again. */
bool gt_placement_give_back(struct reconcile *reconcile);

/* ---- yield.c ---- */
/* Counts how long the job's namespace has had places for pods that never existed; with the view of now. */
void gt_yield_count(struct reconcile *reconcile);
/* A complete job does not fit: those of other namespaces that kept such places for too long have to give up
 * the ones that would help it. */
void gt_yield_ask(struct reconcile *reconcile);
/* Gives them up where that was asked for. True: the job is reconciled again. */
bool gt_yield_give_up(struct reconcile *reconcile);
/* The job ends. */
void gt_yield_forget(struct pjob *pjob);

/* ---- lift.c ---- */
/* Whether gates may be removed without waiting for missing pods. */
bool gt_reconcile_may_lift(struct reconcile *reconcile);
/* Writes plans to pods; the gates are removed when all pods are ready. */
void gt_reconcile_write_plans(struct reconcile *reconcile);
/* Writes the hint nominatedNodeName, which a pod cannot be created with, to pods that were created with their
 * plan. */
void gt_reconcile_hint(struct reconcile *reconcile);

/* ---- waits.c ---- */
/* A plan was found for a job that has waited. */
void gt_wait_end(struct reconcile *reconcile);
/* Its plan is in force: counts that wait. A plan that could not be written does not end it. */
void gt_wait_count(struct pjob *pjob);
/* What a job waits for other than room; GT_FITS_REASONS: for room, for its owner, or it does not wait. */
enum gt_fits_reason gt_waits_for(const struct pjob *pjob);
/* For how long it has been so, or has waited for room. */
uint64_t gt_wait_age_s(const struct pjob *pjob);

/* ---- pinned.c ---- */
/* Adds the nodes to which other jobs' pods are pinned that have no gate and have lost their plan. */
int gt_placement_pinned(const struct pjob *pjob, struct gt_node_set *to, struct gt_err **err);
/* Adds the nodes of the supernodes where other jobs of its object lie, where these are to be spread. */
int gt_placement_spread(const struct reconcile *reconcile, struct gt_node_set *to, struct gt_err **err);
enum { PLACEMENT_HOLDER_SIZE = GT_GPU_PLACEMENT_JOB_MAX + GT_TIME_TEXT_SIZE + 16 };
/* "NAMESPACE/KIND/NAME until TIME" for the job that nodes are reserved for; "": none. */
void gt_placement_say_holder(const struct gt_placement *placement, char to[static PLACEMENT_HOLDER_SIZE]);

/* ---- kept.c ---- */
/* Counts the GPUs that the job keeps from others without running on them. */
void gt_placement_count_kept(struct pjob *pjob);
/* "; 16 GPUs are reserved for NAMESPACE/KIND/NAME until TIME, 8 for ..." of other jobs than this one, or
 * nothing. */
void gt_placement_say_kept(const struct pjob *than, uint64_t now, struct gt_buf *to);

/* ---- admission.c ---- */
/* Whether the queue of another scheduler has admitted the job; otherwise its state says which has not. */
bool gt_reconcile_is_admitted(struct reconcile *reconcile);
/* Whether planned pods without a gate wait for a scheduler that has bound no pod so far; then the job's state
 * says so. */
bool gt_reconcile_awaits_scheduler(struct reconcile *reconcile);
/* How many of its pods must start together by minMember of their PodGroup; 0: not given. */
uint32_t gt_reconcile_minimum(const struct reconcile *reconcile);
/* The same where the scheduler starts them together; UINT32_MAX: with all that are there. */
uint32_t gt_reconcile_together(const struct reconcile *reconcile);
/* Counts the whole job in its queue, before another job of the queue is tried. */
void gt_reconcile_enter_queue(struct reconcile *reconcile);
/* Counts the job's planned pods without a node in its queue. */
void gt_reconcile_count_unbound(struct reconcile *reconcile);
/* Removes the job from its queue's counts. */
void gt_reconcile_dequeue(struct pjob *pjob);
/* ---- reserve_missing.c ---- */
/* Why missing pods are not created. */
enum gt_none_come {
    GT_PODS_COME,     /* they are created, as far as known */
    GT_OWNER_STOPPED, /* the owner is, for example, suspended */
    GT_OWNER_FAILS,   /* the owner's controller reports that it cannot, and no pod was created since */
};
enum gt_none_come gt_reserve_missing_none_come(const struct reconcile *reconcile);
/* How long places of missing pods are reserved after the last new pod, and when that ends. */
uint64_t gt_reserve_missing_ms(const struct reconcile *reconcile);
uint64_t gt_reserve_missing_end(const struct reconcile *reconcile);
/* For a new leader: keeps the end that the last leader had. */
void gt_reserve_missing_adopt(struct reconcile *reconcile, const struct placement_known *known);
/* Sets the state of a job whose pods all have plans; it says where places of missing pods are no longer
 * reserved. */
void gt_reserve_missing_report(struct reconcile *reconcile);
/* Whether gates stay because the owner creates no pods now; the job's state says so. The pods of a stopped
 * owner will be deleted; a failing owner may continue soon, and then the job is planned as a whole. */
bool gt_reserve_missing_waits(struct reconcile *reconcile);

/* ---- node_loss.c ---- */
/* Moves units that have lost nodes, by the job's on-node-loss, within a round of evictions. False: the job
 * has to be reconciled again first. */
bool gt_node_loss_handle(struct reconcile *reconcile);
/* End of the reservations for successors of leaving pods, if made now. */
uint64_t gt_node_loss_until(const struct reconcile *reconcile);
/* For a new leader: takes over the moves of the last one. */
void gt_node_loss_adopt(struct pjob *pjob, const struct placement_known *known);
/* Whether the brake keeps the pod (NULL: all pods of the job) where it is now; then `why` says it, and the
 * job is reconciled again. Otherwise the nodes are remembered for gt_placement_brake_take(), which is called
 * when the first of the pods leaves. */
bool gt_placement_brake_keeps(struct reconcile *reconcile, const struct gt_cache_pod *only,
                              char why[static GT_BRAKE_WHY_SIZE]);
void gt_placement_brake_take(struct reconcile *reconcile);

/* ---- unplaced.c ---- */
/* Evicts the pods of a job that runs without a plan, by its on-unplaced, within a round of evictions. True:
 * pods have still to leave, and nothing of the job is planned. */
bool gt_unplaced_handle(struct reconcile *reconcile);

/* ---- rebalance.c ---- */
/* Adds to the text why a job waits which pods could move so that it fits. */
void gt_rebalance_suggest(struct reconcile *reconcile, struct gt_buf *text);
/* Says of which domains a job has more, once its pods are on other nodes (GT_NONE: nowhere); nothing where it
 * lies as close as before. */
void gt_rebalance_say_farther(const struct gt_placement *placement, const char *job, const uint32_t *before,
                              const uint32_t *after, uint32_t count, struct gt_buf *to);

/* ---- preempt.c ---- */
/* With --preempt: chooses pods of lower priority to evict for a job that does not fit, and adds that to the
 * text why it waits. True: they leave, and the job is to hold the nodes of placement->preempt. */
bool gt_preempt_choose(struct reconcile *reconcile, const struct gt_plan_failure *failure,
                       struct gt_buf *text);
/* Evicts them, within a round of evictions of the job that holds the nodes. */
void gt_preempt_evict(struct reconcile *reconcile);
/* The job holds its nodes no more: those that have not left yet stay. */
void gt_preempt_end(struct gt_placement *placement);
void gt_preempt_done(struct gt_placement *placement);
/* ---- rebalance_moves.c ---- */
enum { GT_REBALANCE_WHY_SIZE = 512 };
/* Begins these moves for the job, in the words of its object; false: `why` says why they are not made now. */
bool gt_rebalance_begin(struct pjob *pjob, const char *words, char why[static GT_REBALANCE_WHY_SIZE]);
/* For a new leader: goes on with the moves that the job's object has. */
void gt_rebalance_adopt(struct pjob *pjob);
/* Takes the next step. */
void gt_rebalance_step(struct gt_placement *placement);
/* The pod's move for a waiting job, which may not have begun; NULL: there is none. */
const struct placement_move *gt_rebalance_find(const struct gt_placement *placement,
                                               const struct gt_cache_pod *pod);
/* Where the pod is to go for a waiting job now; NULL: it stays. */
const char *gt_rebalance_node(const struct gt_placement *placement, const struct gt_cache_pod *pod);
/* The moves end, `why` they made no room, NULL: they did, or nobody needs it any more. What has not left
 * stays. */
void gt_rebalance_end(struct gt_placement *placement, const char *why);
/* A dry run of its eviction was refused: if it was to go for a waiting job, and nobody has left yet, these
 * moves end, and its job is left alone for a while. */
void gt_rebalance_refused(struct gt_placement *placement, const struct gt_cache_pod *pod,
                          const char *refusal);
/* The last pod of a job is gone: moves for it end. */
void gt_rebalance_gone(struct pjob *pjob, const struct gt_cache_pod *last);
void gt_rebalance_open(struct gt_placement *placement);
void gt_rebalance_done(struct gt_placement *placement);
/* Takes over how many moves were made of late. */
void gt_rebalance_read_note(struct gt_placement *placement, const char *note);

/* ---- unhealthy.c ---- */
/* Evicts pods whose GPUs are unhealthy, where that is configured, within a round of evictions. */
void gt_unhealthy_evict(struct reconcile *reconcile);
/* Whether that may become of the pod, as things are. */
bool gt_unhealthy_concerns(const struct gt_placement *placement, const struct gt_cache_pod *pod);

/* ---- for both ways ---- */

/* The state while one job is reconciled (reconcile.c), or a waiting job is tried by the queue (attempt.c). */
struct reconcile {
    struct pjob *pjob;
    struct gt_placement *placement;
    struct gt_job_view *view;
    const struct gt_owner *owner; /* NULL: not known */
    enum gt_job_kind kind;        /* GT_JOB_KINDS: the job has no owner object */
    bool expected;                /* the object exists, since pods refer to it, and is only not known yet */
    struct gt_node_set refused;   /* nodes that its scheduler refused lately */
    struct gt_node_set pinned;    /* during a try: nodes to which other jobs' pods are pinned */
    uint64_t gpus_max;            /* most GPUs to plan now, by the room of its queue; 0: no limit */
    unsigned lost;                /* members whose plan is lost, or refused by the scheduler */
    unsigned may_replan;          /* of them: those whom another plan may help */
    bool verdicts_open;           /* the scheduler may soon refuse more of its nodes */
    uint64_t now;
};

/* Makes the view. Call gt_reconcile_done() in any case. */
int gt_reconcile_make(struct reconcile *reconcile, struct gt_err **err);
void gt_reconcile_done(struct reconcile *reconcile);
#define auto_reconcile __attribute__((cleanup(gt_reconcile_done)))
/* Whether enough of the job is known to plan it; otherwise its state says what is missing. */
bool gt_reconcile_is_ready(struct reconcile *reconcile);
/* ---- lost_plans.c ---- */
/* Reports members whose plan is lost, or refused by the scheduler, and deletes them where that is configured;
 * counts them in `lost` and `may_replan`. */
void gt_lost_plans_handle(struct reconcile *reconcile);
/* Where none of the job's pods has run, nothing is lost by planning it again as a whole: evicts all its pods,
 * within a round of evictions. True while it does so: nothing else is to be done for the job. */
bool gt_lost_plans_replan(struct reconcile *reconcile);
/* Sets the state of a job that is planned again when a pause ends at `until_ms`; false: that is not why it
 * waits. */
bool gt_lost_plans_wait(struct reconcile *reconcile, uint64_t until_ms);
/* Deletes a pod that is on no node, where that is configured and its owner will create it again. */
bool gt_reconcile_recreate(struct reconcile *reconcile, const struct gt_cache_pod *pod,
                           struct record *record);

/* ---- acknowledge.c ---- */
/*
 * A plan is in force once it is in the job's GPUPlacement. How a plan gets to its pods:
 *
 *  1. Pods get their plan only from an object that this leader has written in its term, with the write
 *     acknowledged by the API server. So a new leader first writes the object with a higher epoch. A later
 *     write of the object by the old leader fails, since the resourceVersion has changed.
 *  2. Where places of an acknowledged plan change, a write of the old plan to a gated pod may be in flight.
 *     Each of these pods is fenced first: a write of the new epoch changes its resourceVersion, so that the
 *     older write fails. The new plan is written when all fences are acknowledged. The same applies to all
 *     gated pods where the object is missing and there may have been a plan: the object existed before, or
 *     the job is older than this leader's term. Until then the job keeps its old places, so their GPUs are
 *     not given to another job.
 *  3. A pod that is not yet seen cannot be fenced: the webhook may have admitted it with the old plan. Such a
 *     place changes only when all requests from before the last offer, and from before this leader's term,
 *     must have ended (request_ms of times.h; the delay of the watch of pods is shorter).
 *
 *  4. A plan that does not fit into one object is split into parts, which are created first; the write of the
 *     job's object that names them puts the plan into force (parts.c below).
 *
 * tests/model/placement_protocol.py checks this protocol by searching its states.
 */

/* Whether the places of gated pods, and the reserved ones, are in the object as this leader wrote it.
 * Otherwise takes the next step towards it; the job is reconciled again afterwards. */
bool gt_placement_acknowledge(struct reconcile *reconcile);

/* Whether its reservations may be given up and their GPUs used by others, since no write that names them can
 * still arrive. Otherwise takes the next step towards it; the job is reconciled again afterwards. */
bool gt_placement_may_give_up(struct reconcile *reconcile);
/* Until when a pod may come to which a place was offered then (0: never), or by an earlier leader. */
uint64_t gt_placement_offer_end(const struct gt_placement *placement, uint64_t offered_ms);

/* Whether it waits since the API server refuses its object; its state says so. */
bool gt_placement_wait_refused(struct reconcile *reconcile);

/* Publishes in the object why the job waits. `view` NULL: the job has none. */
void gt_placement_publish(struct pjob *pjob, const struct gt_job_view *view, const struct gt_owner *owner);

/* At the beginning and at the end of a term: nothing counts as acknowledged. */
void gt_placement_forget_acknowledged(struct gt_placement *placement);

/* Deletes the objects of jobs without pods; not in the first minute of a term, when the watch of pods may be
 * behind that of objects. */
void gt_placement_collect(struct gt_placement *placement);

/* For a replica that is not active: reads the state of a job from its object; unchanged where there is none.
 */
void gt_placement_read_job(const struct gt_placement *placement, const struct gt_cache_job *job,
                           struct gt_placement_job *to);

/* Connects a new job with its existing object; does not create one. */
void gt_placement_attach(struct pjob *pjob);

/* ---- parts.c ---- */
/*
 * A plan that does not fit into one object is split into parts. Only the write of the job's object puts it
 * into force, and the rules of acknowledge.c hold unchanged, since
 *
 *  - a part is created once and never changed: another plan has other parts. Its name contains a digest of
 *    its epoch and content, so a late write of an old leader creates exactly the named part, or one that no
 *    object names;
 *  - the job's object names its parts when all are acknowledged, and not before;
 *  - where a part is missing or was changed, the plan is unknown, as if the job's object were missing;
 *  - a part is deleted when it can never be named again: the job's object names others, its epoch is at least
 *    as high, and no write of it by another leader can be in flight, since this leader wrote it or has led
 *    for request_ms.
 */

/* 1: the plan of the content may be written, since it fits into one object, or its parts exist and the
 * content has their names instead. 0: parts are not yet acknowledged, and the job is reconciled again. */
int gt_placement_make_parts(struct reconcile *reconcile, struct placement_content *content,
                            struct gt_err **err);

/* Whether it is a part that no job's object will name again. */
bool gt_placement_is_left_over(const struct gt_placement *placement, struct placement_object *object);

/* ---- claims.c ---- */
/*
 * Pods that get their GPUs by a claim. While such a pod is gated, its claim has the GPUs of its plan or none;
 * then kube-scheduler binds the pod to exactly these. A claim with other GPUs is cleared, and so is that of a
 * pod whose plan was lost, unless a scheduler has reserved it for the pod. Each write is for one
 * resourceVersion of the claim, so a late write of an older plan fails. A write counts when the watch shows
 * it, since by then all earlier allocations have been seen, too.
 *
 * One GPU can still get into two claims, when a scheduler chooses it before it sees our allocation and writes
 * its own later. So gates stay for claims_ms (times.h) after all claims of their plans were seen; a conflict
 * that is seen in that time leads to a new plan.
 */

/* Whether the pod's claim allows the removal of its gate; otherwise takes the next step towards it, and the
 * job is reconciled again. */
bool gt_claim_is_ready(struct reconcile *reconcile, const struct gt_cache_pod *pod, struct record *record);
/* Clears allocations that belong to no plan any more. */
void gt_claims_clear(struct reconcile *reconcile);
/* Handles pods on their nodes that cannot start because another claim got a GPU first: where that lasts
 * (unschedulable_ms) it is reported, and pods whose owners create new ones are evicted, if configured. Within
 * a round of evictions. */
void gt_claims_handle_refused(struct reconcile *reconcile);

/* ---- kubelet_refusals.c ---- */

/* A pod's object has come; `known`: what the cache knew of it before (may be NULL). */
void gt_kubelet_refusals_see(struct gt_placement *placement, const struct gt_cache_pod *known,
                             const struct gt_pod *pod);
/* How many gates of the job may be removed before kubelets have judged those pods; UINT32_MAX: all. */
uint32_t gt_kubelet_refusals_left(const struct reconcile *reconcile);
/* Whether kubelets have refused so many pods of the job that it is not planned, or begun, now. */
bool gt_kubelet_refusals_wait(struct reconcile *reconcile);

/* ---- evict.c ---- */
/* Evictions of a job's pods through the API server, which respects their PodDisruptionBudgets. A request is
 * repeated only when the pod still exists a while after the last answer. */

/* Why the last eviction of this pod (NULL: of any) was refused; NULL: it was not. Valid until gt_evict_end().
 */
const char *gt_evict_refusal(const struct pjob *pjob, const struct gt_cache_pod *pod);
/* A round of evictions of a job: pods that are not passed to gt_evict_pod() before gt_evict_end() are to
 * stay. */
void gt_evict_begin(struct pjob *pjob);
void gt_evict_pod(struct reconcile *reconcile, const struct gt_cache_pod *pod);
void gt_evict_end(struct pjob *pjob);
/* After a round that ended before gt_evict_end(): what is not on its way yet, and was not asked for again, is
 * not sent until a round says so. */
void gt_evict_withdraw(struct pjob *pjob);
/* Asks whether it may go (a dry run), as gt_evict_pod() in a round. */
enum gt_evict_answer {
    GT_EVICT_ALLOWED,
    GT_EVICT_REFUSED,
    GT_EVICT_ASKED
} gt_evict_try(struct reconcile *reconcile, const struct gt_cache_pod *pod);
/* Whether all pods of the run [first, end) that move may leave now, by the brake and dry runs. `braked` is
 * only set where the brake is on. */
bool gt_evict_may_all(struct reconcile *reconcile, uint32_t first, uint32_t end,
                      char braked[static GT_BRAKE_WHY_SIZE]);
bool gt_evict_has_begun(const struct pjob *pjob, const struct gt_cache_pod *pod);
/* Whether it is on its way, or done: the pod may go, whatever is decided now. */
bool gt_evict_is_sent(const struct pjob *pjob, const struct gt_cache_pod *pod);

void gt_evict_open(struct gt_placement *placement);
void gt_evictions_done(struct pjob *pjob);
