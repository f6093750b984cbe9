/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/assert.h"

/* Sets of at most 64 things, mostly GPUs, as masks. C23 has both functions in <stdbit.h>; C17 has only the
 * compilers' own. */

static inline unsigned gt_bit_count(uint64_t mask)
{
    return (unsigned)__builtin_popcountll(mask);
}

/* The number of the lowest bit that is set; `mask` must not be 0. */
static inline unsigned gt_bit_first(uint64_t mask)
{
    GT_ASSERT(mask);
    return (unsigned)__builtin_ctzll(mask);
}
