/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/node_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/err.h"

int gt_node_set_add(struct gt_node_set *set, uint32_t node, struct gt_err **err)
{
    GT_ASSERT(node != UINT32_MAX); /* no node */
    if (node >= set->nodes) {
        uint32_t words = node / 64 + 1, old = set->nodes / 64;
        uint64_t *bits = realloc(set->bits, words * sizeof(*bits));
        GT_NEED(bits, err, "nodes");
        memset(bits + old, 0, (words - old) * sizeof(*bits));
        set->bits = bits;
        set->nodes = words * 64;
    }
    set->bits[node / 64] |= (uint64_t)1 << node % 64;
    return 0;
}

void gt_node_set_remove(struct gt_node_set *set, uint32_t node)
{
    if (gt_node_set_has(set, node))
        set->bits[node / 64] &= ~(UINT64_C(1) << node % 64);
}

uint32_t gt_node_set_next(const struct gt_node_set *set, uint32_t from)
{
    uint32_t words = set ? set->nodes / 64 : 0, word = from / 64;
    if (word >= words)
        return UINT32_MAX;
    uint64_t left = set->bits[word] & ~UINT64_C(0) << from % 64;
    while (!left && ++word < words)
        left = set->bits[word];
    return left ? word * 64 + (uint32_t)__builtin_ctzll(left) : UINT32_MAX;
}

uint32_t gt_node_set_count(const struct gt_node_set *set)
{
    uint32_t count = 0;
    for (uint32_t word = 0; set && word < set->nodes / 64; word++)
        count += gt_bit_count(set->bits[word]);
    return count;
}

void gt_node_set_clear(struct gt_node_set *set)
{
    if (set->nodes)
        memset(set->bits, 0, set->nodes / 64 * sizeof(*set->bits));
}

void gt_node_set_done(struct gt_node_set *set)
{
    free(set->bits);
    *set = (struct gt_node_set){0};
}
