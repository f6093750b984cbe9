/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_RESERVATIONS_H
#define GPUTOPO_DECIDE_RESERVATIONS_H

#include "scheduler-ext/cache/resources.h"

/*
 * Places of a job's members, in the order of its ranks: where their pods are, and what is reserved for pods
 * that are not there. A place is kept by assumptions of the job itself, besides those that the cache makes
 * for pods. No clock, no I/O.
 */
enum gt_reservation_state {
    GT_RESERVATION_NONE,   /* nothing is known, nothing is kept */
    GT_RESERVATION_POD,    /* a pod is there; the cache keeps what it has */
    GT_RESERVATION_HELD,   /* no pod yet; its GPUs are assumed */
    GT_RESERVATION_WANTED, /* its pod has gone from there; kept as soon as the GPUs are available */
};

struct gt_reservation {
    enum gt_reservation_state state : 8;
    bool moves;   /* it is for who comes after a pod that has to leave its place */
    bool returns; /* likewise, after one that has left: it is kept no longer than was said when that left */
    uint32_t node;
    uint64_t node_digest; /* of its name: ids are used again */
    uint64_t mask;
    uint64_t until;             /* RESERVED, WISHED: a time of the caller, UINT64_MAX: no end */
    uint64_t reserved_until_ms; /* HELD: until then it is offered to a pod that is being made; admit.c */
    struct gt_cache_hold *hold; /* HELD: what the pod will need besides GPUs; NULL: nothing */
};

struct gt_reservations {
    struct gt_reservation *reservations;
    uint32_t count;
    uint32_t gpus;                  /* that are kept */
    uint32_t moving;                /* of them, for pods that move: who leaves is charged */
    uint64_t owner;                 /* of the assumptions; 0: none were ever made */
    uint64_t *charged;              /* counts the others, too; NULL: nobody is charged */
    struct gt_cache *cache;         /* where more than GPUs is reserved; NULL: nowhere */
    const struct gt_cache_job *job; /* of that cache, at the time of a call that keeps anything */
};

/* An owner number that no job of the cache has. */
#define GT_RESERVATIONS_OWNER(job_number) ((job_number) | (uint64_t)1 << 63)

/* Makes `count` places. Where they were more or fewer, only what is kept for who comes after a pod that
 * leaves is still kept: those pods are evicted for it. */
int gt_reservations_resize(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t count,
                           struct gt_err **err);
/* Gives up what is over at `now`, holds what became available, and drops what cannot be kept. True where
 * GPUs became available by that. */
bool gt_reservations_sync(struct gt_reservations *reservations, struct gt_cluster *cluster, uint64_t now);
/* Puts a reservation there, instead of one that was; gt_reservations_sync() makes the assumption. */
void gt_reservations_reserve(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t at,
                             uint32_t node, uint64_t mask, uint64_t until);
/* What is kept there from now on is for who comes after the pod that is to leave. */
void gt_reservations_set_moving(struct gt_reservations *reservations, uint32_t at);
/* What is reserved for pods that were never made is kept until then at least. */
void gt_reservations_extend(struct gt_reservations *reservations, uint64_t until);
/* Gives one place up at once; true where GPUs were reserved there. */
bool gt_reservations_release(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t at);
/* The node of a place; GT_NONE where it is gone. */
uint32_t gt_reservations_node(const struct gt_reservations *reservations, const struct gt_cluster *cluster,
                              uint32_t at);
/* How many GPUs are reserved, and how many of them are charged. */
uint32_t gt_reservations_gpus(const struct gt_reservations *reservations);
uint32_t gt_reservations_charged(const struct gt_reservations *reservations);
/* Whether any place is wanted. */
bool gt_reservations_wanted(const struct gt_reservations *reservations);
/* When the first place is over. */
uint64_t gt_reservations_next_end(const struct gt_reservations *reservations);
/* Likewise of those for pods that were never made, where there are any. */
uint64_t gt_reservations_reserved_end(const struct gt_reservations *reservations);
void gt_reservations_done(struct gt_reservations *reservations, struct gt_cluster *cluster);

/* A digest of a node's name; 0 where there is no such node. */
uint64_t gt_reservations_node_digest(const struct gt_cluster *cluster, uint32_t node);

#endif
