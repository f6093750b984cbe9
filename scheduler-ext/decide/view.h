/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/decide/ranks.h"
#include "scheduler-ext/decide/reservations.h"
#include "scheduler-ext/owners/owners.h"

/*
 * A snapshot of one job: its members in rank order with their states, and its units. It is made again from
 * the cache for each decision, so that no event can be missed. No I/O, no clock.
 */
enum gt_member_state {
    GT_MEMBER_PLACED,     /* on a node */
    GT_MEMBER_MOVING,     /* not gated, and has to leave: its place here is that of its successor */
    GT_MEMBER_LIFTED,     /* not gated, on no node yet; its plan is valid */
    GT_MEMBER_LOST,       /* likewise, but its plan's place is lost */
    GT_MEMBER_LOOSE,      /* likewise, without a plan: it was never gated */
    GT_MEMBER_PLANNED,    /* gated, its plan is valid */
    GT_MEMBER_TO_PLACE,   /* gated, without a plan */
    GT_MEMBER_EARLY,      /* likewise, but pods of its unit are only created when others have ended */
    GT_MEMBER_RESERVED,   /* no pod yet; a place is reserved for it */
    GT_MEMBER_TO_RESERVE, /* no pod yet; to be planned with the others */
    GT_MEMBER_ABSENT,     /* no pod, or a deleted one; nothing is reserved */
    GT_MEMBER_STATES,
};

struct gt_job_view_member {
    struct gt_cache_pod *pod; /* NULL: it has none */
    enum gt_member_state state;
    uint32_t unit;
};

struct gt_job_view {
    struct gt_cache *cache;
    struct gt_reservations *reservations; /* of the job, in that cache */
    struct gt_job *job;                   /* members are in the same order as here */
    struct gt_job_view_member *members;
    uint32_t count;
    uint32_t states[GT_MEMBER_STATES]; /* [state] number of members */
    uint32_t *open;                    /* [unit] number of its members to be placed */
    uint32_t minimum;                  /* at least so many must start together; equal to `count`: all */
    uint32_t missing;                  /* members without a pod */
    bool grouped;                      /* the job has units; otherwise it is not planned */
    bool ungated;                      /* as in the spec */
    bool whole;                        /* no pod has a place: all of it is planned */
    bool gave_up;                      /* set by gt_decide(): reservations were given up */
    uint64_t left_gpus;                /* likewise: GPUs of units that still wait while others have places */
    const struct gt_node_set *refused; /* as in the spec */
    const struct gt_node_set *spares;  /* as in the spec */
};

struct gt_job_view_spec {
    const struct gt_owner *owner;      /* NULL: not known; the present pods are the whole job */
    const struct gt_ranks *ranks;      /* may be NULL */
    const struct gt_node_set *refused; /* nodes that its scheduler refused; NULL: none */
    const struct gt_node_set
        *spares; /* spare nodes, for pods of units that run in the same supernode; NULL: none */
    /* Whether a pod that the cache shows as gated has lost its gate already. NULL: none has. */
    bool (*is_lifted)(const void *arg, const struct gt_cache_pod *pod);
    const void *arg;
    uint64_t now;
    uint64_t wanted_until;   /* end of the reservation for a pod that left a running job */
    uint64_t leave_before_s; /* only pods created until then may have to leave; 0: none has to */
    uint64_t moving_until;   /* end of the reservations for their successors */
    uint32_t minimum; /* at least so many pods must start together, as the PodGroup says; 0: not given */
    bool none_come;   /* missing pods are not created now */
    bool ungated;     /* the caller binds pods: one without gate and plan waits for a place */
    uint64_t missing_until; /* end of the reservations for pods that do not exist */
    /* Where pods are created one by one: most GPUs to reserve for units without any pod. */
    uint64_t ahead_gpus;
    uint64_t missing_gpus; /* most GPUs to reserve for missing pods of all units */
};

/* Makes the view and updates `reservations`. -EINVAL with a sentence where the job breaks a rule. */
int gt_job_view_make(struct gt_cache *cache, struct gt_cache_job *job, const struct gt_job_view_spec *spec,
                     struct gt_reservations *reservations, struct gt_job_view **ret, struct gt_err **err);
void gt_job_view_free(struct gt_job_view *view);
GT_DEFINE_CLEANUP(struct gt_job_view *, gt_job_view_free)
#define gt_auto_job_view GT_CLEANUP(gt_job_view_free)

/* The node of a member: where it is, or where its place is planned or reserved. GT_NONE: not known. *ret_mask
 * (may be NULL) are its GPUs, 0 where they are not known. */
uint32_t gt_job_view_place(const struct gt_job_view *view, uint32_t at, uint64_t *ret_mask);
/* The tier of the lowest supernode that holds all places of a unit; 0: there is none. */
unsigned gt_job_view_tier(const struct gt_job_view *view, uint32_t number);
/* Whether pods of the unit still have to leave; until they have, their successors keep their gates. */
bool gt_job_view_unit_moves(const struct gt_job_view *view, uint32_t unit);
/* The run of a member, [*ret_first, *ret_end): its unit, or its atom, which must lie in one supernode. */
void gt_job_view_run(const struct gt_job_view *view, uint32_t at, uint32_t *ret_first, uint32_t *ret_end);
/* Whether members of [first, end) that have a place have it in different supernodes. */
bool gt_job_view_is_torn(const struct gt_job_view *view, uint32_t first, uint32_t end);
void gt_job_view_set_state(struct gt_job_view *view, uint32_t at, enum gt_member_state state);

/* Whether no pod will be created any more for a missing member. `owner` may be NULL. */
bool gt_job_view_has_ended(const struct gt_job_view *view, const struct gt_owner *owner, uint32_t at);

/* Whether a pod takes part in its job's plans: it is not being deleted. */
static inline bool gt_job_view_counts(const struct gt_cache_pod *pod)
{
    return !pod->deleting;
}

/* Whether a member is to be placed. */
static inline bool gt_member_is_open(const struct gt_job_view_member *member)
{
    return member->state == GT_MEMBER_TO_PLACE || member->state == GT_MEMBER_TO_RESERVE;
}

/* Whether its pod is not gated, and stays. */
static inline bool gt_job_view_stays(const struct gt_job_view_member *member)
{
    return member->pod && (member->state == GT_MEMBER_PLACED || member->state == GT_MEMBER_LIFTED ||
                           member->state == GT_MEMBER_LOST || member->state == GT_MEMBER_LOOSE);
}

/* Whether a member is not gated any more, so that the job can no longer be planned again as a whole. */
static inline bool gt_job_view_has_begun(const struct gt_job_view *view)
{
    return view->states[GT_MEMBER_PLACED] || view->states[GT_MEMBER_LIFTED] || view->states[GT_MEMBER_LOST] ||
           view->states[GT_MEMBER_LOOSE] || view->states[GT_MEMBER_MOVING];
}

/* The number of members whose pods are gated. */
static inline uint32_t gt_job_view_gated(const struct gt_job_view *view)
{
    return view->states[GT_MEMBER_TO_PLACE] + view->states[GT_MEMBER_PLANNED];
}

/* Whether all expected members have pods, so that no pod has to be waited for. */
static inline bool gt_job_view_is_complete(const struct gt_job_view *view)
{
    return !view->states[GT_MEMBER_RESERVED] && !view->states[GT_MEMBER_TO_RESERVE];
}
