/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* How long the functions of the vendor library have taken since the probe was started; calls that were
 * stopped count with the time until then. */
enum { GT_CALL_TIMES_MAX = 48 };

struct gt_call_times {
    unsigned count;
    struct gt_call_time {
        char call[48];
        uint64_t calls;
        double seconds, longest_s;
    } list[GT_CALL_TIMES_MAX];
};

/* Reads the probe's answer to `times` (protocol.h); -EINVAL if it is invalid. Functions beyond
 * GT_CALL_TIMES_MAX are left out. */
int gt_call_times_read(const char *text, size_t len, struct gt_call_times *ret, struct gt_err **err);
