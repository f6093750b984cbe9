/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_CORE_ORACLE_H
#define TESTS_UNIT_CORE_ORACLE_H

#include <stdbool.h>

/*
 * Placement of groups by trying all possibilities, on plain numbers: places[s] is how many pods fit in
 * supernode s. It uses no code of the product. It is simple and slow, for a few supernodes and groups.
 */
enum { ORACLE_SUPERS = 8, ORACLE_UNITS = 64 };

/* Whether groups of these sizes, each in one supernode, all fit: by search. */
bool oracle_fits(const unsigned *places, unsigned supers, const unsigned *sizes, unsigned count);

/* The same by the criterion for sizes that divide one another: for each size q, the groups of q and more,
 * counted in q, are no more than the sum of floor(places / q). */
bool oracle_criterion(const unsigned *places, unsigned supers, const unsigned *sizes, unsigned count);

/* Places one group by best fit, in the smallest supernode that suffices; false: nowhere. */
bool oracle_best_fit(unsigned *places, unsigned supers, unsigned size);

/* A unit with `rest` atoms to place. Some of its atoms may be in one supernode already (`at`, else -1), or
 * spread over several (at = -2). */
struct oracle_unit {
    unsigned rest;
    int at;
};

/* The most units that can each be in one supernode while the atoms of all others also fit; -1: not all atoms
 * fit. `places` counts atoms. */
int oracle_most_whole(const unsigned *places, unsigned supers, const struct oracle_unit *units,
                      unsigned count);

/* A forest: tier[d] and parent[d] of domains 0..; the first `supers` of them are of tier 1. */
struct oracle_tree {
    unsigned supers, domains;
    unsigned tier[ORACLE_SUPERS * 3];
    int parent[ORACLE_SUPERS * 3]; /* -1: none */
};

/* The lowest domain that has all supernodes of the set; -1: none. */
int oracle_shared(const struct oracle_tree *tree, unsigned set);

/* The best spread of `rest` atoms of one unit that is in the supernodes of the mask `used` already: the
 * lowest tier of the shared domain (99: none), then the fewest supernodes. False: there is no room.
 * *ret_fewest: the fewest supernodes with any tier. */
bool oracle_spread(const struct oracle_tree *tree, const unsigned *places, unsigned rest, unsigned used,
                   unsigned *ret_tier, unsigned *ret_supers, unsigned *ret_fewest);

#endif
