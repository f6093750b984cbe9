/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/internal.h"

extern uint8_t gt_core_slots_of[GT_GPUS_MAX + 1][GT_GPUS_MAX + 1]; /* [g][n] = n / g; 0 for g of 0 */

/* How many pods of g GPUs n GPUs (0..64) hold; 0 for g of 0 or above 64. */
static inline unsigned gt_core_slots(unsigned g, unsigned n)
{
    return g <= GT_GPUS_MAX ? gt_core_slots_of[g][n] : 0;
}
