/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "topology/model/loss_internal.h"

/* The choice: a kept answer or an enumeration up to 16 GPUs, the search above. */

enum { LIMIT_US = 20000, LIMIT_US_MAX = 60 * 1000 * 1000 };

static uint64_t deadline_after(unsigned limit_us)
{
    if (!limit_us)
        limit_us = LIMIT_US;
    if (limit_us > LIMIT_US_MAX)
        limit_us = LIMIT_US_MAX;
    return gt_clock_ns() + (uint64_t)limit_us * 1000;
}

static struct gt_choice choice_of_mask(const struct gt_class *class, uint32_t free, uint32_t mask)
{
    uint32_t score = gt_sum_of(class, mask);

    return (struct gt_choice){
        .mask = mask,
        .score = score,
        .loss = gt_sum_of(class, free) - score - gt_sum_of(class, free ^ mask),
        .exact = true,
    };
}

/* Spreads the low 16 bits of a counter onto the bits of a mask of at most 16 GPUs, by two small tables. */
struct spread_tables {
    uint16_t low[256], high[256];
};

static void spread_half(uint16_t bits[static 8], uint16_t *ret)
{
    ret[0] = 0;
    for (unsigned i = 1; i < 256; i++)
        ret[i] = (uint16_t)(ret[i & (i - 1)] | bits[gt_bit_first(i)]);
}

static void spread_make(uint32_t mask, struct spread_tables *ret)
{
    uint16_t bits[16] = {0};

    for (unsigned i = 0; mask; i++, mask &= mask - 1)
        bits[i] = (uint16_t)(mask & -mask);
    spread_half(bits, ret->low);
    spread_half(bits + 8, ret->high);
}

/* The next number with as many bits set. */
static inline uint32_t next_of_size(uint32_t bits)
{
    uint32_t filled = bits | (bits - 1);

    return (filled + 1) | (((~filled & -~filled) - 1) >> (gt_bit_first(bits) + 1));
}

/* The best of `from`, a part of `free`, that hold `must`, one or two as `wanted` says, by trying all; returns
 * how many there are. They are compared by S(A), then S(F \ A): the least cut is the highest S(F \ A) among
 * equal S(A). The masks come in ascending order, so an equal one never replaces an earlier one. */
static unsigned enumerate(const struct gt_class *class, uint32_t free, uint32_t from, uint32_t must,
                          unsigned k, unsigned wanted, uint32_t ret[static 2])
{
    uint32_t open = from & ~must, end = UINT32_C(1) << gt_bit_count(open);
    unsigned picks = k - gt_bit_count(must), found = 0;
    uint64_t best[2] = {0, 0};
    struct spread_tables spread;

    if (!picks) {
        ret[0] = must;
        return 1;
    }
    spread_make(open, &spread);
    for (uint32_t bits = (UINT32_C(1) << picks) - 1; bits < end; bits = next_of_size(bits)) {
        uint32_t mask = must | spread.low[bits & 255] | spread.high[bits >> 8];
        uint32_t sum = gt_sum_of(class, mask);
        uint64_t key;

        if (found == wanted && sum < best[wanted - 1] >> 32)
            continue;
        key = (uint64_t)sum << 32 | gt_sum_of(class, free ^ mask);
        if (!found || key > best[0]) {
            best[1] = best[0];
            ret[1] = ret[0];
            best[0] = key;
            ret[0] = mask;
        } else if (wanted == 2 && (found < 2 || key > best[1])) {
            best[1] = key;
            ret[1] = mask;
        } else {
            continue;
        }
        found += found < wanted;
    }
    return found;
}

/* Where the class keeps the answer for (free, k); up to 8 GPUs no two questions share a place. */
static atomic_uint *loss_choose_place_of(const struct gt_class *class, uint32_t free, unsigned k)
{
    uint32_t place = (free << 3 | ((k - 1) & 7)) ^ (free >> 8) * 0x2c1;
    /* What a class keeps is the one part of it that changes; the caller's view of it stays const. */
    struct gt_class *kept = (struct gt_class *)(uintptr_t) class;

    return &kept->answers[place & (class->answer_count - 1)];
}

static uint32_t small_choice(const struct gt_class *class, uint32_t free, uint32_t from, uint32_t must,
                             unsigned k)
{
    atomic_uint *place = loss_choose_place_of(class, free, k);
    uint32_t kept = atomic_load_explicit(place, memory_order_relaxed), mask = kept & 0xffff;
    uint32_t two[2] = {0, 0};

    /* The best of all is the best of those that hold `must`, if it does. */
    if (kept >> 16 == free && gt_bit_count(mask) == k && (mask & must) == must)
        return mask;
    enumerate(class, free, from, must, k, 1, two);
    if (!must)
        atomic_store_explicit(place, free << 16 | two[0], memory_order_relaxed);
    return two[0];
}

static struct gt_choice loss_choose_choice_of(const struct gt_loss_option *option, bool exact)
{
    return (struct gt_choice){
        .mask = option->mask,
        .score = option->score,
        .loss = option->deg - 2 * option->score,
        .exact = exact,
    };
}

bool gt_choose(const struct gt_class *class, uint64_t free, uint64_t must, unsigned k, unsigned limit_us,
               struct gt_choice *ret)
{
    uint32_t deg[GT_GPUS_MAX];
    struct gt_loss_option best;
    uint64_t from;
    bool exact;

    free &= gt_low_bits(class->n);
    if (!k || k > gt_bit_count(free) || (must & ~free) || gt_bit_count(must) > k ||
        !gt_numa_admits(&class->numa, free, must, k, &from))
        return false;
    from |= must;
    if (class->sums) {
        *ret = choice_of_mask(class, (uint32_t)free,
                              small_choice(class, (uint32_t)free, (uint32_t)from, (uint32_t)must, k));
        return true;
    }
    gt_degrees(class, free, deg);
    gt_search(&(struct gt_loss_query){class, from, must, k, deg, deadline_after(limit_us)}, &best, &exact);
    *ret = loss_choose_choice_of(&best, exact);
    return true;
}

/*
 * The best set that is not `first`: every other set lacks some GPU of it. The other sets are divided by the
 * first GPU that they lack: they contain all GPUs of `first` before it. Each part is a separate search with
 * an equal share of the remaining time.
 */
static bool second_best(struct gt_loss_query query, uint64_t first, struct gt_loss_option *ret,
                        bool *ret_exact)
{
    uint64_t candidates = query.candidates, end = query.deadline_ns;
    bool found = false;

    if (gt_bit_count(candidates) == query.k)
        return false;
    for (uint64_t rest = first; rest; rest &= rest - 1) {
        uint64_t gpu = rest & -rest;
        struct gt_loss_option option;
        uint64_t now = gt_clock_ns();
        bool exact;

        query.deadline_ns = now < end ? now + (end - now) / gt_bit_count(rest) : now;
        query.candidates = candidates & ~gpu;
        query.must = first & (gpu - 1);
        gt_search(&query, &option, &exact);
        *ret_exact &= exact;
        if (!found || gt_option_before(&option, ret))
            *ret = option;
        found = true;
    }
    return true;
}

static unsigned large_two(const struct gt_class *class, uint64_t free, uint64_t from, unsigned k,
                          unsigned limit_us, struct gt_choice ret[static 2])
{
    uint32_t deg[GT_GPUS_MAX];
    struct gt_loss_query query = {class, from, 0, k, deg, deadline_after(limit_us)};
    struct gt_loss_option first, second = {0, 0, 0};
    bool exact;

    gt_degrees(class, free, deg);
    gt_search(&query, &first, &exact);
    ret[0] = loss_choose_choice_of(&first, exact);
    query.deadline_ns = deadline_after(limit_us);
    if (!second_best(query, first.mask, &second, &exact))
        return 1;
    ret[1] = loss_choose_choice_of(&second, exact);
    if (gt_option_before(&second, &first)) {
        /* The first search was cut short, and the second found better. */
        ret[0] = loss_choose_choice_of(&second, false);
        ret[1] = loss_choose_choice_of(&first, false);
    }
    return 2;
}

unsigned gt_choose_two(const struct gt_class *class, uint64_t free, unsigned k, unsigned limit_us,
                       struct gt_choice ret[static 2])
{
    uint32_t two[2] = {0, 0};
    uint64_t from;

    free &= gt_low_bits(class->n);
    if (!k || k > gt_bit_count(free) || !gt_numa_admits(&class->numa, free, 0, k, &from))
        return 0;
    if (!class->sums)
        return large_two(class, free, from, k, limit_us, ret);
    unsigned found = enumerate(class, (uint32_t)free, (uint32_t)from, 0, k, 2, two);
    for (unsigned i = 0; i < found; i++)
        ret[i] = choice_of_mask(class, (uint32_t)free, two[i]);
    return found;
}

uint32_t gt_class_best_score(const struct gt_class *class, unsigned k)
{
    struct gt_class *kept = (struct gt_class *)(uintptr_t) class;
    unsigned known, found;
    struct gt_choice choice;

    if (k > class->n)
        return 0;
    known = atomic_load_explicit(&kept->best_score[k], memory_order_relaxed);
    if (known)
        return known - 1;
    if (!gt_choose(class, gt_low_bits(class->n), 0, k, 0, &choice))
        return 0;
    /* Two threads may search at once, and the time limit may give them different results: the first result is
     * stored. */
    found = choice.score + 1;
    if (!atomic_compare_exchange_strong(&kept->best_score[k], &known, found))
        found = known;
    return found - 1;
}

/* The search above 16 GPUs runs once for each k here, and the maps need no proof: its limit for all. */
enum { HAMI_MOST = 1999, HAMI_LIMIT_US = 20000 };

static uint16_t scaled(uint32_t value, uint32_t all)
{
    return (uint16_t)(all ? (uint64_t)HAMI_MOST * value / all : 0);
}

void gt_hami_maps(const struct gt_class *class, uint64_t free, struct gt_hami_maps *ret)
{
    uint32_t all = gt_class_sum(class, gt_low_bits(class->n));

    memset(ret, 0, sizeof(*ret));
    ret->n = class->n;
    for (unsigned k = 1; k <= class->n; k++) {
        struct gt_choice choice;

        if (gt_choose(class, free, 0, k, HAMI_LIMIT_US / class->n, &choice)) {
            ret->losses[k] = scaled(choice.loss, all);
            ret->scores[k] = scaled(choice.score, all);
        } else {
            ret->losses[k] = HAMI_MOST;
        }
    }
}

unsigned gt_class_pods(const struct gt_class *class, uint64_t free, unsigned k)
{
    struct gt_choice choice;
    unsigned pods = 0;

    free &= gt_low_bits(class->n);
    if (!class->numa.count)
        return gt_bit_count(free) / k;
    for (unsigned d = 0; k <= gt_numa_largest(&class->numa) && d < class->numa.count; d++)
        pods += gt_bit_count(free & class->numa.gpus[d]) / k;
    if (k <= gt_numa_largest(&class->numa))
        return pods;
    for (; gt_choose(class, free, 0, k, LIMIT_US / GT_GPUS_MAX, &choice); free &= ~choice.mask)
        pods++;
    return pods;
}
