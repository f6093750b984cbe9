/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_HEALTH_H
#define GPUTOPO_MODEL_HEALTH_H

#include "topology/model/fault_table.h"
#include "topology/model/node.h"

/*
 * The verdict on GPUs: evidence (evidence.h) and the fault table in, health and its reason out. Pure: the
 * time comes from outside, in seconds of a clock that never goes back.
 *
 * A GPU is unhealthy by what its rules call a fault. Else it is healthy where the vendor library says so, or
 * a recording does, and its health is unknown where nobody said anything.
 */

/* By one check alone, without a history: only what is a fault at once counts. */
void gt_health_evaluate(const struct gt_fault_table *table, struct gt_node *node);

/* Since the start. */
struct gt_health_counts {
    uint64_t seen[GT_SIGNALS]; /* how often each signal has occurred, whatever its rule */
    uint64_t held_back;        /* how often a GPU became unhealthy so that it is held back */
};

/*
 * The past of the GPUs of a node, one entry each, by BDF. One that left the node is forgotten after it has
 * been away for some checks; one in whose place another UUID is seen, at once: a new card does not inherit
 * the health of the old one. Begin with zeros.
 */
struct gt_health {
    struct gt_health_counts counts;
    unsigned count;
    struct gt_health_entry {
        char bdf[GT_BDF_SIZE];
        char uuid[GT_ID_SIZE]; /* as last known, "" never */
        unsigned away;         /* checks in a row without this GPU */
        bool unhealthy;        /* as last said */
        enum gt_signal cause;  /* of that; GT_SIGNALS: held back */
        char reason[128];
        struct gt_health_track {
            bool faulty, counted;              /* counted: `value` is that of an earlier check */
            uint32_t value;                    /* of a counter */
            uint64_t last_s;                   /* when it was last there */
            unsigned clean;                    /* checks since then that knew of it */
            unsigned occurrences;              /* at most GT_FAULT_TIMES_MAX, the latest */
            uint64_t at_s[GT_FAULT_TIMES_MAX]; /* when, a ring that `next` goes round in */
            unsigned next;
        } tracks[GT_SIGNALS];
        uint64_t falls_s[GT_FAULT_FALLS_MAX]; /* when it became unhealthy, a ring */
        unsigned falls, next_fall;
        unsigned level;  /* how often in a row it was held back */
        uint64_t hold_s; /* how long it has to be well now */
        uint64_t well_s; /* since when it is, while it is held back; 0 not */
        uint64_t recovered_s;
    } gpus[2 * GT_GPUS_MAX];
};

/* What is to be known of an unhealthy GPU for another process to go on with it. */
struct gt_health_history {
    char bdf[GT_BDF_SIZE], uuid[GT_ID_SIZE], reason[128];
    unsigned signals; /* bits 1 << signal: what was a fault; 0: it is only held back */
    unsigned level;
    uint64_t hold_s;
};
void gt_health_history(const struct gt_health_entry *entry, struct gt_health_history *ret);
/* It is unhealthy until checks have shown, by the fault table, that it is well. One that is known already is
 * left as it is. */
void gt_health_restore(struct gt_health *health, const struct gt_health_history *past, uint64_t now_s);

/* How the reason of a GPU begins that would be well, were it not held back. */
#define GT_HELD_BACK "became unhealthy again and again"

enum {
    GT_HEALTH_AT_ONCE = 1, /* a person asked for the check: its result counts without waiting */
    GT_HEALTH_ALL = 2,     /* the check knows everything (a recording): what it does not name is not there */
};

/*
 * Changes the health of a node that nobody else has yet to its health after this check.
 *
 * A signal that made a GPU unhealthy ends only with checks that knew about that signal: silence is no
 * recovery, and who is unhealthy may well be who does not answer.
 */
void gt_health_observe(struct gt_health *health, const struct gt_fault_table *table, struct gt_node *node,
                       unsigned flags, uint64_t now_s);

#endif
