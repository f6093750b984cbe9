/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_MODEL_PARTS_H
#define GPUTOPO_SERVE_MODEL_PARTS_H

#include "scheduler-ext/serve/debug_view.h"

/* Pieces of JSON that the model and the explanations are made of. */

/* "key":"text", or null for NULL, "key":1 and "key":true. `more`: a comma goes before it. */
void gt_json_text(struct gt_buf *to, bool more, const char *key, const char *text);
void gt_json_number(struct gt_buf *to, bool more, const char *key, uint64_t number);
/* ,"key":1, or null for GT_NONE */
void gt_json_id(struct gt_buf *to, const char *key, uint32_t id);
void gt_json_bool(struct gt_buf *to, bool more, const char *key, bool value);
/* ,"key":TIME, a time of gt_clock_ms() as RFC 3339 in UTC; null where it is 0. */
void gt_json_time(struct gt_buf *to, const char *key, const struct gt_debug_view *view, uint64_t ms);
/* ,"key":[0,1,2] */
void gt_json_mask(struct gt_buf *to, const char *key, uint64_t mask);

void gt_model_node_json(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to);

#endif
