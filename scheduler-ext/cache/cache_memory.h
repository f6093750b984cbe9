/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CACHE_MEMORY_H
#define GPUTOPO_CACHE_MEMORY_H

#include <stddef.h>

/* Memory that is counted in *bytes. Zeroed; NULL without memory. */
void *gt_cache_alloc(size_t *bytes, size_t size);
/* Counts a block of malloc() as one of these. */
void gt_cache_adopt(size_t *bytes, void *memory);
void gt_cache_release(size_t *bytes, void *memory);

#endif
