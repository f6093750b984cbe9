/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_arena.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#if __has_include(<sanitizer/asan_interface.h>) /* its macros do nothing without that sanitizer */
#include <sanitizer/asan_interface.h>

#include "base/err.h"
#else
#define ASAN_POISON_MEMORY_REGION(at, size)
#define ASAN_UNPOISON_MEMORY_REGION(at, size)
#endif

/* A pod of 8 KiB takes 40. */
enum { ARENA_SIZE = 128 << 10, ARENA_ALIGN = 16 };

struct gt_json_arena {
    cJSON *value; /* the value that is in it */
    size_t used;
    _Alignas(ARENA_ALIGN) char block[ARENA_SIZE];
};

/* The arena that this thread's object belongs to, and whether the object is being parsed. */
static _Thread_local struct gt_json_arena *current;
static _Thread_local bool is_parsing;

static void *json_arena_take(size_t size)
{
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (!is_parsing || rounded < size || rounded > ARENA_SIZE - current->used)
        return malloc(size);
    void *memory = current->block + current->used;
    current->used += rounded;
    ASAN_UNPOISON_MEMORY_REGION(memory, size);
    return memory;
}

static void give(void *memory)
{
    uintptr_t at = (uintptr_t)memory, begin = current ? (uintptr_t)current->block : 0;
    if (!current || at < begin || at >= begin + ARENA_SIZE)
        free(memory);
}

static void hook(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = json_arena_take, .free_fn = give});
}

int gt_json_arena_new(struct gt_json_arena **ret, struct gt_err **err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct gt_json_arena *arena = malloc(sizeof(*arena));
    GT_NEED(arena, err, "JSON");
    arena->value = NULL;
    arena->used = 0;
    ASAN_POISON_MEMORY_REGION(arena->block, ARENA_SIZE);
    pthread_once(&once, hook);
    *ret = arena;
    return 0;
}

void gt_json_arena_free(struct gt_json_arena *arena)
{
    if (arena)
        ASAN_UNPOISON_MEMORY_REGION(arena->block, ARENA_SIZE);
    free(arena);
}

cJSON *gt_json_arena_parse(struct gt_json_arena *arena, const char *text, size_t len, const char **ret_end)
{
    bool is_free = !current;
    if (is_free) {
        current = arena;
        arena->used = 0;
        is_parsing = true;
    }
    cJSON *json = cJSON_ParseWithLengthOpts(text, len, ret_end, 0);
    if (is_free) {
        is_parsing = false;
        arena->value = json;
        current = json ? arena : NULL;
    }
    return json;
}

void gt_json_arena_delete(struct gt_json_arena *arena, cJSON *json)
{
    cJSON_Delete(json);
    if (json && arena->value == json) {
        arena->value = NULL;
        current = NULL;
        ASAN_POISON_MEMORY_REGION(arena->block, ARENA_SIZE);
    }
}
