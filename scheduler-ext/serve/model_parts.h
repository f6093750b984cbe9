/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/serve/debug_view.h"

/* Parts of JSON that the model and the explanations share. */

/* A time of gt_clock_ms() as RFC 3339 in UTC; null where it is 0. */
void gt_model_time_json(struct gt_buf *to, const char *key, const struct gt_debug_view *view, uint64_t ms);

/* What is wrong with a node, or special; nothing: nothing is. */
void gt_model_node_note(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to);
void gt_model_node_json(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to);
