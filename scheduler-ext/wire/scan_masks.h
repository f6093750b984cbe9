/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_SCAN_MASKS_H
#define GPUTOPO_WIRE_SCAN_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler-ext/wire/scan.h"

/* The classes of 64 bytes: bit i is for byte i. Strings are not considered: a brace inside one counts,
 * too. */
struct gt_masks {
    uint64_t quote, backslash;
    uint64_t op;    /* { } [ ] , : */
    uint64_t space; /* up to 0x20: white space and control characters */
    uint64_t control;
    uint64_t high; /* from 0x80 */
};

enum { GT_MASKS_BLOCK = 64 };

typedef void gt_masks_fn(const uint8_t *bytes, size_t blocks, struct gt_masks *to);

struct gt_masks_variant {
    const char *name;
    gt_masks_fn *fn;
};

/* The implementations that this machine supports, fastest first, ended by one without a name. */
const struct gt_masks_variant *gt_masks_variants(void);

/* For tests and benchmarks: sets the implementation; the default is the first one. */
void gt_scan_set_masks(struct gt_scan *scan, gt_masks_fn *fn);

#endif
