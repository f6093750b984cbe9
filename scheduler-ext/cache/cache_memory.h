/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Allocates zeroed memory and adds its size to *bytes. NULL without memory. */
void *gt_cache_alloc(size_t *bytes, size_t size);
/* Adds the size of a block from malloc() to *bytes. */
void gt_cache_adopt(size_t *bytes, void *memory);
void gt_cache_release(size_t *bytes, void *memory);
