/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* For qsort() and bsearch() over uint32_t. */

static inline int gt_compare_uint32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static inline int gt_compare_uint32_down(const void *a, const void *b)
{
    return gt_compare_uint32(b, a);
}
