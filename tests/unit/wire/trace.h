/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_TESTS_WIRE_TRACE_H
#define GPUTOPO_TESTS_WIRE_TRACE_H

#include "scheduler-ext/wire/scan_masks.h"

/* What a scan told, as text: one line an event, and at the end "ok" or the error. */

enum { TRACE_MAX = 16 << 20 };

/* In one piece. `way` NULL: the first. Free the result. */
char *trace_whole(const struct gt_scan_shape *root, const char *text, size_t len,
                  const struct gt_masks_variant *way);

/* In pieces of `step` bytes, each in memory of its own, so that a read beyond it is noticed. */
char *trace_steps(const struct gt_scan_shape *root, const char *text, size_t len, size_t step);

/* Cut once, before byte `cut`. */
char *trace_cut(const struct gt_scan_shape *root, const char *text, size_t len, size_t cut);

#endif
