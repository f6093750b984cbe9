/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "base/time_text.h"
#include "kube/index.h"
#include "kube/writer.h"
#include "scheduler-ext/core/decision_log.h"
#include "scheduler-ext/core/queue.h"
#include "scheduler-ext/decide/backoff.h"
#include "scheduler-ext/decide/brake.h"
#include "scheduler-ext/decide/moves.h"
#include "scheduler-ext/decide/ranks.h"
#include "scheduler-ext/decide/reservations.h"
#include "scheduler-ext/placement/controller.h"
#include "scheduler-ext/placement/objects.h"
#include "scheduler-ext/placement/patch.h"
#include "scheduler-ext/placement/quotas.h"
#include "scheduler-ext/placement/times.h"

/*
 * The controller's state: of pods (records), of jobs (pjob), and of writes. An event only marks a job; in
 * each round all marked jobs are reconciled as a whole (reconcile.c), waiting jobs are tried (attempt.c), and
 * writes are sent (write.c).
 */
struct pjob;
struct write;
struct eviction;

/* A pod that is gated, or planned and not bound. */
struct record {
    struct gt_index_entry *entry; /* has the names */
    struct gt_pod_object object;
    uint64_t unschedulable_ms; /* since when; 0: it is not */
    uint64_t stale;            /* digest of a version that is known to be outdated; 0: none */
    uint64_t stale_until_ms;   /* after that it is tried again */
    uint64_t claim_stale, claim_stale_until_ms; /* the same for its claim */
    uint64_t claim_seen_ms; /* since when its claim has the GPUs of the plan; 0: it has not */
    unsigned refusals;      /* refused writes in a row */
    uint64_t own_fence;     /* last fence that was acknowledged in this leader's term; 0: none */
    bool lifted, deleted;   /* the write was answered; the watch does not show it yet */
    bool hinted;            /* the hint was written */
    bool lost_reported;     /* the loss of its plan was reported */
    bool relisted; /* the next state counts even with a lower version, see gt_placement_on_relist() */
    bool no_gpus, no_gpus_reported; /* it asks for no GPUs, so it is in no job of the cache */
    const char *unread;             /* why the cache refused it, so that it is in no job; NULL: it did not */
    struct write *write;            /* waiting, or in flight */
};

struct tenant {                  /* a namespace with jobs; gt_cache_namespace.user */
    struct gt_queue_share share; /* first */
    struct gt_cache_namespace *namespace_;
    /* GPUs that its jobs have reserved for pods that do not exist. The API server's quota counts existing
     * pods only, so reservations are counted here. */
    uint64_t reserved;
    uint32_t jobs;
    uint64_t oldest_wait_s; /* within gt_placement_waits(): for how long the oldest of them waits */
    /* yield.c */
    uint32_t reserving;  /* jobs with places for pods that never existed */
    uint64_t silent_ms;  /* how long it had such jobs while few pods came */
    uint64_t counted_ms; /* when that was last counted */
    bool yielded;        /* it had to give up such places: it gets none until silent_ms is 0 */
};

/* Which pods of a job have to leave their places; new places are reserved for their successors. */
enum placement_moving {
    PLACEMENT_STAYS,
    PLACEMENT_UNIT_MOVES, /* those on other places than planned */
    PLACEMENT_JOB_MOVES,  /* all */
};

/* Other jobs of the controller with something in common. */
enum pjob_list {
    PJOBS_UNBOUND, /* place.unbound_gpus */
    PJOBS_KEPT,    /* place.kept_gpus */
    PJOBS_LOST,    /* ungated pods have lost their plan */
    PJOBS_LEFT,    /* a pod of them is gone, and its place is not reserved yet */
    PJOBS_DELAYED, /* they wait until fewer plans are to be written; the first one comes next */
    PJOB_LISTS,
};

/* A job waits for a place. */
struct pjob_wait {
    bool queued;
    bool fits;                 /* by the last gt_placement_look() */
    bool awaits_admission;     /* it waits for its PodGroup, or the queue of that */
    bool ended;                /* a plan was found for it that is not in its object yet */
    bool scattered;            /* there is room for it in all, but not together: moves may help */
    bool moves_told;           /* an Event has said which pods could move for it */
    uint64_t preempt_after_ms; /* no pods are chosen to leave for it before */
    unsigned size;             /* index in gt_wait_size_names; set with `ended` */
    uint64_t since_ms;         /* since when it waits for room; 0: it does not */
    int64_t since_s;           /* the same in Unix time, as published: also from earlier leaders */
    int64_t start_ms;          /* since_s as a time of gt_clock_ms(); below 0: before this machine began */
    uint64_t tries;
    uint64_t lacking_gpus;   /* GPUs that it may not reserve now; 0: it does not wait for that */
    uint64_t lacking_digest; /* digest of the limits at that time */
    char *volcano_queue;     /* the queue that has admitted it; NULL: none */
};

/* The places that it has. */
struct pjob_place {
    struct gt_reservations reservations;
    bool in_plan_order;     /* they are from an earlier leader's plan, and not by member yet */
    bool wants;             /* some of them are WANTED */
    bool is_reserving;      /* some of them are for pods that never existed */
    uint32_t too_many_gpus; /* GPUs of missing pods, where they exceed the limit for reservations; else 0 */
    uint64_t over_limit_ms; /* since when its reservations exceed a quota; 0: they do not */
    uint64_t unbound_gpus;  /* planned and on no node, or only just bound */
    uint64_t unbound_ms;    /* when they are to be counted again; 0: not set */
    uint32_t kept_gpus;     /* reserved, or planned for pods that are on no node */
    uint64_t kept_ms;       /* since when it has some, or has none */
    uint64_t reserved_until_ms; /* end of the node reservation for it; 0: it had none */
    int64_t reserved_until_s;   /* the same in Unix time, as published: must not vary */
};

/* Its pods come, its plan is written and its gates are removed. */
struct pjob_lift {
    bool began_in_term;    /* its first pod came in this leader's term */
    bool adopted;          /* the plan from before this leader's term was taken over */
    bool object_read;      /* the start of its waiting was taken over, too */
    bool scheduler_told;   /* it was reported that its pods wait for an unknown scheduler */
    bool refusal_reported; /* it was reported that the API server refuses a write */
    struct write *writes;
    uint64_t retry_ms;      /* after a failed write: no write before then; 0: none failed */
    uint64_t late_ms;       /* when gates may be removed although pods are missing; 0: not set */
    uint64_t offers_end_ms; /* until then its plan waits for pods that may come with another place; 0: no */
    uint64_t scheduler_ms;  /* since when its pods wait for an unknown scheduler; 0: they do not */
    uint64_t new_pod_ms;
    uint32_t pods_seen;
    uint32_t most_pods; /* the most pods that it ever had */
};

/* Its pods leave their places, or it gives up places without pods. */
struct pjob_move {
    enum placement_moving moving;
    bool wanted;             /* a unit has to move, and has no new place yet */
    bool braked;             /* since the brake holds */
    bool replans;            /* its pods are being evicted, since its plan failed before any of them ran */
    uint64_t leave_before_s; /* only pods created until then have to leave (Unix time) */
    struct gt_moves moves;
    uint64_t stays_until_ms; /* until then it does not move for a waiting job: it was not let go */
    uint64_t last_leaves_ms; /* when the last leaving pod is evicted even without a new place; 0: not set */
    struct eviction *evictions;
    uint64_t unplaced_digest;  /* digest of why its pods stay although they have no plan; 0: not reported */
    uint64_t unhealthy_digest; /* likewise why they stay although a GPU of them is unhealthy */
    bool is_sequential;        /* its owner creates the next pod when the last one is ready */
    bool yielded;              /* it had to give up places for pods that never existed */
    uint64_t yields_ms;        /* until then it is to give them up; 0: it is not */
};

/* What is told about it. */
struct pjob_report {
    uint64_t since_ms;  /* since when it is in its state */
    int64_t since_s;    /* the same in Unix time, as published: also from earlier leaders */
    const char *reason; /* a literal */
    char *text, *plan;
    const char *next_reason; /* they replace reason and text once these were told for long enough */
    char *next_text;         /* NULL: none do */
    uint64_t slow_digest;    /* of what was said of slow GPUs; 0: nothing */
    uint64_t told_ms;        /* when reason and text were reported; 0: they were not */
    uint64_t published_ms;   /* when the object was last updated with why it waits */
    uint64_t digest;         /* the last event */
    bool pending;            /* a condition, or the object, could not be written */
    uint64_t refused_ms; /* since when agents refuse its pods' claims; UINT64_MAX: that was reported; 0: they
                            do not */
};

struct pjob {
    struct gt_placement *placement;
    struct gt_cache_job *job; /* NULL: it is parked */
    char *key;                /* then of its job; else NULL */
    struct tenant *tenant;
    struct pjob *next, *previous;
    struct pjob *next_marked;
    struct pjob_link {
        struct pjob *next, *previous;
        bool in;
    } links[PJOB_LISTS];
    bool marked;
    enum gt_placement_state state;
    struct placement_object *object; /* NULL: no memory */
    uint32_t units;
    uint32_t units_placed; /* where these may run while others wait for room; else 0 */
    uint64_t due_ms;       /* when it is to be reconciled again; UINT64_MAX: after an event */
    uint64_t rest_ms; /* it is not reconciled before: for a large job that is expensive, and each of its pods
                         marks it */
    struct pjob_wait wait;
    struct pjob_place place;
    struct pjob_lift lift;
    struct pjob_move move;
    struct pjob_report report;
};

/* The jobs, and how many of them are in some way. */
struct placement_jobs {
    struct pjob *first, *marked;
    struct pjob *parked; /* jobs whose pods have all left for other places, and not come back yet */
    struct pjob_ends {
        struct pjob *first, *last;
    } lists[PJOB_LISTS];
    struct gt_ranks ranks;
    uint32_t reserving; /* they have places for pods that never existed */
    uint32_t lacking;   /* they wait until more may be reserved */
    uint32_t waiting;   /* in GT_PLACEMENT_WAITS */
    bool has_orphans;   /* a job is gone: its object is to be deleted */
};

/* What it knows of its term as the leader, and of the leader while another replica is. */
struct placement_term {
    bool is_on; /* new jobs began in its term */
    uint64_t began_ms;
    /* Pods to which an earlier leader has offered a place exist by then; 0: there are none. */
    uint64_t earlier_end_ms;
    bool earlier_known;  /* that time is known */
    bool note_is_fresh;  /* it is from the note that was read since the last term */
    uint64_t offered_ms; /* the last offer of any place in this process; 0: none */
};

/* Nodes that not every job may use, or whose pods are to leave. */
struct placement_nodes {
    uint32_t unhealthy;         /* where pods are evicted for its unhealthy GPUs */
    uint64_t unhealthy_next_ms; /* when it is the next node's turn */
    struct gt_brake brake;
    struct gt_node_set leaving; /* scratch: those that are asked about */
    struct gt_node_set spares;
    uint64_t spares_ms; /* time of the last search for them */
    struct pjob *holder;
    struct gt_node_set reserved;
    uint64_t reserved_digest;
};

/* The Node whose taint is set or taken (taints.c). */
struct placement_taints {
    struct gt_kube_call *call; /* that reads it; NULL: none is */
    char name[GT_CLUSTER_NAME_MAX + 1];
    uint32_t node; /* its id: the next ones come first, so that one that cannot be written holds up none */
    unsigned all, bad;
    bool puts, failing, is_braked;
};

/* The last search for moves (rebalance.c). */
struct placement_rebalance {
    uint64_t job; /* for which it was; 0: there was none */
    uint64_t next_ms;
    char *text; /* what it found; NULL: nothing */
};

/* Pods of lower priority that leave for a waiting job (preempt.c). */
struct placement_preempt {
    struct pjob *job;         /* for which they leave: it holds `nodes`; NULL: none */
    struct gt_node_set nodes; /* where it gets its places */
    uint32_t *places;         /* the same, by member; GT_NONE: none, or it has one */
    uint32_t place_count;
    uint64_t until_ms; /* nobody else is chosen for it before: GPUs are reported free with a delay */
    uint64_t next_ms;  /* when the next search may begin */
    struct preempt_victim {
        struct gt_cache_pod_name pod;
        uint64_t barred_until_ms; /* its eviction was refused: not chosen before; 0: it is to leave */
    } * victims;
    uint32_t count, capacity;
};

/* With --rebalance=evict: the moves that are made for one waiting job (rebalance_moves.c). */
struct placement_moves {
    struct pjob *waiting; /* gets the room; NULL: nothing moves */
    char *text;           /* the moves, as its GPUPlacement has them */
    char *words;          /* the same, in pieces */
    struct placement_move {
        const char *namespace_, *name, *uid, *node; /* of a pod, and where it goes */
        uint32_t unit;                              /* counted from 0 */
        uint64_t job;                               /* its number; 0: not known */
        bool begun;
    } * list;
    uint32_t count, units;
    struct gt_node_set room; /* the nodes that it gets */
    bool holds;              /* they are reserved for it */
    bool in_force;           /* its object has the moves */
    uint64_t began_ms;
    uint64_t unit_ms; /* when the last unit began */
    uint64_t rest_ms; /* after moves that made no room: none before */
    char *stopped;    /* why they made none; NULL: they did */
    struct placement_moved {
        uint64_t times_s[GT_MOVES_A_DAY_MAX]; /* of the moves of the last day (Unix time) */
        uint32_t count;
    } made;
};

/* When there is something to do. */
struct placement_round {
    struct gt_source *timer;
    bool started, running;
    bool more_room;      /* a reservation was given up while the queue ran */
    uint64_t left_ms;    /* so long no waiting job is tried for the sake of PJOBS_LEFT */
    uint64_t wake_ms;    /* when waiting jobs are tried at the latest */
    uint64_t due_ms;     /* the earliest due_ms */
    uint64_t no_gpus_ms; /* when pods without GPUs are reconciled; UINT64_MAX: there are none */
    uint64_t yield_ms;   /* when a job may have to give up places; UINT64_MAX: none */
};

/* Reports: only why a job waits; checkpoints: that pods are asked for one. */
enum placement_line {
    PLACEMENT_LIFTS,
    PLACEMENT_PLANS,
    PLACEMENT_REPORTS,
    PLACEMENT_EVICTIONS,
    PLACEMENT_TAINTS,
    PLACEMENT_CHECKPOINTS,
    PLACEMENT_LINES
};

struct gt_placement {
    struct gt_placement_spec spec;
    struct gt_placement_times times;
    struct backoffs backoffs;
    struct gt_quotas quotas;
    struct gt_queue *queue;
    struct placement_objects objects;
    struct placement_jobs jobs;
    struct placement_term term;
    struct gt_index pods; /* an entry's item is a struct record */
    struct placement_taints taints;
    struct placement_nodes nodes;
    struct placement_round round;
    struct placement_rebalance rebalance;
    struct placement_preempt preempt;
    struct placement_moves moves;
    struct gt_write_line lines[PLACEMENT_LINES];
    struct gt_placement_counters counters;
    struct gt_decision_log *log;
};

uint64_t gt_placement_now_s(void);
/* Convert a time of gt_clock_ms() to Unix seconds, rounded to the nearest, and to text; and back (0: none).
 * Rounding keeps a time the same when successive leaders read and write it. */
int64_t gt_placement_unix_s(uint64_t when);
void gt_placement_time_text(uint64_t when, char to[static GT_TIME_TEXT_SIZE]);
uint64_t gt_placement_time_of_unix(int64_t when);
uint64_t gt_placement_time_of_text(const char *text);

/* Whether it is active, and this replica leads by the clock. */
bool gt_placement_may_send(void *placement);

/* ---- jobs.c ---- */

/* The controller's job, made where `make` says so. NULL: there is none, or no memory. */
struct pjob *gt_placement_job_of(struct gt_placement *placement, struct gt_cache_job *job, bool make);
/* It has no pods any more. Its object goes, too. */
void gt_placement_drop(struct pjob *pjob);
/* Keeps the places of a job's successors while it has no pods: their owner makes the next ones later, where a
 * Job backs off or a StatefulSet waits for the end of the old ones. `last`: the pod that has gone. False: it
 * has no such places, or no successor comes. */
bool gt_placement_park(struct pjob *pjob, const struct gt_cache_pod *last);
/* At the start of a term: likewise for what an earlier leader has promised such jobs. */
void gt_placement_adopt_parked(struct gt_placement *placement);
/* Ends the one of this key, if there is one. */
void gt_placement_end_parked(struct gt_placement *placement, const char *key);
/* Ends those whose places have lapsed. */
void gt_placement_sync_parked(struct gt_placement *placement);
/* Whether all its pods are on their way out, and places are reserved for their successors: there is nothing
 * to decide before one of these comes. */
bool gt_placement_awaits_successor(struct pjob *pjob, uint64_t now);

/* ---- state.c ---- */

/* Starts the next round immediately. */
void gt_placement_wake(struct gt_placement *placement);
/* Marks a job to be reconciled in the next round. */
void gt_placement_mark(struct pjob *pjob);
/* Adds the job to the end of a list, or takes it out; without effect where it is so already. */
void gt_placement_list(struct pjob *pjob, enum pjob_list list, bool in);
/* The job is reconciled at `when` at the latest. */
void gt_placement_due(struct pjob *pjob, uint64_t when);
void gt_placement_mark_no_gpus(struct gt_placement *placement);
/* Whether the table of events (job_states.def) allows this now. */
bool gt_placement_may_follow(const struct pjob *pjob, enum gt_placement_state state, const char *reason);
/* The table of events must allow it. Where the last reason and text were reported a moment ago, new ones of
 * the same state wait: everybody reads the same, and not too often something new. */
void gt_placement_set_state(struct pjob *pjob, enum gt_placement_state state, const char *reason,
                            const char *text);
/* Its reason and text are reported now. */
void gt_placement_set_told(struct pjob *pjob);
/* Takes the reason and the text that wait, if their time has come; else the job is reconciled again then. */
bool gt_placement_renew_text(struct pjob *pjob);
/* Since when a job is in a state, as its objects say: the GPUPlacement (`known`, NULL: there is none), the
 * conditions of its pods, and when these were created. Unix time; 0: they do not say. */
int64_t gt_placement_recorded_since(const struct gt_placement *placement, const struct gt_cache_job *job,
                                    const struct placement_known *known, enum gt_placement_state state);
/* What is told about a job: since when it is in its state (Unix time). */
int64_t gt_placement_since_s(const struct pjob *pjob);
/* Reports an internal failure (for example, no memory); the caller lets the job be tried again. */
void gt_placement_fail(struct pjob *pjob, const char *text);
void gt_placement_event(struct pjob *pjob, const struct gt_cache_pod *pod, bool warning, const char *reason,
                        const char *action, const char *text);
/* The Event that the API server refuses a write, once a job. */
void gt_placement_write_refused(struct pjob *pjob, const struct gt_cache_pod *pod, const char *action,
                                const struct gt_err *error);
/* The precedence of a job: the highest priority of its pods, and when the first of them was created (Unix
 * time). */
void gt_placement_precedence(const struct gt_cache_job *job, int32_t *ret_priority, uint64_t *ret_created_s);
/* Tells on_note(). `name`: of what the error is about. */
void gt_placement_note_error(const struct gt_placement *placement, const char *name,
                             const struct gt_err *error);
/* Reports a pod that belongs to no job. */
void gt_placement_report_no_gpus(struct gt_placement *placement, const struct record *record);

/* Whether the record is newer than this version of the pod: the answer to a write may come before the watch
 * shows earlier versions, or after the watch has shown later ones. */
bool gt_record_is_newer(const struct record *record, const char *version);
static inline const char *gt_record_namespace(const struct record *record)
{
    return record->entry->key;
}
static inline const char *gt_record_name(const struct record *record)
{
    return gt_index_name(record->entry);
}

/* ---- pinned.c ---- */
/* Searches the spare nodes again. */
void gt_placement_find_spares(struct gt_placement *placement);
/* Reports supernodes that are to have more spare nodes than they have nodes. */
void gt_placement_report_spares(struct gt_placement *placement);
/* Notes in the ledger what people reserve now, and reports what cannot be read. */
void gt_placement_note_reserved(struct gt_placement *placement);
/* ---- taints.c ---- */
void gt_placement_taint_open(struct gt_placement *placement);
/* Sets or takes the taint of one Node, if one has to change. */
void gt_placement_taint(struct gt_placement *placement);
void gt_placement_taint_stop(struct gt_placement *placement);

static inline struct record *gt_record_find(const struct gt_placement *placement, const char *namespace_,
                                            const char *name)
{
    return gt_index_item(&placement->pods, namespace_, name);
}
static inline struct record *gt_record_of(const struct gt_placement *placement,
                                          const struct gt_cache_pod *pod)
{
    return gt_record_find(placement, pod->meta.namespace_, pod->meta.name);
}

/* ---- records.c ---- */
/* The record of a pod that may be written to now; NULL: it may not. */
struct record *gt_record_writable(struct pjob *pjob, const struct gt_cache_pod *pod, uint64_t now);
void gt_records_done(struct gt_placement *placement);

/* ---- admit.c ---- */
/* A pod that the cache does not know yet was created with a plan. */
void gt_placement_admitted(struct gt_placement *placement, const struct gt_pod *pod);
