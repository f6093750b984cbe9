/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Finds out whether the vendor's device plugin serves the GPUs of this node as shares (sGPUs), so that whole
 * GPUs must not be given. One sign is enough. The result ends when there was no sign for GT_SHARES_GONE_MS,
 * since the vendor's plugin may only be restarting. It uses no clock and no socket.
 */
enum { GT_SHARES_GONE_MS = 60000 };

struct gt_shares {
    /* The last answer of each source, valid until the next one. Without an API server no new pods can ask for
     * whole GPUs. */
    unsigned offered; /* shares that the kubelet offers */
    unsigned in_use;  /* shares that containers hold */
    bool annotated;   /* the Node has the annotation of the vendor's plugin */

    bool withdrawn;   /* the result: whole GPUs must not be given */
    uint64_t seen_ms; /* the last sign, on any clock that only goes forward */
};

/* Evaluates the signs; true: the result has changed. Called after each answer, and by a timer. */
bool gt_shares_evaluate(struct gt_shares *shares, uint64_t now_ms);

/* Writes the present or last sign as part of a sentence; "" without one. `size` is that of `to`. */
void gt_shares_why(const struct gt_shares *shares, char *to, unsigned size);

/* Whether the annotation's text names any GPU; NULL: the Node has none. */
bool gt_shares_annotation_counts(const char *text);
