/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "topology/model/loss_internal.h"

/*
 * Modules. A set of GPUs is a module when every GPU outside has one and the same weight to all of it. Then
 * the outside sees only how many of it are taken, and the best way to take a of it (highest S, least sum of
 * deg, lowest mask) is best whatever else is taken: the three add up over disjoint sets. So the GPUs of a
 * module can be replaced by one part with a best way for each number.
 *
 * Real wirings consist of modules: a full mesh, meshes joined by one kind of path, or switches below bridges
 * below sockets become one part in a few microseconds, also with links that are down, and that part has the
 * answer.
 */

enum {
    MODULE_MAX = 16,     /* parts of a module without inner modules that is tried out */
    MODULE_WAYS = 65536, /* and its count vectors, at most */
};

static void keep_better(struct gt_loss_option *option, bool first, const struct gt_loss_option *other)
{
    if (first || gt_option_before(other, option))
        *option = *other;
}

/* The last part moves to the place of part j. */
static void loss_parts_drop(struct gt_parts *parts, unsigned j)
{
    unsigned last = --parts->count;

    parts->part[j] = parts->part[last];
    memcpy(parts->w[j], parts->w[last], sizeof(parts->w[j]));
    for (unsigned i = 0; i < last; i++)
        parts->w[i][j] = parts->w[i][last];
    parts->w[j][j] = 0;
}

static bool twins(const struct gt_parts *parts, unsigned i, unsigned j)
{
    for (unsigned x = 0; x < parts->count; x++)
        if (parts->w[i][x] != parts->w[j][x] && x != i && x != j)
            return false;
    return true;
}

/* Two parts that form a module become one, in the place of the first. */
static void join_two(struct gt_parts *parts, unsigned i, unsigned j, unsigned k)
{
    struct gt_loss_part *a = parts->part[i], joined;
    const struct gt_loss_part *b = parts->part[j];
    uint32_t w = parts->w[i][j];
    bool filled[GT_GPUS_MAX + 1] = {false};

    joined.lo = a->lo + b->lo;
    joined.hi = a->hi + b->hi < k ? a->hi + b->hi : k;
    joined.all = a->all | b->all;
    for (unsigned x = a->lo; x <= a->hi; x++)
        for (unsigned y = b->lo; y <= b->hi && x + y <= k; y++) {
            struct gt_loss_option option = {
                .score = a->option[x].score + b->option[y].score + w * x * y,
                .deg = a->option[x].deg + b->option[y].deg,
                .mask = a->option[x].mask | b->option[y].mask,
            };

            keep_better(&joined.option[x + y], !filled[x + y], &option);
            filled[x + y] = true;
        }
    a->lo = joined.lo;
    a->hi = joined.hi;
    a->all = joined.all;
    memcpy(&a->option[a->lo], &joined.option[a->lo], (a->hi - a->lo + 1) * sizeof(a->option[0]));
    loss_parts_drop(parts, j);
}

static bool join_equal(struct gt_parts *parts, unsigned k)
{
    bool any = false;

    for (unsigned i = 0; i < parts->count; i++)
        for (unsigned j = i + 1; j < parts->count;) {
            if (twins(parts, i, j)) {
                join_two(parts, i, j, k);
                any = true;
            } else {
                j++;
            }
        }
    return any;
}

/* The smallest module with parts i and j, as a mask of parts; 0 where it is large. */
static uint64_t closure(const struct gt_parts *parts, unsigned i, unsigned j)
{
    uint64_t members = UINT64_C(1) << i | UINT64_C(1) << j, unseen = UINT64_C(1) << j;

    while (unseen) {
        const uint16_t *first = parts->w[i], *row = parts->w[gt_bit_first(unseen)];

        unseen &= unseen - 1;
        for (unsigned x = 0; x < parts->count; x++)
            if (first[x] != row[x] && !(members >> x & 1)) {
                members |= UINT64_C(1) << x;
                unseen |= UINT64_C(1) << x;
            }
        if (gt_bit_count(members) > MODULE_MAX)
            return 0;
    }
    return members;
}

struct trial {
    const struct gt_parts *parts;
    unsigned count, k;
    unsigned member[MODULE_MAX], taken[MODULE_MAX];
    bool filled[GT_GPUS_MAX + 1];
    struct gt_loss_part joined;
};

/* Tries every count of member `at` and those behind it. */
static void try_all(struct trial *trial, unsigned at, unsigned sum, struct gt_loss_option option)
{
    const struct gt_loss_part *part;
    uint32_t towards = 0;

    if (at == trial->count) {
        keep_better(&trial->joined.option[sum], !trial->filled[sum], &option);
        trial->filled[sum] = true;
        return;
    }
    part = trial->parts->part[trial->member[at]];
    for (unsigned i = 0; i < at; i++)
        towards += trial->taken[i] * trial->parts->w[trial->member[at]][trial->member[i]];
    for (unsigned a = part->lo; a <= part->hi && sum + a <= trial->k; a++) {
        struct gt_loss_option next = {
            .score = option.score + part->option[a].score + towards * a,
            .deg = option.deg + part->option[a].deg,
            .mask = option.mask | part->option[a].mask,
        };

        trial->taken[at] = a;
        try_all(trial, at + 1, sum + a, next);
    }
}

/* A module of several parts becomes one; false where it has too many ways. */
static bool join_module(struct gt_parts *parts, uint64_t members, unsigned k)
{
    struct trial t = {.parts = parts, .k = k};
    unsigned ways = 1;

    for (uint64_t rest = members; rest; rest &= rest - 1) {
        unsigned at = gt_bit_first(rest);
        const struct gt_loss_part *part = parts->part[at];

        ways *= part->hi - part->lo + 1;
        if (ways > MODULE_WAYS)
            return false;
        t.member[t.count++] = at;
        t.joined.lo += part->lo;
        t.joined.hi += part->hi;
        t.joined.all |= part->all;
    }
    if (t.joined.hi > k)
        t.joined.hi = k;
    try_all(&t, 0, 0, (struct gt_loss_option){0, 0, 0});
    *parts->part[t.member[0]] = t.joined;
    while (t.count > 1) /* from behind: the part that moves up is none of those that still have to go */
        loss_parts_drop(parts, t.member[--t.count]);
    return true;
}

static bool join_a_module(struct gt_parts *parts, const struct gt_loss_query *query)
{
    for (unsigned i = 0; i < parts->count; i++) {
        if (gt_clock_ns() > query->deadline_ns)
            return false;
        for (unsigned j = i + 1; j < parts->count; j++) {
            uint64_t members = closure(parts, i, j);

            if (members && gt_bit_count(members) < parts->count && join_module(parts, members, query->k))
                return true;
        }
    }
    return false;
}

void gt_parts_make(const struct gt_loss_query *query, struct gt_parts *ret)
{
    unsigned gpu[GT_GPUS_MAX];

    ret->count = 0;
    for (uint64_t rest = query->candidates; rest; rest &= rest - 1) {
        unsigned x = gt_bit_first(rest);
        struct gt_loss_part *part = &ret->store[ret->count];

        part->lo = query->must >> x & 1;
        part->hi = 1;
        part->all = UINT64_C(1) << x;
        part->option[0] = (struct gt_loss_option){0, 0, 0};
        part->option[1] = (struct gt_loss_option){0, query->deg[x], UINT64_C(1) << x};
        ret->part[ret->count] = part;
        gpu[ret->count++] = x;
    }
    for (unsigned i = 0; i < ret->count; i++)
        for (unsigned j = 0; j < ret->count; j++)
            ret->w[i][j] = i == j ? 0 : gt_weight(query->class, gpu[i], gpu[j]);

    do
        while (join_equal(ret, query->k))
            continue;
    while (ret->count > 2 && join_a_module(ret, query));
}
