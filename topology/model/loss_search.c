/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "topology/model/loss_internal.h"

/* The search above 16 GPUs: modules first (loss_parts.c), which mostly gives the answer; else a good set by
 * growing and swapping, then the proof by branch and bound (loss_bound.c). */

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
