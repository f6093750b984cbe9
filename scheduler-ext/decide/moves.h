/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/decide/brake.h"
#include "scheduler-ext/decide/view.h"

/* Moves of units that have lost nodes, whoever evicts their pods. No I/O, no clock. */
enum { GT_MOVES_TEXT_MAX = 1024 };

/* "unit 0, pod v-1 on node s1-n1: its node was deleted". GT_CACHE_LOSS_NONE: it lacks room for its pod.
 * `because`: where not NULL, in place of what `why` says. */
void gt_moves_text(const struct gt_job_view *view, uint32_t at, enum gt_cache_loss why, const char *because,
                   char to[static GT_MOVES_TEXT_MAX]);

/* The nodes that those of the run [first, end) leave; false without memory. */
bool gt_moves_leaving(const struct gt_job_view *view, uint32_t first, uint32_t end, const bool *leaves,
                      struct gt_node_set *to);

/* After gt_decide_move() has reserved places for the run [first, end): returns what the next views get as
 * `leave_before_s`. `all`: the other pods of the job have to leave, too, and their successors get the same
 * places. */
uint64_t gt_moves_begin(const struct gt_job_view *view, uint32_t first, uint32_t end, bool all);

struct gt_moves {
    uint32_t count;   /* how often all pods of the job had to leave of late */
    uint64_t last_ms; /* the last time */
};

/* Nodes that come and go do not restart a whole job again and again: each further move waits twice as long as
 * the last one. Returns until when; 0: it may move now. Nodes that are deleted or drained do not come back.
 */
uint64_t gt_moves_damped_until(struct gt_moves *moves, enum gt_cache_loss why, uint64_t after_ms,
                               uint64_t now_ms);
void gt_moves_count(struct gt_moves *moves, uint64_t now_ms);
