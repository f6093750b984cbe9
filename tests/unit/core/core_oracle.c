/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/core_oracle.h"

#include <string.h>

/* Groups in the order given; a supernode with as many places as one tried before is skipped. */
static bool fits_from(unsigned *places, unsigned supers, const unsigned *sizes, unsigned count)
{
    if (count == 0)
        return true;
    for (unsigned s = 0; s < supers; s++) {
        bool tried = false;

        for (unsigned before = 0; before < s; before++)
            tried |= places[before] == places[s];
        if (tried || places[s] < sizes[0])
            continue;
        places[s] -= sizes[0];
        bool fits = fits_from(places, supers, sizes + 1, count - 1);
        places[s] += sizes[0];
        if (fits)
            return true;
    }
    return false;
}

bool oracle_fits(const unsigned *places, unsigned supers, const unsigned *sizes, unsigned count)
{
    unsigned left[ORACLE_SUPERS], sorted[ORACLE_UNITS];

    memcpy(left, places, supers * sizeof(*left));
    for (unsigned i = 0; i < count; i++) { /* the larger first: the search fails early */
        unsigned at = i;

        for (; at && sorted[at - 1] < sizes[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = sizes[i];
    }
    return fits_from(left, supers, sorted, count);
}

bool oracle_criterion(const unsigned *places, unsigned supers, const unsigned *sizes, unsigned count)
{
    for (unsigned j = 0; j < count; j++) {
        unsigned long held = 0, needed = 0;

        for (unsigned s = 0; s < supers; s++)
            held += places[s] / sizes[j];
        for (unsigned i = 0; i < count; i++)
            needed += sizes[i] >= sizes[j] ? sizes[i] / sizes[j] : 0;
        if (needed > held)
            return false;
    }
    return true;
}

bool oracle_best_fit(unsigned *places, unsigned supers, unsigned size)
{
    int best = -1;

    for (unsigned s = 0; s < supers; s++)
        if (places[s] >= size && (best < 0 || places[s] < places[best]))
            best = (int)s;
    if (best >= 0)
        places[best] -= size;
    return best >= 0;
}

static int most_whole_from(unsigned *places, unsigned supers, const struct oracle_unit *units, unsigned count,
                           unsigned loose)
{
    int most = -1;

    if (count == 0) {
        unsigned room = 0;

        for (unsigned s = 0; s < supers; s++)
            room += places[s];
        return room >= loose ? 0 : -1;
    }
    for (unsigned s = 0; s < supers; s++) {
        bool tried = false;

        if (units->at == -2 || (units->at >= 0 && units->at != (int)s) || places[s] < units->rest)
            continue;
        for (unsigned before = 0; before < s && units->at < 0; before++)
            tried |= places[before] == places[s] && count == 1;
        if (tried)
            continue;
        places[s] -= units->rest;
        int whole = most_whole_from(places, supers, units + 1, count - 1, loose);
        places[s] += units->rest;
        if (whole >= 0 && whole + 1 > most)
            most = whole + 1;
    }
    int split = most_whole_from(places, supers, units + 1, count - 1, loose + units->rest);
    return split > most ? split : most;
}

int oracle_most_whole(const unsigned *places, unsigned supers, const struct oracle_unit *units,
                      unsigned count)
{
    unsigned left[ORACLE_SUPERS];

    memcpy(left, places, supers * sizeof(*left));
    return most_whole_from(left, supers, units, count, 0);
}

static bool is_in(const struct oracle_tree *tree, unsigned super, unsigned domain)
{
    for (int at = (int)super; at >= 0; at = tree->parent[at])
        if (at == (int)domain)
            return true;
    return false;
}

int oracle_shared(const struct oracle_tree *tree, unsigned set)
{
    int best = -1;

    for (unsigned d = 0; d < tree->domains; d++) {
        bool all = true;

        for (unsigned s = 0; s < tree->supers; s++)
            all &= !(set >> s & 1) || is_in(tree, s, d);
        if (all && (best < 0 || tree->tier[d] < tree->tier[best]))
            best = (int)d;
    }
    return best;
}

bool oracle_spread(const struct oracle_tree *tree, const unsigned *places, unsigned rest, unsigned used,
                   unsigned *ret_tier, unsigned *ret_supers, unsigned *ret_fewest)
{
    bool found = false;

    for (unsigned set = 1; set < 1u << tree->supers; set++) {
        unsigned room = 0, size = 0, tier;
        int shared = oracle_shared(tree, set);

        for (unsigned s = 0; s < tree->supers; s++)
            if (set >> s & 1) {
                room += places[s];
                size++;
            }
        if ((set & used) != used || room < rest)
            continue;
        tier = shared < 0 ? 99 : tree->tier[shared];
        if (!found || tier < *ret_tier || (tier == *ret_tier && size < *ret_supers)) {
            *ret_tier = tier;
            *ret_supers = size;
        }
        if (!found || size < *ret_fewest)
            *ret_fewest = size;
        found = true;
    }
    return found;
}
