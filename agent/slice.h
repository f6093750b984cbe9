/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_SLICE_H
#define GPUTOPO_AGENT_SLICE_H

#include "agent/usage.h"

/* The node's ResourceSlice: which GPUs are offered to Dynamic Resource Allocation, and in which order. */
struct gt_slice_facts {
    const char *node_name, *node_uid, *supernode;
    const struct gt_inventory *inventory;
    const struct gt_usage *usage;
    uint64_t others;          /* GPUs that containers hold without a claim of ours: they are left out */
    const char *taint_effect; /* of unhealthy ones; NULL: they are left out */
    const struct gt_dra_claims *claims; /* that are prepared */
    bool composites;                    /* offered, too */
};

/*
 * Appends the body of server-side apply. The scheduler takes the first devices of the list that fit. So the
 * free GPUs come first: the one that is best for a request of one GPU (topology/model/loss.h), the best
 * partner that it has, then the same of those that remain. What is in use comes last, by index.
 * Composites follow, those that claims hold before others: the node, zones, pairs, of each first those that
 * are free, by the rule of loss.h; as many as a slice may have. GPUs that a claim holds by a composite that
 * is not offered are left out, since the scheduler cannot know that they are in use.
 */
void gt_slice_write(const struct gt_slice_facts *facts, struct gt_buf *to);

#endif
