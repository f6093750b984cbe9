/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The annotation GT_ANNOTATION_MOVABLE of a pod, which says when it may move for others: "true" at any time;
 * "6h" (a number of s, m, h or d) when it has run for so long; "22:00-06:00" in these hours of the day, by
 * UTC; "after-checkpoint" when it has written one, for which it is asked with GT_ANNOTATION_CHECKPOINT_ASKED
 * and which it tells with the same value of GT_ANNOTATION_CHECKPOINT_DONE; "false" never.
 */
struct gt_movable {
    bool never, after_checkpoint;
    uint64_t after_s;     /* it has run for so long */
    uint32_t from, until; /* minutes of the day; equal: at any time */
};

/* False: it is none of these. */
bool gt_movable_read(const char *text, struct gt_movable *ret);

/* Whether the pod may move now, after a checkpoint where it wants one. Unix times. */
bool gt_movable_is_due(const struct gt_movable *movable, uint64_t created_s, uint64_t now_s);
