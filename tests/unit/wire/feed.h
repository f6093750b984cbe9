/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/wire/request.h"

/* Reads a request that comes in pieces of `step` bytes. */
static inline int read_text(struct gt_wire_request *request, const char *text, size_t len, size_t step,
                            struct gt_err **err)
{
    gt_wire_request_reset(request);
    for (size_t at = 0; at < len; at += step) {
        int r = gt_wire_request_feed(request, text + at, len - at < step ? len - at : step, err);
        if (r < 0)
            return r;
    }
    return gt_wire_request_read(request, err);
}
