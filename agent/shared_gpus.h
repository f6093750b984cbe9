/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_SHARED_GPUS_H
#define GPUTOPO_AGENT_SHARED_GPUS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the vendor's device plugin serves the GPUs of this node as shares (sGPUs), so that whole ones must
 * not be given. Each sign alone says so, at once; it is over when none has been seen for GT_SHARES_GONE_MS,
 * for the vendor's plugin may only be starting anew. No clock, no socket.
 */
enum { GT_SHARES_GONE_MS = 60000 };

struct gt_shares {
    /* The last word of each: what is not asked or does not answer keeps it, for however long. Without an API
     * server no new pod comes that could want a whole GPU, and a new agent has no word to keep. */
    unsigned offered; /* shares that the kubelet has to offer */
    unsigned held;    /* that containers hold */
    bool annotated;   /* the Node has the annotation of the vendor's plugin */

    bool withdrawn;   /* the answer */
    uint64_t seen_ms; /* the last sign, on any clock that only goes forward */
};

/* Draws the conclusion; true: it is another one than before. Called after every word, and now and then. */
bool gt_shares_evaluate(struct gt_shares *shares, uint64_t now_ms);

/* Which sign there is, or was last, as part of a sentence; "" without one. The caller gives the room. */
void gt_shares_why(const struct gt_shares *shares, char *to, unsigned size);

/* Whether the annotation's text names any GPU; NULL: the Node has none. */
bool gt_shares_annotation_counts(const char *text);

#endif
