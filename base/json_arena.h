/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"

/*
 * Memory for JSON objects that come one after the other and are read only once, as in lists and watches: an
 * object's values lie one after the other and are all freed at once. What does not fit is allocated with
 * malloc(). An arena belongs to one thread and holds one object at a time; while it holds one, any other
 * object is allocated with malloc() as a whole.
 */
struct gt_json_arena;

int gt_json_arena_new(struct gt_json_arena **ret, struct gt_err **err);
void gt_json_arena_free(struct gt_json_arena *arena);
GT_DEFINE_CLEANUP(struct gt_json_arena *, gt_json_arena_free)
#define gt_auto_json_arena GT_CLEANUP(gt_json_arena_free)

/*
 * Parses the first value of the text; *ret_end (ret_end may be NULL) points behind it. NULL: no JSON, or no
 * memory. The caller may change the value, but must not use any part of it after gt_json_arena_delete(),
 * which must be called in the same thread.
 */
cJSON *gt_json_arena_parse(struct gt_json_arena *arena, const char *text, size_t len, const char **ret_end);
void gt_json_arena_delete(struct gt_json_arena *arena, cJSON *json);
