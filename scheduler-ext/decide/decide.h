/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/decision_log.h"
#include "scheduler-ext/core/plan_rules.h"
#include "scheduler-ext/core/relocate.h"
#include "scheduler-ext/core/victims.h"
#include "scheduler-ext/decide/demands.h"
#include "scheduler-ext/decide/part.h"
#include "scheduler-ext/decide/view.h"
#include "scheduler-ext/jobs/rules.h"

/* Plans the members of one job that have no place: all of them; else as many units as fit, where a part of
 * the job may run (part.h); else none. No I/O, no clock. */

enum gt_decision {
    GT_DECISION_PLACED,  /* they are planned in the cache, or reserved where no pod exists */
    GT_DECISION_NOTHING, /* there was nothing to place */
    GT_DECISION_WAITS,   /* it does not fit; *failure and the text say why */
    GT_DECISION_BOUND,   /* it does not fit besides its own reservations, which must stay */
    GT_DECISION_FAILED,  /* something else went wrong; the text says what */
};

struct gt_decide_spec {
    const struct gt_node_set *avoid; /* nodes that are reserved for another job; NULL: none */
    const char *avoid_for;           /* text: what they are, as gt_promise_say() has it; NULL: not known */
    const struct gt_node_set *last_resort; /* nodes to use only where others are not enough; NULL: none */
    uint64_t reserve_until;                /* end of reservations for pods that do not exist yet */
    uint64_t gpus_max;                     /* most GPUs for a job of which a part may run; 0: no limit */
    bool crowded;                          /* other jobs wait for room, see gt_cluster_set_crowded() */
    struct gt_decision_log *log;           /* takes each decision; NULL: none does */
    const char *name;                      /* of the job, for the log */
    bool keep; /* no reservation is given up, since a write that names it may be in flight */
};

/*
 * Places stay: of members on a node, planned members, and reservations. Only where the job does not fit
 * otherwise, members that are planned but still gated are planned again with the rest. Afterwards only the
 * texts of the view are valid: make a new one.
 */
enum gt_decision gt_decide(struct gt_job_view *view, const struct gt_decide_spec *spec,
                           struct gt_plan_failure *ret_failure, struct gt_buf *text);

/*
 * Gives up reservations that would put a run into different supernodes, and returns whether there were any:
 * before the first gate of the job was removed, all its reservations; later, those of the run. Such
 * reservations arise when some pods have an older plan, whose write came late, and others a newer one.
 * `keep`: nothing is given up, only the result is returned.
 */
bool gt_decide_repair(struct gt_job_view *view, bool keep);

/* Gives up the reservations for pods that do not exist; before the job's first gate was removed, all its
 * reservations. The view is not valid afterwards. */
void gt_decide_give_back(struct gt_job_view *view);

/*
 * Reserves new places for members that have to leave theirs, before they do: those members of the run [first,
 * end) for which `leaves` is true (NULL: all). Members of the run without a place are placed with them; the
 * others stay. So there is no solution (GT_DECISION_WAITS) where the run would lie in different supernodes,
 * or where its reservations would have to change.
 */
enum gt_decision gt_decide_move(struct gt_job_view *view, uint32_t first, uint32_t end, const bool *leaves,
                                const struct gt_decide_spec *spec, struct gt_plan_failure *ret_failure,
                                struct gt_buf *text);

/*
 * The nodes to drain for a job that does not fit: those least in use, as few as are enough (core/drain.h).
 * False where it would not fit even then. Nothing is changed.
 */
bool gt_decide_drain(const struct gt_job_view *view, struct gt_node_set *ret);

/* Whether a job could begin now, or begin one more unit. *ret_places as in gt_decide_victims(). */
bool gt_decide_fits(const struct gt_job_view *view, const struct gt_node_set *avoid,
                    struct gt_plan_pod **ret_places);

struct gt_decide_victims {
    const struct gt_node_set *avoid; /* nodes that are not used; NULL: none */
    const uint64_t *freed;           /* [node] GPUs that become free anyway; NULL: none */
    struct gt_running_pod *victims;  /* candidates, see victims.h; the victims get `chosen` */
    uint32_t count;
    bool others_leave; /* pods without GPUs may be evicted, too, which is up to the caller */
    uint32_t least;    /* the victims have at least so many GPUs */
};

/*
 * The victims for a job that does not fit, so that it can begin, or begin one more unit. CPU and memory of
 * victims count as enough where they are needed. False where the job would not fit even then. *ret_places are
 * the job's places, by member, with node GT_NONE where there is none; the caller frees them. Nothing is
 * changed.
 */
bool gt_decide_victims(const struct gt_job_view *view, const struct gt_decide_victims *spec,
                       struct gt_plan_pod **ret_places);

/* The GPUs of a unit of the job, by these texts: 0: it has none; UINT32_MAX: that breaks a rule, or the units
 * have to lie together in one supernode of a tier. */
uint32_t gt_decide_unit_gpus(const struct gt_cache_job *job, const struct gt_job_texts *texts);

struct gt_decide_moves {
    const struct gt_node_set *avoid;       /* nodes that the job does not use; NULL: none */
    const struct gt_node_set *moves_avoid; /* nodes that pods do not move to; NULL: none */
    const struct gt_running_pod *pods;
    uint32_t count;
    uint64_t work; /* as in relocate.h, also the next two */
    bool (*may_go)(const void *arg, uint32_t pod, uint32_t node);
    const void *arg;
    struct gt_node_set *room; /* out: the nodes that the job has then; NULL: nobody asks */
};

/*
 * The moves that make room for a job that does not fit. Not possible also where its units are not all equal,
 * or some have begun. Whether pods have room for all else on their new nodes is up to the caller, who frees
 * ret->moves.
 */
int gt_decide_moves(const struct gt_job_view *view, const struct gt_decide_moves *spec,
                    struct gt_relocation *ret, struct gt_err **err);

/* The input of gt_plan_job() for one attempt to place a job. No I/O, no clock. */
struct gt_attempt {
    struct gt_plan_pod *pods; /* [member] */
    struct gt_node_set excluded;
    struct gt_node_set
        unusable; /* of the excluded ones, those where none of its pods may run, if they differ */
    struct gt_demands demands;
    struct gt_plan_failure last; /* of its last plan, where that failed */
    struct gt_plan_rules *rules; /* between its pods; NULL: none */
    struct gt_buf said;          /* what they are, for people: "; its pods ..." */
    uint32_t unsuitable;         /* of the excluded nodes: the job's pods may not run there */
    uint32_t by_people;          /* likewise, since people reserve them for others */
    uint32_t partly;             /* of the others: some of its pods may not run there */
    uint32_t refused;            /* of the others: its scheduler refused them */
    uint32_t reserved_nodes;     /* of the others: reserved for another job */
    uint32_t spares;             /* of the others: reserved for replacements */
    uint32_t reserved_gpus;      /* GPUs that are available there */
};

/* Makes an attempt. Excludes nodes that the job's pods may not use or that its scheduler refused, and those
 * of `avoid` and `last_resort` (NULL: none). Call gt_attempt_done() in any case. */
int gt_attempt_make(const struct gt_job_view *view, const struct gt_node_set *avoid,
                    const struct gt_node_set *last_resort, enum gt_cache_room room, struct gt_attempt *ret,
                    struct gt_err **err);
/* Adds the nodes where none of the job's pods may run, also those where nothing is placed now. */
int gt_attempt_unfit(const struct gt_job_view *view, struct gt_node_set *to, struct gt_err **err);
void gt_attempt_done(struct gt_attempt *attempt);
#define gt_auto_attempt __attribute__((cleanup(gt_attempt_done)))

/* A request without `limits` and `freed`; it borrows from view and attempt. */
struct gt_plan_request gt_attempt_request(const struct gt_job_view *view, const struct gt_attempt *attempt);

/* Restricts the attempt to `count` of the waiting units, from part->units[first] on; returns their GPUs. The
 * other waiting units count as running at an unknown place, so they restrict nothing. */
uint64_t gt_attempt_choose(struct gt_attempt *attempt, const struct gt_job_view *view,
                           const struct gt_waiting_units *waiting, uint32_t first, uint32_t count);

/* Jobs that would not fit even if no pod were in the cluster, all its GPUs were healthy, and all its nodes
 * could be used: they wait for other hardware, not for room. No I/O, no clock. */
struct gt_never_spec {
    const struct gt_job_units *units;
    const struct gt_plan_pod *pods;        /* [member] those with `running` are left out */
    const struct gt_node_set *excluded;    /* nodes where its pods may not run; NULL: none */
    const struct gt_cache_demand *demands; /* of its pods */
    unsigned demand_count;                 /* 0: nothing besides GPUs limits them */
};

/* True: it can never be placed; a sentence says which fact forbids it, and what would do. False also where
 * that is not sure (pods of several sizes), no node is known, or there is no memory. */
bool gt_never_fits(struct gt_cache *cache, const struct gt_never_spec *spec, struct gt_buf *text);
