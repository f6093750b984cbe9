/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/node_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool gt_node_set_has(const struct gt_node_set *set, uint32_t node)
{
    return set && node < set->nodes && (set->bits[node / 64] >> node % 64 & 1);
}

int gt_node_set_add(struct gt_node_set *set, uint32_t node, struct gt_err **err)
{
    if (node >= set->nodes) {
        uint32_t words = node / 64 + 1, old = set->nodes / 64;
        uint64_t *bits = realloc(set->bits, words * sizeof(*bits));
        if (!bits)
            return gt_fail_sys(err, ENOMEM, "nodes");
        memset(bits + old, 0, (words - old) * sizeof(*bits));
        set->bits = bits;
        set->nodes = words * 64;
    }
    set->bits[node / 64] |= (uint64_t)1 << node % 64;
    return 0;
}

void gt_node_set_done(struct gt_node_set *set)
{
    free(set->bits);
    *set = (struct gt_node_set){0};
}
