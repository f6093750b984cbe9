/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_VIEW_H
#define GPUTOPO_DECIDE_VIEW_H

#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/node_set.h"
#include "scheduler-ext/decide/ranks.h"
#include "scheduler-ext/decide/reservations.h"
#include "scheduler-ext/owners/owners.h"

/*
 * One job as it stands at this moment: its members in rank order, where each of them is with its placing, and
 * the units. Made again from the cache whenever something is to be decided, so that no event can be missed.
 * No I/O, no clock.
 */
enum gt_member_state {
    GT_MEMBER_PLACED,     /* on a node */
    GT_MEMBER_MOVING,     /* beyond its gate, and it has to leave: its place is that of the pod after it */
    GT_MEMBER_LIFTED,     /* not gated, on no node yet; its plan holds */
    GT_MEMBER_LOST,       /* likewise, but its plan's place is taken */
    GT_MEMBER_LOOSE,      /* likewise, without a plan: it was never gated */
    GT_MEMBER_PLANNED,    /* gated, its plan holds */
    GT_MEMBER_TO_PLACE,   /* gated, without a plan */
    GT_MEMBER_EARLY,      /* likewise, and pods of its unit come only when others have ended */
    GT_MEMBER_RESERVED,   /* not made yet; a place is reserved for it */
    GT_MEMBER_TO_RESERVE, /* not made yet; it is to be planned with the others */
    GT_MEMBER_ABSENT,     /* not made, or gone; nothing is kept */
    GT_MEMBER_STATES,
};

struct gt_job_view_member {
    struct gt_cache_pod *pod; /* NULL: not made */
    enum gt_member_state state;
    uint32_t unit;
};

struct gt_job_view {
    struct gt_job *job; /* members are in the same order as here */
    struct gt_job_view_member *members;
    uint32_t count;
    uint32_t states[GT_MEMBER_STATES]; /* how many there are of each */
    uint32_t *open;                    /* [unit]: how many of its members are to be placed */
    uint32_t minimum;                  /* so many start together, or nothing; as `count`: all of them */
    uint32_t missing;                  /* members without a pod */
    bool grouped;                      /* it has units; otherwise there is nothing to place */
    bool whole;                        /* none of its pods has a place: it is planned from the start */
    bool gave_up;                      /* out of gt_decide(): reservations were given up */
    uint64_t left_gpus;                /* likewise: of units that wait on, others having their places */
    const struct gt_node_set *refused; /* of the spec: none of its members is placed there */
    const struct gt_node_set *spares;  /* of the spec, too */
};

struct gt_job_view_spec {
    const struct gt_owner *owner;      /* NULL: not known, the pods at hand are all there is */
    const struct gt_ranks *ranks;      /* may be NULL */
    const struct gt_node_set *refused; /* nodes that its scheduler refused; NULL: none */
    const struct gt_node_set
        *spares; /* nodes for pods of units that have begun in their supernodes; NULL: none */
    /* Whether a gated pod's gate has gone, which the cache does not know yet. NULL: of none. */
    bool (*is_lifted)(const void *arg, const struct gt_cache_pod *pod);
    const void *arg;
    uint64_t now;
    uint64_t wanted_until;   /* a pod that left a running job wants its place back until then */
    uint64_t leave_before_s; /* of pods that have to leave, none was made later; 0: none has to */
    uint64_t moving_until;   /* the places of those after them are kept until then */
    uint32_t minimum;        /* so many of all its pods start together, as others say; 0: not given */
    bool none_come;          /* nobody makes its missing pods now */
    bool ungated;            /* the caller binds the pods: one without gate and plan waits for its place */
    uint64_t missing_until;  /* places of pods that are not made are kept until then */
    /* Where pods come one by one: for units of which no pod is there as long as they have no more GPUs in
     * all. */
    uint64_t ahead_gpus;
    uint64_t missing_gpus; /* and that many of all units */
};

/* `reservations` are brought in line. -EINVAL with a sentence where the job breaks a rule. */
int gt_job_view_make(struct gt_cache *cache, struct gt_cache_job *job, const struct gt_job_view_spec *spec,
                     struct gt_reservations *reservations, struct gt_job_view **ret, struct gt_err **err);
void gt_job_view_free(struct gt_job_view *view);
GT_DEFINE_CLEANUP(struct gt_job_view *, gt_job_view_free)
#define gt_auto_job_view GT_CLEANUP(gt_job_view_free)

/* The node of a member: where it is, or where its place is planned or reserved. GT_NONE: not known. *ret_mask
 * (may be NULL) are its GPUs, 0 where they are not known. */
uint32_t gt_job_view_place(const struct gt_job_view *view, const struct gt_reservations *reservations,
                           const struct gt_cluster *cluster, uint32_t at, uint64_t *ret_mask);
/* The tier of the lowest supernode that holds all places of a unit; 0: there is none. */
unsigned gt_job_view_tier(const struct gt_job_view *view, const struct gt_reservations *reservations,
                          const struct gt_cluster *cluster, uint32_t number);
/* Whether pods of the unit are still to leave: until then none of those after them goes on. */
bool gt_job_view_unit_moves(const struct gt_job_view *view, uint32_t unit);
/* The members that must lie in one supernode with this one: its unit, or its atom. */
void gt_job_view_run(const struct gt_job_view *view, uint32_t at, uint32_t *ret_first, uint32_t *ret_end);
/* Whether members of [first, end) that have a place have it in different supernodes. */
bool gt_job_view_is_torn(const struct gt_job_view *view, const struct gt_reservations *reservations,
                         const struct gt_cluster *cluster, uint32_t first, uint32_t end);
void gt_job_view_set_state(struct gt_job_view *view, uint32_t at, enum gt_member_state state);

/* Whether nobody will come for a member that is missing. `owner` may be NULL. */
bool gt_job_view_has_ended(const struct gt_job_view *view, const struct gt_owner *owner, uint32_t at);

/* Whether a pod takes part in the plans of its job: it is not about to go. */
static inline bool gt_job_view_counts(const struct gt_cache_pod *pod)
{
    return !pod->deleting;
}

/* Whether a member is to be placed. */
static inline bool gt_member_is_open(const struct gt_job_view_member *member)
{
    return member->state == GT_MEMBER_TO_PLACE || member->state == GT_MEMBER_TO_RESERVE;
}

/* Whether its pod is beyond its gate, and stays. */
static inline bool gt_job_view_stays(const struct gt_job_view_member *member)
{
    return member->pod && (member->state == GT_MEMBER_PLACED || member->state == GT_MEMBER_LIFTED ||
                           member->state == GT_MEMBER_LOST || member->state == GT_MEMBER_LOOSE);
}

/* Whether a member is beyond its gate: the plan can no more be made again as a whole. */
static inline bool gt_job_view_has_begun(const struct gt_job_view *view)
{
    return view->states[GT_MEMBER_PLACED] || view->states[GT_MEMBER_LIFTED] || view->states[GT_MEMBER_LOST] ||
           view->states[GT_MEMBER_LOOSE] || view->states[GT_MEMBER_MOVING];
}

/* Whether all members that are still to come have come: nobody is to be waited for. */
static inline bool gt_job_view_is_complete(const struct gt_job_view *view)
{
    return !view->states[GT_MEMBER_RESERVED] && !view->states[GT_MEMBER_TO_RESERVE];
}

#endif
