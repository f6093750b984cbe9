/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "topology/model/loss_internal.h"

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
