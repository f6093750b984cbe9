/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_QUEUE_H
#define GPUTOPO_CORE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Which waiting job is tried next, and how big ones are kept from starving. No clock, no I/O: times are the
 * caller's, in milliseconds.
 *
 * Order: jobs that run in part first, then the higher priority, then those that do not only grow, then the
 * one that starts earlier in a weighted fair queue of namespaces, then the older one. A job's start: the GPUs
 * that its namespace holds, and those of the namespace's waiting jobs before it, divided by the namespace's
 * weight. So one namespace's thousand jobs delay no other's first. Starts are computed when a round begins,
 * and a job that comes later starts behind those of its namespace. A job that no nodes would help delays none
 * of its namespace.
 *
 * A round tries every job once, in this order; smaller ones so pass a big one that does not fit. The first
 * job in order that has been waiting for `patience` becomes the holder: nodes are chosen that it would need,
 * and who comes behind it in the order may not use them. So they run empty, and the holder waits no longer
 * than the pods that were on them when they were chosen. There is one holder at a time. When its reservation
 * ends, its patience begins again. The next holder is a job that has waited for as long: first one that had
 * no reservation yet, then the one whose reservation ended longest ago. A job that only grows is never the
 * holder.
 */
struct gt_queue;

/* A namespace: zeroed by the caller, who keeps it while one of its jobs is in the queue. */
struct gt_queue_share {
    uint64_t holds;   /* GPUs; as the next, written by gt_queue_spec.share() */
    uint32_t weight;  /* 1 or more */
    uint32_t waiting; /* jobs; as the next, the queue's */
    uint64_t gpus;    /* of those jobs */
    uint64_t round;   /* it was looked at in */
};

struct gt_queue_entry {
    void *job;                    /* the caller's; its key here */
    struct gt_queue_share *share; /* of its namespace; always the same one for a job */
    uint64_t gpus;                /* that it needs */
    bool partial;                 /* some of its pods run, and lack others */
    bool grows;                   /* enough of its pods have places: it would only be bigger */
    int32_t priority;             /* higher goes first */
    uint64_t created_s;           /* Unix time, older goes first */
    uint64_t number;              /* breaks ties, different for each job */
    uint64_t since_ms;            /* it waits since then */
    uint64_t reserved_until_ms;   /* the end of its last reservation, as given to hold(); 0: it had none */
    uint64_t shape;               /* jobs of one shape fit or do not fit alike; 0: like no other */
};

enum gt_queue_result {
    GT_QUEUE_DONE,    /* it left: it is placed, or needs nothing */
    GT_QUEUE_BLOCKED, /* there is no room for it */
    GT_QUEUE_FAILED,  /* something else is wrong; others are not affected */
};

struct gt_queue_spec {
    uint64_t patience_ms;    /* UINT64_MAX: nobody ever becomes the holder */
    uint64_t reservation_ms; /* of the holder; 0: no end */
    /* Writes what a namespace holds and its weight. */
    void (*share)(void *arg, struct gt_queue_share *share);
    /* Tries one. `restricted`: it may not use the holder's nodes. It must not change the queue. */
    enum gt_queue_result (*try)(void *arg, void *job, bool restricted);
    /* It is blocked as `like` is, which has its shape; it was not tried. */
    void (*same)(void *arg, void *job, void *like);
    /* Chooses the holder's nodes; false where none would help. `job` NULL: nobody holds any. */
    bool (*hold)(void *arg, void *job, uint64_t reserved_until_ms);
    uint64_t (*now_ms)(void *arg);
    void *arg;
};

enum { GT_QUEUE_MAX = 1 << 17 };

int gt_queue_new(const struct gt_queue_spec *spec, struct gt_queue **ret, struct gt_err **err);
void gt_queue_free(struct gt_queue *queue);

/* Adds a job, or changes the one that is there. */
int gt_queue_put(struct gt_queue *queue, const struct gt_queue_entry *entry, struct gt_err **err);
/* False where it was not there. */
bool gt_queue_remove(struct gt_queue *queue, const void *job);
/* Its place in the order, from 0; UINT32_MAX where it is not there. */
uint32_t gt_queue_place(const struct gt_queue *queue, const void *job);

/* The job before it in the order; NULL: it is the first, or not there. */
void *gt_queue_before(const struct gt_queue *queue, const void *job);

/* Whether a job that does not wait here would come behind the holder if it did: it may not use its nodes. */
bool gt_queue_is_behind_holder(struct gt_queue *queue, const struct gt_queue_entry *entry);

/* Whether another job than this one waits that found no room when it was tried last. */
bool gt_queue_is_crowded(const struct gt_queue *queue, const void *job);

/* Something has changed: another round is worth it. */
void gt_queue_wake(struct gt_queue *queue);
/* Runs for at most about `budget_ms`. True: more is to be done, call again. */
bool gt_queue_run(struct gt_queue *queue, uint64_t budget_ms);
/* When it wants to run again; UINT64_MAX: when it is woken. A round that found no room rests for a while. */
uint64_t gt_queue_next_ms(const struct gt_queue *queue);

#endif
