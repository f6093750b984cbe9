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
 * the units. Made anew from the cache whenever something is to be decided, so that no event can be missed. No
 * I/O, no clock.
 */
enum gt_member_state {
    GT_MEMBER_PLACED,     /* on a node */
    GT_MEMBER_LIFTED,     /* not gated, on no node yet; its plan holds */
    GT_MEMBER_LOST,       /* likewise, but its plan's place is taken */
    GT_MEMBER_LOOSE,      /* likewise, without a plan: it was never gated */
    GT_MEMBER_PLANNED,    /* gated, its plan holds */
    GT_MEMBER_TO_PLACE,   /* gated, without a plan */
    GT_MEMBER_RESERVED,   /* not made yet; a place is kept for it */
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
    struct gt_job *job; /* members stand in the same order as here */
    struct gt_job_view_member *members;
    uint32_t count;
    uint32_t states[GT_MEMBER_STATES]; /* how many there are of each */
    uint32_t missing;                  /* members without a pod */
    bool grouped;                      /* it has units; otherwise there is nothing to place */
    bool whole;                        /* none of its pods has a place: it is planned from the start */
    bool gave_up;                      /* out of gt_decide(): promises were given up */
    const struct gt_node_set *refused; /* of the spec: none of its members is placed there */
};

struct gt_job_view_spec {
    const struct gt_owner *owner;      /* NULL: not known, the pods at hand are all there is */
    const struct gt_ranks *ranks;      /* may be NULL */
    const struct gt_node_set *refused; /* nodes that its scheduler refused; NULL: none */
    /* Whether a gated pod's gate has gone, of which the cache is still to be told. NULL: of none. */
    bool (*is_lifted)(const void *arg, const struct gt_cache_pod *pod);
    const void *arg;
    uint64_t now;
    uint64_t wanted_until;  /* a pod that left a running job wants its place back until then */
    bool none_come;         /* nobody makes its missing pods now */
    uint64_t missing_until; /* places of pods that are not made are kept until then */
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

/* Where a member is, or is planned or promised to be; GT_NONE: nowhere that is known. *ret_mask are its GPUs,
 * 0 where they are not known. */
uint32_t gt_job_view_place(const struct gt_job_view *view, const struct gt_reservations *reservations,
                           const struct gt_cluster *cluster, uint32_t at, uint64_t *ret_mask);
void gt_job_view_set_state(struct gt_job_view *view, uint32_t at, enum gt_member_state state);

/* Whether nobody will come for a member that is missing. `owner` may be NULL. */
bool gt_job_view_has_ended(const struct gt_job_view *view, const struct gt_owner *owner, uint32_t at);

/* Whether a pod takes part in the plans of its job: it is not about to go. */
static inline bool gt_job_view_counts(const struct gt_cache_pod *pod)
{
    return !pod->deleting;
}

/* Whether a member is beyond its gate: the plan can no more be made anew as a whole. */
static inline bool gt_job_view_has_begun(const struct gt_job_view *view)
{
    return view->states[GT_MEMBER_PLACED] || view->states[GT_MEMBER_LIFTED] || view->states[GT_MEMBER_LOST] ||
           view->states[GT_MEMBER_LOOSE];
}

/* Whether all members that are still to come have come: nobody is to be waited for. */
static inline bool gt_job_view_is_complete(const struct gt_job_view *view)
{
    return !view->states[GT_MEMBER_RESERVED] && !view->states[GT_MEMBER_TO_RESERVE];
}

#endif
