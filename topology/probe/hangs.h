/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PROBE_HANGS_H
#define GPUTOPO_PROBE_HANGS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls about one device at which the worker died in check after check. They are not made in each check:
 * GT_HANGS_FREE times they are, then after GT_HANGS_FIRST_MS, twice as long each further time, and
 * GT_HANGS_MAX_MS at most. Until then they count as failed as they did. Any clock that only goes forward.
 * Private to topology/probe.
 */
enum { GT_HANGS_LIST = 32, GT_HANGS_FREE = 3, GT_HANGS_FIRST_MS = 10000, GT_HANGS_MAX_MS = 60000 };

struct gt_hangs {
    unsigned count;
    struct gt_hang {
        char call[64], why[64];
        unsigned arg_count;
        uint32_t args[2];
        unsigned failures; /* in a row */
        uint64_t seen_ms;
    } list[GT_HANGS_LIST];
};

/* It failed; `why` is kept. Calls without a device are not kept: a library that hangs as a whole
 * is queried again in each check. */
void gt_hangs_failed(struct gt_hangs *hangs, const char *call, unsigned count, const uint32_t *args,
                     const char *why, uint64_t now_ms);

/* It was answered. */
void gt_hangs_answered(struct gt_hangs *hangs, const char *call, unsigned count, const uint32_t *args);

/* Why it failed the last time, where it is not to be made again yet; else NULL. */
const char *gt_hangs_wait(const struct gt_hangs *hangs, const char *call, unsigned count,
                          const uint32_t *args, uint64_t now_ms);

#endif
