/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The order in which waiting jobs are tried, and what keeps large jobs from starving. No clock, no I/O: times
 * are the caller's, in milliseconds.
 *
 * Order: jobs that run in part; then higher priority; then jobs that need more than growth; then the earlier
 * start in a weighted fair queue of namespaces; then the older job. The start of a job is the number of GPUs
 * that its namespace holds, plus those of the namespace's waiting jobs before it, divided by the namespace's
 * weight. So a thousand jobs of one namespace do not delay the first job of another. Starts are computed when
 * a round begins; a job that comes later starts after the others of its namespace. A job for which no nodes
 * could be reserved does not delay others of its namespace. One that never fits comes after all others.
 *
 * A round tries every job once, in this order, so smaller jobs overtake a large one that does not fit. The
 * first job in this order that has waited for `patience_ms` becomes the holder: the nodes that it needs are
 * reserved, and jobs after it in the order may not use them. So these nodes become empty, at the latest when
 * the pods that ran on them at that time have ended. There is one holder at a time. When its reservation
 * ends, its waiting time for the next one starts again. The next holder is a job that has waited for
 * `patience_ms`: first one without an earlier reservation, then the one whose reservation ended longest ago.
 * A job that only grows is the holder only while others leave for it. One that never fits is never the
 * holder; its patience begins when it could fit.
 */
struct gt_queue;

/* A namespace: owned and zeroed by the caller; must exist while one of its jobs is in the queue. */
struct gt_queue_share {
    uint64_t used;    /* GPUs; this and `weight` are written by gt_queue_spec.share() */
    uint32_t weight;  /* 1 or more */
    uint32_t waiting; /* jobs; this and the next two are the queue's */
    uint64_t gpus;    /* of the waiting jobs */
    uint64_t round;   /* in which it was last updated */
};

struct gt_queue_entry {
    void *job;                    /* the caller's pointer, and the key of the entry */
    struct gt_queue_share *share; /* of its namespace; always the same one for a job */
    uint64_t gpus;                /* that it needs */
    bool partial;                 /* some of its pods run and need others that have no place */
    bool grows;                   /* it can run with the pods that have places: it would only become larger */
    int32_t priority;             /* higher comes first */
    uint64_t created_s;           /* Unix time, older comes first */
    uint64_t number;              /* breaks ties, different for each job */
    uint64_t since_ms;            /* when it began to wait */
    uint64_t reserved_until_ms;   /* the end of its last reservation, as given to hold(); 0: it had none */
    uint64_t shape; /* jobs with equal shapes either all fit or all do not; 0: no other has its shape */
};

enum gt_queue_result {
    GT_QUEUE_DONE,     /* it leaves the queue: it is placed, or needs nothing */
    GT_QUEUE_BLOCKED,  /* there is no room for it */
    GT_QUEUE_PREEMPTS, /* likewise, and others leave for it: unless it may not use the holder's nodes, it
                          becomes the holder at once, and jobs of lower priority may not use its nodes */
    GT_QUEUE_NEVER,    /* it would not fit even into the empty cluster: it stays, and hinders no other job */
    GT_QUEUE_FAILED,   /* something else, which does not affect other jobs */
};

struct gt_queue_spec {
    uint64_t patience_ms;    /* UINT64_MAX: no job ever becomes the holder */
    uint64_t reservation_ms; /* length of the holder's reservation; 0: no end */
    /* Sets `holds` and `weight` of a namespace. */
    void (*share)(void *arg, struct gt_queue_share *share);
    /* Tries to place a job. `restricted`: it may not use the holder's nodes. It must not change the queue. */
    enum gt_queue_result (*try)(void *arg, void *job, bool restricted);
    /* `job` was not tried: it is blocked as `like` is, which has the same shape. */
    void (*same)(void *arg, void *job, void *like);
    /* Chooses and reserves the holder's nodes; false where none would help. `job` NULL: ends the reservation.
     */
    bool (*hold)(void *arg, void *job, uint64_t reserved_until_ms);
    uint64_t (*now_ms)(void *arg);
    void *arg;
};

enum { GT_QUEUE_MAX = 1 << 17 };

int gt_queue_new(const struct gt_queue_spec *spec, struct gt_queue **ret, struct gt_err **err);
void gt_queue_free(struct gt_queue *queue);

/* Adds a job, or replaces its entry. The entry is copied. */
int gt_queue_put(struct gt_queue *queue, const struct gt_queue_entry *entry, struct gt_err **err);
/* False where it was not in the queue. */
bool gt_queue_remove(struct gt_queue *queue, const void *job);
/* Its position in the order, from 0; UINT32_MAX where it is not in the queue. */
uint32_t gt_queue_place(const struct gt_queue *queue, const void *job);

/* The job before it in the order; NULL: it is the first, or not in the queue. */
void *gt_queue_before(const struct gt_queue *queue, const void *job);

/* Whether a job that is not in the queue would come after the holder in the order, so that it may not use the
 * holder's nodes. */
bool gt_queue_is_behind_holder(struct gt_queue *queue, const struct gt_queue_entry *entry);

/* The job becomes the holder now, or stays it, for a whole new reservation. False: there is another one, or
 * no nodes can be reserved for it. */
bool gt_queue_begin_hold(struct gt_queue *queue, const void *job);
/* The opposite: it becomes the holder again when it has waited for long enough. */
void gt_queue_end_hold(struct gt_queue *queue, const void *job);

/* Whether a job other than this one waits that had no room when it was last tried. */
bool gt_queue_is_crowded(const struct gt_queue *queue, const void *job);

/* To be called when something has changed, so that another round is useful. */
void gt_queue_wake(struct gt_queue *queue);
/* Tries jobs for about `budget_ms` at most. True: the round is not finished, call again. */
bool gt_queue_run(struct gt_queue *queue, uint64_t budget_ms);
/* When gt_queue_run() is to be called again; UINT64_MAX: after gt_queue_wake(). After a round that placed no
 * job there is a pause. */
uint64_t gt_queue_next_ms(const struct gt_queue *queue);
