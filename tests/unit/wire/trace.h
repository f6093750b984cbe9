/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_TESTS_WIRE_TRACE_H
#define GPUTOPO_TESTS_WIRE_TRACE_H

#include "scheduler-ext/wire/scan_masks.h"

/* The events of a scan as text: one line for each event, and at the end "ok" or the error. */

enum { TRACE_MAX = 16 << 20 };

/* Scans the text in one piece. `way` NULL: the first variant. Free the result. */
char *trace_whole(const struct gt_scan_shape *root, const char *text, size_t len,
                  const struct gt_masks_variant *way);

/* Scans it in pieces of `step` bytes, each in separate memory, so that a read beyond a piece is noticed. */
char *trace_steps(const struct gt_scan_shape *root, const char *text, size_t len, size_t step);

/* Scans it in two pieces, split before byte `cut`. */
char *trace_cut(const struct gt_scan_shape *root, const char *text, size_t len, size_t cut);

#endif
