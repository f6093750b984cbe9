/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bits.h"
#include "topology/model/loss_internal.h"

/*
 * S(A) for any set of up to 16 GPUs, from six tables of 256 sums, which stay in the processor's first cache.
 * The GPUs are four groups of four. Tables 0 and 1 have S of groups 0 and 1, and of 2 and 3; the others the
 * weights between two groups. Up to 8 GPUs table 0 has all.
 */

static const struct {
    uint8_t low, high; /* groups */
} tables[] = {{0, 1}, {2, 3}, {0, 2}, {0, 3}, {1, 2}, {1, 3}};

unsigned gt_sums_count(unsigned n)
{
    return n <= 8 ? 1 : GT_COUNT(tables);
}

static void fill_table(struct gt_class *class, unsigned t)
{
    uint8_t gpu[8];

    for (unsigned i = 0; i < 8; i++)
        gpu[i] = (uint8_t)(4 * (i < 4 ? tables[t].low : tables[t].high) + i % 4);
    for (unsigned set = 1; set < 256; set++) {
        unsigned rest = set & (set - 1), first = gt_bit_first(set);
        /* between groups only, where another table has the weights within them */
        unsigned others = t > 1 && first < 4 ? rest & 0xf0 : t > 1 ? 0 : rest;
        uint32_t sum = class->sums[t][rest];

        for (; others; others &= others - 1) {
            unsigned a = gpu[first], b = gpu[gt_bit_first(others)];

            sum += a < class->n && b < class->n ? gt_weight(class, a, b) : 0;
        }
        class->sums[t][set] = sum;
    }
}

void gt_sums_fill(struct gt_class *class)
{
    for (unsigned t = 0; t < gt_sums_count(class->n); t++)
        fill_table(class, t);
}
