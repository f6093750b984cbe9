/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/evidence.h"
#include "topology/model/node.h"

/*
 * Derives the health of GPUs and its reason from evidence (evidence.h) and the fault table. The caller passes
 * the time, in seconds of a clock that never goes back.
 *
 * A GPU is unhealthy if the rules say that one of its signals is a fault. Otherwise it is healthy if the
 * vendor library or a recording says so; else its health is unknown.
 *
 * Left-over work: memory of a GPU is in use, and no container holds the GPU. Idle is not zero, since driver
 * and firmware keep some. So the idle value of each GPU is learned: the least memory in use that was seen of
 * it, at most 512 MiB more than the least of a GPU of its product on this node, at most 4 GiB. What it is
 * above 1 GiB does not count.
 */

/* Derives it from one check alone, without a history: only rules GT_FAULT_AT_ONCE count. */
void gt_health_evaluate(const struct gt_fault_table *table, struct gt_node *node);

/* Counters since the start. */
struct gt_health_counts {
    uint64_t seen[GT_SIGNALS]; /* how often each signal has occurred, whatever its rule */
    uint64_t held_back;        /* how often a GPU became unhealthy so that it is held back */
};

/* Which GPUs containers hold. It is used for one check: a pod that starts holds its GPU earlier than a list
 * names it, and the next check must not count it again. */
struct gt_gpus_in_use {
    bool known; /* false: nothing is known of any GPU */
    unsigned count;
    struct gt_gpu_in_use {
        char bdf[GT_BDF_SIZE];
        char pod[96]; /* "namespace/pod", shortened; "": not known */
    } of[GT_GPUS_MAX];
};

/* How often something has become a fault. Begin with zeros. */
struct gt_flapping {
    uint64_t falls_s[GT_FAULT_FALLS_MAX]; /* when it became one, a ring buffer */
    unsigned falls, next_fall;
    unsigned level;  /* how often in a row it was held back */
    uint64_t hold_s; /* how long it must be free of faults now; 0: it is not held back */
    uint64_t well_s; /* since when it is free of faults while held back; 0: it is not */
    uint64_t recovered_s;
};

/* Whether it still counts as a fault. `was`: it did so before; `faulty`: it is one now; `at_once`: no hold.
 */
bool gt_flapping_settle(struct gt_flapping *flapping, const struct gt_flapping_rule *rule, bool was,
                        bool faulty, bool at_once, uint64_t now_s);

/*
 * The history of the GPUs of a node, one entry for each BDF. The entry is dropped after the GPU has been
 * missing for some checks, or at once when another UUID is seen at its BDF: a new card does not inherit the
 * health of the old one. Begin with zeros.
 */
struct gt_health {
    struct gt_health_counts counts;
    struct gt_gpus_in_use gpus_in_use; /* set by the caller */
    unsigned count;
    struct gt_health_entry {
        char bdf[GT_BDF_SIZE];
        char uuid[GT_ID_SIZE]; /* as last known, "" if never known */
        char last_pod[96];     /* that held it, "" none was seen */
        uint32_t idle_mib;     /* the least memory in use that was seen; UINT32_MAX: none yet */
        unsigned away;         /* number of checks in a row without this GPU */
        bool unhealthy;        /* the last result */
        enum gt_signal cause;  /* of `unhealthy`; GT_SIGNALS: held back */
        char reason[128];
        struct gt_health_track {
            bool faulty;
            bool over;            /* it has lasted longer than its limit: no fault any more */
            bool counted;         /* `value` is set, from an earlier check */
            uint32_t value;       /* of a counter */
            uint64_t began_s;     /* when it became a fault */
            uint64_t last_s;      /* when it was last present */
            unsigned clean;       /* checks since then that had a result for it */
            unsigned occurrences; /* the latest ones, at most GT_FAULT_TIMES_MAX */
            /* times of the occurrences, a ring buffer; `next` is the next place */
            uint64_t at_s[GT_FAULT_TIMES_MAX];
            unsigned next;
        } tracks[GT_SIGNALS];
        struct gt_flapping flapping;
    } gpus[2 * GT_GPUS_MAX];
};

/* What another process needs to know of an unhealthy GPU to continue its history. */
struct gt_health_history {
    char bdf[GT_BDF_SIZE], uuid[GT_ID_SIZE], reason[128];
    unsigned signals; /* bits 1 << signal: its faults; 0: it is only held back */
    unsigned level;
    uint64_t hold_s;
};
void gt_health_history(const struct gt_health_entry *entry, struct gt_health_history *ret);
/* Adds a GPU that is unhealthy until checks have shown, by the fault table, that it is healthy. A GPU that
 * has an entry already is left unchanged. */
void gt_health_restore(struct gt_health *health, const struct gt_health_history *history, uint64_t now_s);

/* The start of the reason of a GPU that is unhealthy only because it is held back. */
#define GT_HELD_BACK "became unhealthy again and again"

enum {
    GT_HEALTH_AT_ONCE = 1, /* an operator asked for the check: its result counts at once */
    /* the check is complete (a recording): signals that it does not name are not present */
    GT_HEALTH_ALL = 2,
};

/*
 * Sets the health of the node's GPUs after this check. Nobody else may use the node yet.
 *
 * A signal that made a GPU unhealthy ends only by checks that had a result for that signal: a GPU that does
 * not answer has not recovered.
 */
void gt_health_observe(struct gt_health *health, const struct gt_fault_table *table, struct gt_node *node,
                       unsigned flags, uint64_t now_s);
