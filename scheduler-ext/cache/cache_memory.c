/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/cache/cache_memory.h"

#include <malloc.h>
#include <stdlib.h>

enum { OVERHEAD = 8 }; /* overhead of an allocation */

void gt_cache_adopt(size_t *bytes, void *memory)
{
    *bytes += malloc_usable_size(memory) + OVERHEAD;
}

void *gt_cache_alloc(size_t *bytes, size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (memory)
        gt_cache_adopt(bytes, memory);
    return memory;
}

void gt_cache_release(size_t *bytes, void *memory)
{
    if (!memory)
        return;
    *bytes -= malloc_usable_size(memory) + OVERHEAD;
    free(memory);
}
