/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "topology/model/loss.h"

/*
 * Shared by the files loss*.c only.
 *
 * The search uses this identity: with deg(x) = the sum of w(x,y) over y in F,
 *     loss(F,A) = S(F) - S(A) - S(F \ A) = sum of deg(x) over x in A - 2 S(A).
 * Among sets of equal S the least cut is therefore the least sum of deg, which is linear.
 */

struct gt_class {
    atomic_uint references;
    unsigned n;
    struct gt_numa numa;
    atomic_uint best_score[GT_GPUS_MAX + 1]; /* the score + 1 when it is known, else 0 */
    uint32_t (*sums)[256];                   /* NULL above 16 GPUs */
    atomic_uint *answers;  /* the latest answers: free mask << 16 | chosen mask; NULL above 16 GPUs */
    uint32_t answer_count; /* a power of two */
    uint16_t *w;           /* n * n */
};

static inline uint64_t gt_low_bits(unsigned n)
{
    return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

/* The lowest `count` bits that are set in `mask`; all of them if it has fewer. */
static inline uint64_t gt_lowest(uint64_t mask, unsigned count)
{
    uint64_t taken = 0;

    for (; count && mask; count--) {
        taken |= mask & -mask;
        mask &= mask - 1;
    }
    return taken;
}

static inline uint16_t gt_weight(const struct gt_class *class, unsigned a, unsigned b)
{
    return class->w[a * class->n + b];
}

/* ---- up to 16 GPUs ---- */

/* S(mask) */
static inline uint32_t gt_sum_of(const struct gt_class *class, uint32_t mask)
{
    uint32_t low = mask & 0xff, high = mask >> 8, sum = class->sums[0][low];

    if (high)
        sum += class->sums[1][high] + class->sums[2][(low & 0xf) | (high & 0xf) << 4] +
               class->sums[3][(low & 0xf) | (high & 0xf0)] + class->sums[4][low >> 4 | (high & 0xf) << 4] +
               class->sums[5][low >> 4 | (high & 0xf0)];
    return sum;
}

/* A candidate set; gt_option_before() gives the order of the choice. */
struct gt_loss_option {
    uint32_t score; /* S */
    uint32_t deg;   /* sum of deg */
    uint64_t mask;
};

static inline bool gt_option_before(const struct gt_loss_option *a, const struct gt_loss_option *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    if (a->deg != b->deg)
        return a->deg < b->deg;
    return a->mask < b->mask;
}

/* deg of each free GPU, for a class of any size. */
void gt_degrees(const struct gt_class *class, uint64_t free, uint32_t ret[static GT_GPUS_MAX]);

/* ---- the search above 16 GPUs ---- */

/* A module: GPUs with the same links to every GPU outside, so that for the others only their number counts.
 * For each number a of them, lo <= a <= hi, it has the best set of a GPUs. */
struct gt_loss_part {
    unsigned lo, hi;
    uint64_t all;                                  /* every GPU of it */
    struct gt_loss_option option[GT_GPUS_MAX + 1]; /* [a], valid from lo to hi */
};

struct gt_parts {
    unsigned count;
    struct gt_loss_part *part[GT_GPUS_MAX];
    uint16_t w[GT_GPUS_MAX][GT_GPUS_MAX]; /* between parts */
    struct gt_loss_part store[GT_GPUS_MAX];
};

/* The input of a search: the best `k` of `candidates` with all of `must`; deg is computed over the free set.
 */
struct gt_loss_query {
    const struct gt_class *class;
    uint64_t candidates, must;
    unsigned k;
    const uint32_t *deg;
    uint64_t deadline_ns; /* on CLOCK_MONOTONIC */
};

/* Makes one part for each GPU, then joins parts as far as that is exact and cheap. */
void gt_parts_make(const struct gt_loss_query *query, struct gt_parts *ret);

/* Improves *best, a valid set, until it is the best of all; false if the deadline came first or memory was
 * too small. */
bool gt_parts_search(const struct gt_loss_query *query, const struct gt_parts *parts,
                     struct gt_loss_option *option);

/* Runs the search, for which a valid set must exist; *ret_exact as in struct gt_choice. */
void gt_search(const struct gt_loss_query *query, struct gt_loss_option *ret, bool *ret_exact);
