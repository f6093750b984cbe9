/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/resources.h"

/*
 * The places of a job's members, by rank: where their pods are, and the reservations for pods that do not
 * exist. A reservation is a promise to the job, besides those that the cache makes for pods. No
 * clock, no I/O.
 */
enum gt_reservation_state {
    GT_RESERVATION_NONE,   /* nothing is known or reserved */
    GT_RESERVATION_POD,    /* a pod exists; its GPUs are promised by the cache */
    GT_RESERVATION_HELD,   /* no pod yet; its GPUs are assumed */
    GT_RESERVATION_WANTED, /* its pod has left; to be reserved when its GPUs are available */
};

struct gt_reservation {
    enum gt_reservation_state state : 8;
    bool moves;                /* it is for the successor of a pod that has to leave its place */
    bool returns;              /* likewise, of a pod that has left: its end does not change */
    bool offered;              /* to a pod that is being created, at offered_ms */
    struct gt_promise promise; /* as in the ledger while it is HELD */
    uint64_t node_digest;      /* of the node's name, since ids are reused */
    uint64_t until;            /* HELD, WANTED: its end, a time of the caller; UINT64_MAX: none */
    uint64_t
        offered_ms; /* when a place of this rank was last offered (admit.c), also an earlier one; 0: never */
    struct gt_promise_id entry;         /* HELD: of the ledger */
    struct gt_cache_reserve *resources; /* HELD: other resources for the pod; NULL: none */
};

struct gt_reservations {
    struct gt_reservation *reservations;
    uint32_t count;
    uint64_t offered_ms;            /* the last offer before `count` changed; 0: none */
    uint32_t gpus;                  /* reserved GPUs */
    uint32_t moving;                /* of them, for successors: the pods that leave are charged */
    uint64_t owner;                 /* the number of its job */
    uint64_t *charged;              /* sum that the other GPUs are added to; NULL: none */
    struct gt_cache *cache;         /* where other resources are reserved; NULL: GPUs only */
    const struct gt_cache_job *job; /* in that cache; valid during calls that reserve */
};

/* So long an offered place is not offered again, and stays, since its pod is being created. */
enum { GT_RESERVATION_OFFER_MS = 10000 };

static inline bool gt_reservation_is_offered(const struct gt_reservation *reservation, uint64_t now)
{
    return reservation->offered && now < reservation->offered_ms + GT_RESERVATION_OFFER_MS;
}

/* Sets the number of places. Where it changes, only reservations for successors of leaving pods stay, since
 * these pods are evicted for them. -ENOMEM. */
int gt_reservations_resize(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t count,
                           struct gt_err **err);
/* Gives up reservations whose end has passed, makes those that became possible, and drops those that became
 * impossible. True where GPUs became available. */
bool gt_reservations_sync(struct gt_reservations *reservations, struct gt_cluster *cluster, uint64_t now);
/* Sets or replaces the reservation of a place, which has a node, a mask and requests; gt_reservations_sync()
 * makes the promise. */
void gt_reservations_reserve(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t at,
                             const struct gt_promise *promise, uint64_t until);
/* From now on the place's reservation is for the successor of the pod that has to leave. */
void gt_reservations_set_moving(struct gt_reservations *reservations, uint32_t at);
/* Extends reservations for pods that never existed to `until` at least. */
void gt_reservations_extend(struct gt_reservations *reservations, uint64_t until);
/* When a place of this rank was last offered; 0: never. */
uint64_t gt_reservations_offered_ms(const struct gt_reservations *reservations, uint32_t at);
/* Gives up one place now; true where GPUs were reserved there. */
bool gt_reservations_release(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t at);
/* The node of a place; GT_NONE where the node no longer exists. */
uint32_t gt_reservations_node(const struct gt_reservations *reservations, const struct gt_cluster *cluster,
                              uint32_t at);
/* How many GPUs are reserved, and how many of them are charged. */
uint32_t gt_reservations_gpus(const struct gt_reservations *reservations);
uint32_t gt_reservations_charged(const struct gt_reservations *reservations);
/* Whether any place is wanted. */
bool gt_reservations_wanted(const struct gt_reservations *reservations);
/* The earliest end of a reservation; UINT64_MAX: none. */
uint64_t gt_reservations_next_end(const struct gt_reservations *reservations);
/* The same for reservations for pods that never existed; where there are none, gt_reservations_next_end(). */
uint64_t gt_reservations_reserved_end(const struct gt_reservations *reservations);
void gt_reservations_done(struct gt_reservations *reservations, struct gt_cluster *cluster);

/* A digest of a node's name; 0 where there is no such node. */
uint64_t gt_reservations_node_digest(const struct gt_cluster *cluster, uint32_t node);
