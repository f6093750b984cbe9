/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_DECIDE_H
#define GPUTOPO_DECIDE_DECIDE_H

#include "scheduler-ext/core/victims.h"
#include "scheduler-ext/decide/view.h"

/* Places the members of one job that have no place: all, else the most units that may run without the rest
 * (part.h), else none. No I/O, no clock. */

enum gt_decision {
    GT_DECISION_PLACED,  /* they are planned in the cache, and have their reservations */
    GT_DECISION_NOTHING, /* there was nothing to place */
    GT_DECISION_WAITS,   /* it does not fit; *failure and the text say why */
    GT_DECISION_BOUND,   /* it does not fit beside its own reservations, which must stay */
    GT_DECISION_FAILED,  /* something else went wrong; the text says what */
};

struct gt_decide_spec {
    const struct gt_node_set *avoid; /* nodes that are reserved for somebody else; NULL: none */
    const char *avoid_for;           /* who, and until when */
    const struct gt_node_set *leave; /* nodes to use only where no others serve; NULL: none */
    uint64_t reserve_until;          /* of the places of pods that are not made yet */
    uint64_t gpus_max;               /* where a part will do, no more than these; 0: no limit */
    bool crowded;                    /* other jobs wait for room, see gt_cluster_set_crowded() */
    bool keep;                       /* no reservation is given up: a write that names it may be on its way */
};

/*
 * What is placed stays: members on a node, planned ones, reserved places. Only where it cannot be done so,
 * those that are planned but still gated are planned again with the rest. The view is of no use afterwards
 * except for its texts: make a new one.
 */
enum gt_decision gt_decide(struct gt_cache *cache, struct gt_job_view *view,
                           struct gt_reservations *reservations, const struct gt_decide_spec *spec,
                           struct gt_plan_failure *ret_failure, struct gt_buf *text);

/*
 * Gives up reservations that would tear a run, and says whether there were any: before the first gate of a
 * job goes all of its reservations, afterwards those of the run. Pods have some of an older plan and some of
 * a newer one where a write of the older one came late. `keep`: nothing is given up, it only says whether it
 * would be.
 */
bool gt_decide_repair(struct gt_cache *cache, struct gt_job_view *view, struct gt_reservations *reservations,
                      bool keep);

/* Gives up the places of pods that do not exist; of a job before its first gate goes all reservations. The
 * view is of no use afterwards. */
void gt_decide_give_back(struct gt_cache *cache, struct gt_job_view *view,
                         struct gt_reservations *reservations);

/*
 * Keeps another place for members that have to leave theirs, before they do: those of [first, end), which is
 * a run, that `leaves` names, `leaves` NULL: all of it. What of the run has no place is placed with them; the
 * others of the run stay where they are. So none is found (GT_DECISION_WAITS) where the run would be torn, or
 * where reservations for pods of it would have to change.
 */
enum gt_decision gt_decide_move(struct gt_cache *cache, struct gt_job_view *view,
                                struct gt_reservations *reservations, uint32_t first, uint32_t end,
                                const bool *leaves, const struct gt_decide_spec *spec,
                                struct gt_plan_failure *ret_failure, struct gt_buf *text);

/*
 * The nodes that a job which does not fit would need if nobody were on them: those that are least in use, as
 * few as will do. False where it would not even fit then. Nothing is changed.
 */
bool gt_decide_drain(struct gt_cache *cache, const struct gt_job_view *view,
                     const struct gt_reservations *reservations, struct gt_node_set *ret);

struct gt_decide_victims {
    const struct gt_node_set *avoid; /* nodes that are left out; NULL: none */
    const uint64_t *freed;           /* [node] GPUs that become free anyway; NULL: none */
    struct gt_victim *victims; /* who may have to go, see victims.h; of them those that have to are chosen */
    uint32_t count;
};

/*
 * Who has to go so that a job which does not fit can begin, or begin one more unit; what pods have
 * of CPU and memory counts as enough where it has to. False where it would not fit even then. *ret_places are
 * the places it would have, by member, which the caller frees; `node` is GT_NONE where there is none. Nothing
 * is changed.
 */
bool gt_decide_victims(struct gt_cache *cache, const struct gt_job_view *view,
                       const struct gt_reservations *reservations, const struct gt_decide_victims *spec,
                       struct gt_plan_pod **ret_places);

#endif
