/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_FAULT_TABLE_H
#define GPUTOPO_MODEL_FAULT_TABLE_H

#include "topology/model/evidence.h"

/* Which signals make a GPU unhealthy, and when it is healthy again (docs/reference/health.md). */

enum gt_fault_when {
    GT_FAULT_AT_ONCE,
    GT_FAULT_AFTER,  /* when it has occurred `times` times within `within_s` seconds */
    GT_FAULT_REPORT, /* never; it is only counted and reported */
};

enum {
    GT_FAULT_TIMES_MAX = 20,
    GT_FAULT_SECONDS_MAX = 604800, /* a week */
    GT_FAULT_CHECKS_MAX = 1000,
    GT_FAULT_FALLS_MAX = 20,
};

struct gt_fault_rule {
    enum gt_fault_when when;
    unsigned times, within_s;           /* of GT_FAULT_AFTER; at least 1 */
    uint32_t threshold;                 /* of a level */
    unsigned recover_checks, recover_s; /* healthy again after this many checks without the signal (at least
                                           1), and this many seconds after it was last seen */
};

/* A GPU that becomes unhealthy `falls` times within `within_s` seconds is held back: it must then be free of
 * faults for `hold_s` seconds, twice as long each further time, at most `hold_max_s`. */
struct gt_flapping_rule {
    unsigned falls, within_s, hold_s, hold_max_s; /* falls 0: never */
};

struct gt_fault_table {
    struct gt_fault_rule rules[GT_SIGNALS];
    struct gt_flapping_rule flapping;
};

extern const struct gt_fault_table gt_fault_table_default;

/* "atOnce", "after", "reportOnly". */
const char *gt_fault_when_name(enum gt_fault_when when);

#endif
