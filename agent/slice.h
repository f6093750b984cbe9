/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/usage.h"

/* The node's ResourceSlice: which GPUs are offered to Dynamic Resource Allocation, and in which order. */
struct gt_slice_facts {
    const char *node_name, *node_uid, *supernode;
    const struct gt_inventory *inventory;
    const struct gt_usage *usage;
    uint64_t others;          /* GPUs that containers hold without a claim of ours, which are left out */
    const char *taint_effect; /* of unhealthy ones; NULL: they are left out */
    const struct gt_dra_claims *claims; /* prepared claims */
    bool composites;                    /* composites are offered, too */
};

/*
 * Appends the body of server-side apply. The scheduler takes the first devices of the list that fit. So free
 * GPUs come first: the best one for a request of one GPU (topology/model/loss.h), its best partner, then the
 * same for the remaining ones. GPUs in use come last, by index. Composites follow, as many as a slice may
 * have, first those that claims hold: the node, zones, pairs; free ones first in each type, in the order of
 * loss.h. GPUs that a claim holds by a composite that is not offered are left out, since the scheduler cannot
 * know that they are in use.
 */
void gt_slice_write(const struct gt_slice_facts *facts, struct gt_buf *to);
