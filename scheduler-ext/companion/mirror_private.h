/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_MIRROR_PRIVATE_H
#define GPUTOPO_COMPANION_MIRROR_PRIVATE_H

#include "kube/backoff.h"
#include "kube/informer.h"
#include "scheduler-ext/companion/mirror.h"

/* An object as it was seen. */
struct gt_mirror_seen {
    enum gt_mirror_state state;
    char *uid, *version, *have; /* NULL where it is absent */
};

struct gt_mirror_entry {
    struct gt_mirror *mirror;
    char *name;
    struct gt_mirror_seen there, later; /* later: told by the watch while it lags behind our own write */
    bool has_later;
    char
        *awaited; /* the resourceVersion of our own write, "" for a deletion; NULL: the watch has caught up */
    uint64_t awaited_until;
    char *wish; /* NULL: it shall not be */
    uint32_t round;
    bool is_queued;
    struct gt_mirror_entry *next; /* of the queue */
    struct gt_kube_call *call;    /* the write that is on its way */
    enum gt_kube_verb verb;
    uint64_t applied; /* digest of the wish that it carries; 0: none */
    struct gt_backoff backoff;
    uint64_t not_before;
};

struct gt_mirror {
    struct gt_mirror_spec spec;
    struct gt_kube_informer *informer;
    struct gt_source *timer;
    struct gt_jitter jitter;
    void *tree; /* of search.h, by name */
    uint32_t count;
    struct gt_mirror_entry *first, **last; /* the queue of those that are not known to be as wished */
    unsigned running;
    double tokens;
    uint64_t tokens_at;
    uint32_t round;
    bool leads, synced, has_round;
    struct gt_mirror_stats stats;
};

enum { GT_MIRROR_BURST = 100, GT_MIRROR_SOON_MS = 20 };

/* mirror.c */
void gt_mirror_seen_done(struct gt_mirror_seen *seen);
/* Forgets an entry that stands for nothing any more. */
void gt_mirror_drop_if_over(struct gt_mirror_entry *entry);
/* What our own write has led to; NULL: the object is gone. */
void gt_mirror_wrote(struct gt_mirror_entry *entry, const cJSON *object);

/* mirror_queue.c: when what is written. gt_mirror_run() is the timer. */
gt_timer_callback gt_mirror_run;
void gt_mirror_queue(struct gt_mirror_entry *entry);
void gt_mirror_kick(struct gt_mirror *mirror, uint64_t ms);
/* Counts and logs it, and makes the entry wait. */
void gt_mirror_failed(struct gt_mirror_entry *entry, const char *why);

/*
 * mirror_write.c: the next write that brings an entry nearer to its wish.
 * 1: it has begun; 0: nothing is to be done; negative: it could not begin.
 */
int gt_mirror_step(struct gt_mirror_entry *entry, struct gt_err **err);

#endif
