/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "topology/model/loss_internal.h"

/*
 * Branch and bound over the parts that are left, in a fixed order: how many of the next one?
 *
 * The bound. With r GPUs still to take from the parts behind, the sum over pairs among them is half the sum
 * of what each of them has towards the others, and that is at most its r-1 best weights. So each part has a
 * highest worth per GPU, and the r highest worths, as many a part as it has GPUs, bound what can be added.
 * Worths are counted twofold to stay whole. Where the bound only equals the best score, the least sum of deg
 * and then the lowest mask that can still be reached decide, so that ties are cut as well.
 */

enum { NODES_PER_CLOCK = 64 };

struct search {
    const struct gt_loss_part *part[GT_GPUS_MAX]; /* in the order of branching */
    unsigned count, k;
    uint16_t w[GT_GPUS_MAX][GT_GPUS_MAX];
    /* of the parts from t on: */
    unsigned lo[GT_GPUS_MAX + 1], hi[GT_GPUS_MAX + 1];    /* least and most GPUs */
    uint64_t all[GT_GPUS_MAX + 1];                        /* their GPUs */
    uint32_t least_deg[GT_GPUS_MAX + 1][GT_GPUS_MAX + 1]; /* [t][r]: least sum of deg of r of them */
    uint32_t towards[GT_GPUS_MAX + 1][GT_GPUS_MAX];       /* [t][c]: weight of one of c to what is taken */
    struct gt_loss_option *best;
    uint64_t deadline_ns;
    unsigned nodes;
    bool late;
    uint32_t
        reach[]; /* [t][c][s]: the most weight one GPU of c can have towards s GPUs of others from t on */
};

static uint32_t *reach_of(struct search *search, unsigned t, unsigned c)
{
    return search->reach + ((size_t)t * search->count + c) * search->k;
}

/* Parts that must give GPUs come first, then parts with high weights: leaving one of these out lowers the
 * bound most. */
static void order_parts(struct search *search, const struct gt_parts *parts)
{
    uint64_t rank[GT_GPUS_MAX];
    unsigned order[GT_GPUS_MAX] = {0};

    for (unsigned i = 0; i < parts->count; i++) {
        const struct gt_loss_part *part = parts->part[i];
        unsigned at = i;

        rank[i] = part->lo ? UINT64_C(1) << 40 : 0;
        rank[i] += 2 * part->option[part->hi].score / part->hi;
        for (unsigned j = 0; j < parts->count; j++)
            rank[i] += (uint64_t)parts->w[i][j] * parts->part[j]->hi;
        for (; at && (rank[order[at - 1]] < rank[i] ||
                      (rank[order[at - 1]] == rank[i] && parts->part[order[at - 1]]->all < part->all));
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (unsigned i = 0; i < search->count; i++) {
        search->part[i] = parts->part[order[i]];
        for (unsigned j = 0; j < search->count; j++)
            search->w[i][j] = parts->w[order[i]][order[j]];
    }
}

static void fill_least_deg(struct search *search, unsigned t, const uint32_t deg[static GT_GPUS_MAX])
{
    uint32_t sorted[GT_GPUS_MAX];
    unsigned count = 0;

    for (uint64_t rest = search->all[t]; rest; rest &= rest - 1) {
        uint32_t value = deg[gt_bit_first(rest)];
        unsigned at = count++;

        for (; at && sorted[at - 1] > value; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = value;
    }
    for (unsigned r = 0; r < count; r++)
        search->least_deg[t][r + 1] = search->least_deg[t][r] + sorted[r];
}

static void fill_reach(struct search *search, unsigned c)
{
    unsigned heavy[GT_GPUS_MAX] = {0};

    for (unsigned d = 0; d < search->count; d++) {
        unsigned at = d;

        for (; at && search->w[c][heavy[at - 1]] < search->w[c][d]; at--)
            heavy[at] = heavy[at - 1];
        heavy[at] = d;
    }
    for (unsigned t = 0; t <= c; t++) {
        uint32_t *reach = reach_of(search, t, c), sum = 0;
        unsigned taken = 0;

        for (unsigned i = 0; i < search->count; i++) {
            unsigned d = heavy[i];

            if (d < t || d == c)
                continue;
            for (unsigned a = 0; a < search->part[d]->hi && taken < search->k; a++) {
                reach[taken++] = sum;
                sum += search->w[c][d];
            }
        }
        while (taken < search->k)
            reach[taken++] = sum;
    }
}

static void loss_bound_prepare(struct search *search, const struct gt_loss_query *query,
                               const struct gt_parts *parts)
{
    order_parts(search, parts);
    for (unsigned t = search->count; t-- > 0;) {
        search->lo[t] = search->lo[t + 1] + search->part[t]->lo;
        search->hi[t] = search->hi[t + 1] + search->part[t]->hi;
        search->all[t] = search->all[t + 1] | search->part[t]->all;
        fill_least_deg(search, t, query->deg);
    }
    for (unsigned c = 0; c < search->count; c++)
        fill_reach(search, c);
}

/* The highest twofold worth of one GPU of part c where r are still to take from t on, rounded up. */
static uint32_t worth(struct search *search, unsigned t, unsigned c, unsigned r)
{
    const struct gt_loss_part *part = search->part[c];
    const uint32_t *reach = reach_of(search, t, c);
    uint32_t most = 0;

    if (part->hi == 1)
        return 2 * search->towards[t][c] + reach[r - 1];
    for (unsigned a = part->lo ? part->lo : 1; a <= part->hi && a <= r; a++) {
        uint32_t value = (2 * part->option[a].score + a - 1) / a + 2 * search->towards[t][c] + reach[r - a];

        if (value > most)
            most = value;
    }
    return most;
}

struct lot {
    uint32_t worth;
    unsigned count;
};

/* The sum of the r highest worths. */
static uint64_t highest(struct lot *lots, unsigned count, unsigned r)
{
    uint64_t sum = 0;

    while (r && count) {
        uint32_t pivot = lots[count / 2].worth;
        unsigned above = 0, equal = 0, equal_count = 0, above_count = 0;
        uint64_t above_sum = 0;

        /* above | equal | not looked at yet; what is below is left behind the last of these */
        for (unsigned i = 0; i < count; i++) {
            struct lot lot = lots[i];

            if (lot.worth < pivot)
                continue;
            lots[i] = lots[above + equal];
            if (lot.worth == pivot) {
                lots[above + equal++] = lot;
                equal_count += lot.count;
            } else {
                lots[above + equal] = lots[above];
                lots[above++] = lot;
                above_count += lot.count;
                above_sum += (uint64_t)lot.worth * lot.count;
            }
        }
        if (above_count >= r) {
            count = above;
            continue;
        }
        sum += above_sum;
        r -= above_count;
        if (equal_count >= r)
            return sum + (uint64_t)pivot * r;
        sum += (uint64_t)pivot * equal_count;
        r -= equal_count;
        lots += above + equal;
        count -= above + equal;
    }
    return sum;
}

/* Whether there may be a better set than the best below this node of the search. */
static bool promising(struct search *search, unsigned t, unsigned r, const struct gt_loss_option *taken)
{
    struct lot lots[GT_GPUS_MAX] = {{0, 0}};
    uint64_t bound;
    uint32_t deg;

    for (unsigned c = t; c < search->count; c++)
        lots[c - t] = (struct lot){worth(search, t, c, r), search->part[c]->hi};
    bound = taken->score + highest(lots, search->count - t, r) / 2;
    if (bound != search->best->score)
        return bound > search->best->score;
    deg = taken->deg + search->least_deg[t][r];
    if (deg != search->best->deg)
        return deg < search->best->deg;
    return (taken->mask | gt_lowest(search->all[t], r)) < search->best->mask;
}

static void loss_bound_visit(struct search *search, unsigned t, unsigned r,
                             const struct gt_loss_option *taken)
{
    const struct gt_loss_part *part;
    unsigned lo, hi;

    if (!r) {
        if (gt_option_before(taken, search->best))
            *search->best = *taken;
        return;
    }
    if (++search->nodes % NODES_PER_CLOCK == 0 && gt_clock_ns() > search->deadline_ns)
        search->late = true;
    if (search->late || !promising(search, t, r, taken))
        return;
    part = search->part[t];
    lo = part->lo;
    if (r > search->hi[t + 1] && lo < r - search->hi[t + 1])
        lo = r - search->hi[t + 1];
    hi = part->hi < r - search->lo[t + 1] ? part->hi : r - search->lo[t + 1];
    for (unsigned a = hi + 1; a-- > lo && !search->late;) {
        struct gt_loss_option next = {
            .score = taken->score + part->option[a].score + search->towards[t][t] * a,
            .deg = taken->deg + part->option[a].deg,
            .mask = taken->mask | part->option[a].mask,
        };

        for (unsigned c = t + 1; c < search->count; c++)
            search->towards[t + 1][c] = search->towards[t][c] + search->w[t][c] * a;
        loss_bound_visit(search, t + 1, r - a, &next);
    }
}

bool gt_parts_search(const struct gt_loss_query *query, const struct gt_parts *parts,
                     struct gt_loss_option *option)
{
    size_t reach = (size_t)parts->count * parts->count * query->k;
    gt_auto_free struct search *s = malloc(sizeof(*s) + reach * sizeof(s->reach[0]));

    if (!s)
        return false;
    memset(s, 0, sizeof(*s));
    s->count = parts->count;
    s->k = query->k;
    s->best = option;
    s->deadline_ns = query->deadline_ns;
    loss_bound_prepare(s, query, parts);
    loss_bound_visit(s, 0, s->k, &(struct gt_loss_option){0, 0, 0});
    return !s->late;
}

/* The search above 16 GPUs: modules first (loss_parts.c), which mostly gives the answer; else a good set by
 * growing and swapping, then the proof by branch and bound. */

/* A set under way, with what each GPU of the class would add to it. */
struct set {
    const struct gt_loss_query *query;
    struct gt_loss_option option;
    uint32_t gain[GT_GPUS_MAX];
};

static void loss_search_change(struct set *set, unsigned x, bool in)
{
    const struct gt_class *class = set->query->class;
    const uint16_t *row = class->w + (size_t)x * class->n;

    set->option.mask ^= UINT64_C(1) << x;
    if (in) {
        set->option.score += set->gain[x];
        set->option.deg += set->query->deg[x];
        for (unsigned y = 0; y < class->n; y++)
            set->gain[y] += row[y];
    } else {
        set->option.score -= set->gain[x];
        set->option.deg -= set->query->deg[x];
        for (unsigned y = 0; y < class->n; y++)
            set->gain[y] -= row[y];
    }
}

static void loss_search_start(struct set *set, const struct gt_loss_query *query, uint64_t mask)
{
    memset(set, 0, sizeof(*set));
    set->query = query;
    for (; mask; mask &= mask - 1)
        loss_search_change(set, gt_bit_first(mask), true);
}

/* The GPU of `from` whose change is best: the most gained going in, the least lost going out; among equals
 * the one that makes the set the lesser cut, then the lower mask. */
static unsigned pick(const struct set *set, uint64_t from, bool in)
{
    const uint32_t *deg = set->query->deg;
    unsigned best = gt_bit_first(from);

    for (from &= from - 1; from; from &= from - 1) {
        unsigned x = gt_bit_first(from);
        uint32_t a = set->gain[x], b = set->gain[best];

        if (in ? a > b || (a == b && deg[x] < deg[best]) : a < b || (a == b && deg[x] >= deg[best]))
            best = x;
    }
    return best;
}

static void loss_search_fill(struct set *set)
{
    const struct gt_loss_query *q = set->query;

    while (gt_bit_count(set->option.mask) < q->k)
        loss_search_change(set, pick(set, q->candidates & ~set->option.mask, true), true);
    while (gt_bit_count(set->option.mask) > q->k)
        loss_search_change(set, pick(set, set->option.mask & ~q->must, false), false);
}

/* Swaps the best pair as long as that makes the set better; the order is strict, so this ends. */
static void loss_search_improve(struct set *set)
{
    const struct gt_loss_query *q = set->query;

    for (;;) {
        struct gt_loss_option best = set->option;
        unsigned best_out = 0, best_in = 0;

        for (uint64_t out = set->option.mask & ~q->must; out; out &= out - 1)
            for (uint64_t in = q->candidates & ~set->option.mask; in; in &= in - 1) {
                unsigned x = gt_bit_first(out), y = gt_bit_first(in);
                struct gt_loss_option option = {
                    .score = set->option.score - set->gain[x] + set->gain[y] - gt_weight(q->class, x, y),
                    .deg = set->option.deg - q->deg[x] + q->deg[y],
                    .mask = set->option.mask ^ (UINT64_C(1) << x | UINT64_C(1) << y),
                };

                if (gt_option_before(&option, &best)) {
                    best = option;
                    best_out = x;
                    best_in = y;
                }
            }
        if (best.mask == set->option.mask)
            return;
        loss_search_change(set, best_out, false);
        loss_search_change(set, best_in, true);
    }
}

/* A good set: from all candidates downwards, then upwards from each of them, the best of all after swaps. */
static void good_set(const struct gt_loss_query *query, struct gt_loss_option *ret)
{
    struct set set;

    loss_search_start(&set, query, query->candidates);
    loss_search_fill(&set);
    loss_search_improve(&set);
    *ret = set.option;
    for (uint64_t seeds = query->candidates & ~query->must; seeds; seeds &= seeds - 1) {
        if (gt_clock_ns() > query->deadline_ns)
            return;
        loss_search_start(&set, query, query->must | (seeds & -seeds));
        loss_search_fill(&set);
        loss_search_improve(&set);
        if (gt_option_before(&set.option, ret))
            *ret = set.option;
    }
}

void gt_search(const struct gt_loss_query *query, struct gt_loss_option *ret, bool *ret_exact)
{
    gt_auto_free struct gt_parts *parts = NULL;
    struct set only;

    *ret_exact = true;
    if (gt_bit_count(query->must) == query->k || gt_bit_count(query->candidates) == query->k) {
        loss_search_start(&only, query,
                          gt_bit_count(query->must) == query->k ? query->must : query->candidates);
        *ret = only.option;
        return;
    }
    parts = malloc(sizeof(*parts));
    if (parts) {
        gt_parts_make(query, parts);
        if (parts->count == 1) {
            *ret = parts->part[0]->option[query->k];
            return;
        }
    }
    good_set(query, ret);
    *ret_exact = parts && gt_clock_ns() <= query->deadline_ns && gt_parts_search(query, parts, ret);
}
