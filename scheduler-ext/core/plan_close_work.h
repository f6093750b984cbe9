/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan_close.h"

/* What the search for close supernodes shares with its tables. */

enum {
    CLOSE_KINDS = 16,
    CLOSE_STATES = 1024, /* for several kinds together */
};

/* Domains touched, then available GPUs in them, each the highest tier first. */
struct close_cost {
    uint64_t domains, room;
};

/* A state is a number of supernodes of each kind, as one number: sum of number x stride. */
struct close_kind {
    uint32_t slots, whole, want, stride, there; /* there: in the cluster */
};

struct close_domain {
    uint32_t super, parent; /* parent: index, UINT32_MAX: the whole cluster */
    uint32_t top;           /* the highest state that it holds */
    uint32_t need;          /* the state that is taken */
    struct close_cost cost;
    struct close_cost *table; /* [state] the least cost below it; NULL: it has no domain below it */
    uint16_t *taken;          /* [state of the parent] the state that is taken here */
    bool inner;
    uint32_t own[CLOSE_KINDS];  /* supernodes directly in it */
    uint32_t have[CLOSE_KINDS]; /* with all below, at most as many as wanted */
};

struct close_search {
    struct job *job;
    const struct room *room;
    struct close_kind kinds[CLOSE_KINDS];
    unsigned kind_count, tiers;
    uint32_t states;
    struct close_domain *domains;
    uint32_t count;
    const uint32_t *total; /* [supernode] available GPUs */
    uint32_t *index;       /* [supernode] of its domain, where it has the mark */
    uint32_t *order;       /* domains, the lowest tier first */
    uint32_t *list, *home; /* supernodes of the kinds, ascending ids, and close_home() of each */
    uint32_t listed;
    uint32_t stamp;
    unsigned bits, scale;   /* bits of a cost for each tier */
    const uint64_t *packed; /* [state] of several kinds */
    uint64_t borrow;
    const struct gt_plan_unit *unit; /* that is split; NULL: whole ones */
};

static inline bool gt_close_is_less(struct close_cost a, struct close_cost b)
{
    return a.domains != b.domains ? a.domains < b.domains : a.room < b.room;
}

static inline struct close_cost gt_close_sum(struct close_cost a, struct close_cost b)
{
    return (struct close_cost){a.domains + b.domains, a.room + b.room};
}

/* What it costs to touch a domain: once for each tier up to its parent's. */
struct close_cost gt_close_cost(const struct close_search *search, uint32_t super);

/* The index of a supernode in `domains`, which it is added to if it is not there; UINT32_MAX for GT_NONE. */
uint32_t gt_close_domain(struct close_search *search, uint32_t super);

/* Keeps as many of the kinds as one search can take, and numbers their states. */
void gt_close_count_states(struct close_search *search);

/* How many supernodes of this kind the state has. */
uint32_t gt_close_digit(const struct close_kind *kind, uint32_t state);

/* Chooses what is taken in each domain (`need`), so that all together is what is wanted and costs least.
 * False: it would take too long, or memory is short. */
bool gt_close_search(struct close_search *search);
