/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_SHARED_GPUS_H
#define GPUTOPO_AGENT_SHARED_GPUS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the vendor's device plugin serves the GPUs of this node as shares (sGPUs), so that whole ones must
 * not be given. One sign is enough, at once. It ends when there was none for GT_SHARES_GONE_MS, since the
 * vendor's plugin may only be restarting. No clock, no socket.
 */
enum { GT_SHARES_GONE_MS = 60000 };

struct gt_shares {
    /* The last answer of each source, kept until the next one. Without an API server no new pod comes that
     * could want a whole GPU. */
    unsigned offered; /* shares that the kubelet has to offer */
    unsigned held;    /* that containers hold */
    bool annotated;   /* the Node has the annotation of the vendor's plugin */

    bool withdrawn;   /* the answer */
    uint64_t seen_ms; /* the last sign, on any clock that only goes forward */
};

/* Evaluates the signs; true: the result has changed. Called after each answer, and by a timer. */
bool gt_shares_evaluate(struct gt_shares *shares, uint64_t now_ms);

/* Which sign there is, or was last, as part of a sentence; "" without one. The caller gives the room. */
void gt_shares_why(const struct gt_shares *shares, char *to, unsigned size);

/* Whether the annotation's text names any GPU; NULL: the Node has none. */
bool gt_shares_annotation_counts(const char *text);

#endif
