/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_JSON_ARENA_H
#define GPUTOPO_BASE_JSON_ARENA_H

#include "base/json.h"

/*
 * Memory for JSON objects that come one after the other and are read only once, as lists and watches bring
 * them: an object's values lie one behind the other, and are all given back at once. What does not fit comes
 * from malloc(). An arena belongs to one thread, and holds one object at a time; another one meanwhile comes
 * from malloc() as a whole.
 */
struct gt_json_arena;

int gt_json_arena_new(struct gt_json_arena **ret, struct gt_err **err);
void gt_json_arena_free(struct gt_json_arena *arena);
GT_DEFINE_CLEANUP(struct gt_json_arena *, gt_json_arena_free)
#define gt_auto_json_arena GT_CLEANUP(gt_json_arena_free)

/*
 * The first value of the text; *ret_end, where it is not NULL, is what follows it. NULL: no JSON, or no
 * memory. It may be changed, but nothing of it may outlive gt_json_arena_delete(), which is to be called in
 * this thread.
 */
cJSON *gt_json_arena_parse(struct gt_json_arena *arena, const char *text, size_t len, const char **ret_end);
void gt_json_arena_delete(struct gt_json_arena *arena, cJSON *json);

#endif
