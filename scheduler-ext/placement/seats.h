/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_SEATS_H
#define GPUTOPO_PLACEMENT_SEATS_H

#include "scheduler-ext/core/cluster.h"

/*
 * Places of a job's members, in the order of its ranks: where their pods are, and what is kept for pods that
 * are not there. A place is kept by assumptions of the job itself, besides those that the feed makes for
 * pods. No clock, no I/O.
 */
enum gt_seat_state {
    GT_SEAT_EMPTY,    /* nothing is known, nothing is kept */
    GT_SEAT_TAKEN,    /* a pod is there; the feed keeps what it has */
    GT_SEAT_RESERVED, /* no pod yet; its GPUs are assumed */
    GT_SEAT_WISHED,   /* its pod has gone from there; kept as soon as the GPUs are available */
};

struct gt_seat {
    enum gt_seat_state state;
    uint32_t node;
    uint64_t node_digest; /* of its name: ids are used again */
    uint64_t mask;
    uint64_t until;       /* RESERVED, WISHED: a time of the caller, UINT64_MAX: no end */
    uint64_t promised_ms; /* RESERVED: until then it is promised to a pod that is being made; admit.c */
};

struct gt_seats {
    struct gt_seat *seats;
    uint32_t count;
    uint64_t owner; /* of the assumptions; 0: none were ever made */
};

/* An owner number that no job of the feed has. */
#define GT_SEATS_OWNER(job_number) ((job_number) | (uint64_t)1 << 63)

/* Makes `count` places. Where they were others, nothing that was kept is kept any more. */
int gt_seats_resize(struct gt_seats *seats, struct gt_cluster *cluster, uint32_t count, struct gt_err **err);
/* Gives up what is over at `now`, wishes for what became available, and drops what cannot be kept. True where
 * GPUs became available by that. */
bool gt_seats_sync(struct gt_seats *seats, struct gt_cluster *cluster, uint64_t now);
/* Puts a reservation there; gt_seats_sync() makes the assumption. */
void gt_seats_reserve(struct gt_seats *seats, const struct gt_cluster *cluster, uint32_t at, uint32_t node,
                      uint64_t mask, uint64_t until);
/* Gives what is kept another end. */
void gt_seats_set_end(struct gt_seats *seats, uint64_t until);
/* Gives one place up at once; true where GPUs were kept there. */
bool gt_seats_release(struct gt_seats *seats, struct gt_cluster *cluster, uint32_t at);
/* The node of a place; GT_NONE where it is gone. */
uint32_t gt_seats_node(const struct gt_seats *seats, const struct gt_cluster *cluster, uint32_t at);
/* How many GPUs are kept. */
uint32_t gt_seats_gpus(const struct gt_seats *seats);
/* Whether any place is wished for. */
bool gt_seats_wish(const struct gt_seats *seats);
/* When the first place is over. */
uint64_t gt_seats_next_end(const struct gt_seats *seats);
void gt_seats_done(struct gt_seats *seats, struct gt_cluster *cluster);

/* A digest of a node's name; 0 where there is no such node. */
uint64_t gt_seats_node_digest(const struct gt_cluster *cluster, uint32_t node);

#endif
