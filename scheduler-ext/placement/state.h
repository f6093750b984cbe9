/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_STATE_H
#define GPUTOPO_PLACEMENT_STATE_H

#include "base/loop.h"
#include "base/time_text.h"
#include "kube/index.h"
#include "scheduler-ext/core/queue.h"
#include "scheduler-ext/decide/backoff.h"
#include "scheduler-ext/decide/noted.h"
#include "scheduler-ext/decide/ranks.h"
#include "scheduler-ext/decide/reservations.h"
#include "scheduler-ext/placement/controller.h"
#include "scheduler-ext/placement/objects.h"
#include "scheduler-ext/placement/patch.h"
#include "scheduler-ext/placement/quotas.h"
#include "scheduler-ext/placement/times.h"

/*
 * What the controller remembers: of pods (records), of jobs (pjob), of what is being written. Every event
 * only marks a job; once a round each marked job is reconciled as a whole (reconcile.c), waiting
 * jobs are tried (attempt.c), and writes are sent (write.c).
 */
struct pjob;
struct write;
struct eviction;

/* A pod that is gated, or planned and not bound. */
struct record {
    struct gt_index_entry *entry; /* has the names */
    struct gt_pod_object object;
    uint64_t unschedulable_ms; /* since when; 0: it is not */
    uint64_t stale;          /* digest of the version that the API server has a newer one of; 0: none known */
    uint64_t stale_until_ms; /* it is tried all the same after that */
    uint64_t claim_stale, claim_stale_until_ms; /* the same of its claim */
    uint64_t claim_seen_ms; /* since when its claim has been seen with the GPUs of the plan; 0: it has not */
    unsigned refusals;      /* writes that the API server refused, one after the other */
    uint64_t own_fence;     /* the last one that this leader had acknowledged in its term; 0: none */
    bool lifted, deleted;   /* the answer to that came; the object itself is still to come */
    bool hinted;            /* it had its hint from here */
    bool lost_reported;     /* that its plan was lost */
    bool relisted; /* what comes next counts though its version is lower; see gt_placement_on_relist() */
    bool no_gpus, no_gpus_reported; /* it asks for no GPUs: no job of the cache has it */
    const char *unread;             /* nor has one this: why the cache did not take it; NULL: it did */
    struct write *write;            /* waiting, or on its way */
};

struct write_line { /* those that wait */
    struct write *first, *last;
};

struct tenant {                  /* a namespace that has jobs here; gt_cache_namespace.user */
    struct gt_queue_share share; /* first */
    struct gt_cache_namespace *namespace_;
    /* GPUs that its jobs have reserved for pods that do not exist. A pod that exists is charged by the API
     * server's quota; a reservation would be charged to nobody. */
    uint64_t reserved;
    uint32_t jobs;
};

/* Which pods of a job have to leave their places, for whose successors others are kept. */
enum placement_moving {
    PLACEMENT_STAYS,
    PLACEMENT_UNIT_MOVES, /* those that are elsewhere than planned */
    PLACEMENT_JOB_MOVES,  /* all */
};

struct pjob {
    struct gt_placement *placement;
    struct gt_cache_job *job;
    struct tenant *tenant;
    struct pjob *next, *previous;
    struct pjob *next_marked;
    struct pjob *next_delayed, *previous_delayed;
    bool marked, queued;
    bool delayed;          /* until fewer plans wait to be written */
    bool wants;            /* some of its reservations do */
    bool reserves;         /* some of its reservations are kept */
    bool awaits_admission; /* by its queue in Volcano */
    char *volcano_queue;   /* that has let it in; NULL: none */
    uint32_t units;
    uint32_t units_placed; /* where these may run though others wait for room; else 0 */
    uint64_t unbound_gpus; /* planned and on no node, or on one for a moment only */
    uint64_t unbound_ms;   /* then they count less; 0: not set */
    struct pjob *next_unbound, *previous_unbound;
    struct gt_reservations reservations;
    struct placement_object *object; /* NULL: no memory */
    bool has_lost;                   /* pods without their gate have lost their plan */
    struct pjob *next_lost, *previous_lost;
    bool began_in_term;    /* of this leader */
    bool adopted;          /* what the object planned before this leader's term was taken over */
    bool object_read;      /* since when it has waited was taken over, too */
    uint64_t offered_ms;   /* the last offer of a reserved place to a pod that is being made; 0: none */
    uint64_t published_ms; /* the object said last why it waits */
    enum gt_placement_state state;
    uint64_t since_ms, waits_ms; /* waits_ms: since when it waits for room, 0: it does not */
    uint64_t
        reserved_until_ms;    /* the end of the reservation of nodes for it while it waits; 0: it had none */
    int64_t reserved_until_s; /* the same as Unix time, as it is published: it must not vary */
    uint32_t too_many_gpus;   /* those would have so many GPUs: more than are kept; 0: they would not */
    uint64_t new_pod_ms;
    enum placement_moving moving;
    uint64_t leave_before_s; /* none of those that have to leave was made later, by the API's time */
    bool wants_move;         /* of a unit, for which there is no other place yet */
    struct eviction *evictions;
    uint64_t last_leaves_ms; /* the last pod of the job goes then, though no other one has come; 0: not set */
    uint64_t lift_ms;        /* gates may go though pods are missing; 0: not set */
    uint64_t due_ms;         /* to be looked at again; UINT64_MAX: when something happens */
    uint64_t lacking_gpus;   /* it wants so many reserved and may not; 0: it does not wait for that */
    uint64_t lacking_digest; /* of what bounded it then */
    uint64_t over_limit_ms;  /* since then its reservations are more than a quota allows; 0: they are not */
    uint64_t rest_ms; /* it is not looked at before: a look at a big job costs, and each of its pods asks
                         for one */
    uint64_t tries;
    uint32_t pods_seen;
    struct write *writes;
    const char *reason; /* a literal */
    char *text, *plan;
    uint64_t reported_digest, reported_ms; /* the last event */
    bool default_amount;                   /* a pod's condition could not be written then */
    uint64_t refused_ms;                   /* since when agents refuse claims of its pods; 0: they do not */
    bool refused_reported;
    uint64_t retry_ms;     /* after a failed write: not before then; 0: none failed */
    bool refusal_reported; /* that the API server refuses a write */
};

struct gt_placement {
    struct gt_placement_spec spec;
    struct gt_placement_times times;
    struct gt_noted remote; /* of another replica, while it does not act */
    struct backoffs backoffs;
    struct gt_quotas quotas;
    uint32_t lacking;            /* jobs that wait until more may be reserved */
    struct pjob *unbound, *lost; /* jobs with unbound_gpus, with has_lost */
    struct gt_source *timer;
    bool started, in_round;
    struct pjob *jobs, *marked;
    struct gt_queue *queue;
    struct gt_ranks ranks;
    struct placement_objects objects;
    uint64_t term_ms; /* when it began to act */
    bool in_term;     /* jobs that come from now on began in its term */
    bool has_orphans; /* a job went: its object is to be deleted */
    struct gt_index index;
    struct record **records; /* by an entry's mark */
    uint32_t *gaps;
    uint32_t record_count, record_capacity, gap_count;
    struct write_line acting, reporting;
    uint32_t writes_waiting, writes_running, reporting_running;
    uint32_t plans_waiting;                    /* writes of GPUPlacements with a plan, among those */
    struct pjob *first_delayed, *last_delayed; /* jobs that may not add one */
    uint32_t evictions_running;
    struct gt_node_set spares;
    uint64_t spares_ms; /* when they were looked for */
    struct pjob *holder;
    struct gt_node_set reserved_nodes;
    uint64_t reserved_digest;
    uint64_t next_wake_ms; /* waiting jobs are tried then at the latest */
    uint64_t next_due_ms;  /* no job is due before */
    uint64_t no_gpus_ms;   /* pods without GPUs are reconciled then; UINT64_MAX: there are none */
    bool room;             /* something was given up while the queue ran */
    struct gt_placement_counters counters;
};

uint64_t gt_placement_now_s(void);
/* A time of gt_clock_ms() in seconds since 1970, the nearest one, and as a text; and back, where 0 is none.
 * So what one leader after the other reads and writes stays the same. */
int64_t gt_placement_unix_s(uint64_t when);
void gt_placement_time_text(uint64_t when, char to[static GT_TIME_TEXT_SIZE]);
uint64_t gt_placement_time_of_unix(int64_t when);
uint64_t gt_placement_time_of_text(const char *text);

/* Whether it acts, also by the clock. */
bool gt_placement_may_write(const struct gt_placement *placement);

/* The next round comes at once. */
void gt_placement_wake(struct gt_placement *placement);
/* The job is reconciled in the next round; pods without GPUs are. */
void gt_placement_mark(struct pjob *pjob);
/* It is reconciled at this time at the latest. */
void gt_placement_due(struct pjob *pjob, uint64_t when);
void gt_placement_mark_no_gpus(struct gt_placement *placement);
void gt_placement_set_state(struct pjob *pjob, enum gt_placement_state state, const char *reason,
                            const char *text);
/* No memory, for instance: who calls has it tried again. */
void gt_placement_fail(struct pjob *pjob, const char *text);
void gt_placement_event(struct pjob *pjob, const struct gt_cache_pod *pod, bool warning, const char *reason,
                        const char *action, const char *text);
/* What decides between jobs: the highest priority of a job's pods, and when the first of them was made. */
void gt_placement_precedence(const struct gt_cache_job *job, int32_t *ret_priority, uint64_t *ret_created_s);
/* Reports a pod that belongs to no job. */
void gt_placement_report_no_gpus(struct gt_placement *placement, const struct record *record);

/* Than this version of the pod: the answer to a write may come before the watch shows what was before
 * it, or after the watch has shown what came next. */
bool gt_record_is_newer(const struct record *record, const char *version);
static inline const char *gt_record_namespace(const struct record *record)
{
    return record->entry->key;
}
static inline const char *gt_record_name(const struct record *record)
{
    return gt_index_name(record->entry);
}

/* ---- spares.c ---- */
/* Looks for the spare nodes again. */
void gt_placement_find_spares(struct gt_placement *placement);
/* Reports supernodes with more spare nodes wanted than they have nodes. */
void gt_placement_report_spares(struct gt_placement *placement);

/* ---- records.c ---- */
struct record *gt_record_find(const struct gt_placement *placement, const char *namespace_, const char *name);
/* That of a pod that may be written to now; NULL: not now. */
struct record *gt_record_writable(struct pjob *pjob, const struct gt_cache_pod *pod, uint64_t now);
void gt_records_done(struct gt_placement *placement);

/* ---- admit.c ---- */
/* A pod that the cache does not know yet has come with a plan. */
void gt_placement_admitted(struct gt_placement *placement, const struct gt_pod *pod);

#endif
