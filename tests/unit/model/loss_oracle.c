/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/model/loss_oracle.h"

#include <string.h>

static bool has(uint64_t mask, unsigned x)
{
    return mask >> x & 1;
}

static struct oracle judge(const struct gt_weights *weights, uint64_t free, uint64_t mask)
{
    struct oracle it = {.found = true, .mask = mask};

    for (unsigned i = 0; i < weights->n; i++) {
        if (!has(mask, i))
            continue;
        for (unsigned j = 0; j < weights->n; j++) {
            if (has(mask, j) && i < j)
                it.score += weights->w[i][j];
            if (has(free, j) && !has(mask, j))
                it.cut += weights->w[i][j];
        }
    }
    return it;
}

static bool beats(const struct oracle *a, const struct oracle *b)
{
    if (!b->found || a->score > b->score)
        return true;
    if (a->score == b->score && a->cut < b->cut)
        return true;
    return a->score == b->score && a->cut == b->cut && a->mask < b->mask;
}

static void enter(const struct oracle *it, struct oracle *best, struct oracle *second)
{
    if (beats(it, best)) {
        *second = *best;
        *best = *it;
    } else if (beats(it, second)) {
        *second = *it;
    }
}

void oracle_all(const struct gt_weights *weights, uint64_t free, struct oracle ret_best[static 17],
                struct oracle ret_second[static 17])
{
    memset(ret_best, 0, 17 * sizeof(*ret_best));
    memset(ret_second, 0, 17 * sizeof(*ret_second));
    for (uint64_t mask = 1; mask < UINT64_C(1) << weights->n; mask++) {
        unsigned size = 0;
        struct oracle it;

        if (mask & ~free)
            continue;
        for (unsigned i = 0; i < weights->n; i++)
            size += has(mask, i);
        it = judge(weights, free, mask);
        enter(&it, &ret_best[size], &ret_second[size]);
    }
}

struct walk {
    const struct gt_weights *weights;
    uint64_t free, must;
    struct oracle *best, *second;
};

static void combine(struct walk *walk, unsigned from, unsigned left, uint64_t mask)
{
    if (!left) {
        struct oracle it = judge(walk->weights, walk->free, mask);

        enter(&it, walk->best, walk->second);
        return;
    }
    for (unsigned i = from; i < walk->weights->n; i++)
        if (has(walk->free, i) && !has(walk->must, i))
            combine(walk, i + 1, left - 1, mask | UINT64_C(1) << i);
}

void oracle_choose(const struct gt_weights *weights, uint64_t free, uint64_t must, unsigned k,
                   struct oracle *ret_best, struct oracle *ret_second)
{
    struct walk walk = {weights, free, must, ret_best, ret_second};
    unsigned size = 0;

    *ret_best = *ret_second = (struct oracle){0};
    for (unsigned i = 0; i < weights->n; i++)
        size += has(must, i);
    if (k && size <= k && !(must & ~free))
        combine(&walk, 0, k - size, must);
}
