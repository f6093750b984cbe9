/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bits.h"
#include "topology/model/loss_internal.h"

/*
 * The table of a class of up to 16 GPUs: for every free set F and every k the best subset, found by visiting
 * every subset of every set, 3^n in all.
 *
 * The order of the choice is one number per subset A of F: S(A), S(F \ A) (the least cut is the highest
 * S(F \ A) among equal S(A)), and the mask inverted. A sum stays below 2^23 (120 pairs of 65,535), so the
 * three fit in 62 bits. For the visit, sum and number of GPUs of a set are packed in 32 bits: one load.
 */
enum { SUM_BITS = 23, MASK_BITS = 16 };
#define SUM_MASK  ((UINT32_C(1) << SUM_BITS) - 1)
#define MASK_MASK ((UINT32_C(1) << MASK_BITS) - 1)

static void fill_sums(struct gt_class *class, uint32_t *packed)
{
    uint32_t sets = UINT32_C(1) << class->n, first = 0;

    packed[0] = 0;
    class->sets[0] = (struct gt_set){0, 0};
    for (uint32_t set = 1; set < sets; set++) {
        uint32_t rest = set & (set - 1), size = packed[rest] >> SUM_BITS;
        uint32_t sum = packed[rest] & SUM_MASK;
        const uint16_t *row = class->w + (size_t)gt_bit_first(set) * class->n;

        for (uint32_t others = rest; others; others &= others - 1)
            sum += row[gt_bit_first(others)];
        packed[set] = (size + 1) << SUM_BITS | sum;
        class->sets[set] = (struct gt_set){sum, first};
        first += size + 1;
    }
}

static inline uint64_t key_of(uint32_t sum, uint32_t sum_left, uint32_t mask)
{
    return ((uint64_t)sum << SUM_BITS | sum_left) << MASK_BITS | (mask ^ MASK_MASK);
}

/* The best of each size within `set`, which is not empty. Each step takes a subset that holds the set's
 * lowest GPU together with what it leaves: both are subsets, and both sums are needed for both. */
static void best_of(const uint32_t *packed, uint32_t set, uint16_t *ret)
{
    uint64_t best[GT_TABLE_GPUS_MAX + 1] = {0};
    uint32_t rest = set & (set - 1), left = rest;
    unsigned size = packed[set] >> SUM_BITS;

    for (;;) {
        uint32_t taken = set ^ left, a = packed[taken], b = packed[left];
        unsigned k = a >> SUM_BITS;
        uint64_t of_taken = key_of(a & SUM_MASK, b & SUM_MASK, taken);
        uint64_t of_left = key_of(b & SUM_MASK, a & SUM_MASK, left);

        if (of_taken > best[k])
            best[k] = of_taken;
        if (of_left > best[size - k])
            best[size - k] = of_left;
        if (!left)
            break;
        left = (left - 1) & rest;
    }
    /* A key of 0 can only be that of all 16 GPUs without links: its mask is right as well. */
    for (unsigned k = 1; k <= size; k++)
        ret[k - 1] = (uint16_t)((best[k] & MASK_MASK) ^ MASK_MASK);
}

void gt_table_build(struct gt_class *class, uint32_t *packed)
{
    uint32_t sets = UINT32_C(1) << class->n;

    fill_sums(class, packed);
    for (uint32_t set = 1; set < sets; set++)
        best_of(packed, set, class->best + class->sets[set].first);
}
