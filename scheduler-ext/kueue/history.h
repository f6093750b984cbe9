/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/core/cluster.h"

/*
 * Which nodes were in which supernode lately, and with how many GPUs. A node that is away now, that has lost
 * a GPU, or that is in no supernode any more, still counts for `keep_ms`. So a unit that is too large only
 * for this moment is told from one that is too large for the cluster. No I/O and no clock. One thread.
 */
struct gt_member_history;

enum { GT_HISTORY_MEMBERS_MAX = 1 << 18 };

int gt_member_history_new(uint64_t keep_ms, struct gt_member_history **ret, struct gt_err **err);
void gt_member_history_free(struct gt_member_history *history); /* NULL is allowed */

/* Adds the cluster as it is now; to be called at least every five minutes, else it begins again. */
void gt_member_history_note(struct gt_member_history *history, const struct gt_cluster *cluster,
                            uint64_t now_ms);

/* Whether it knows all of the last `keep_ms`. */
bool gt_member_history_is_whole(const struct gt_member_history *history);
uint64_t gt_member_history_span(const struct gt_member_history *history); /* `keep_ms` */

/* How many pods with so many GPUs the best supernode would hold if it were empty, with each node that was in
 * it and the most GPUs that this node had. *ret_name is its name, the node's where the node was in none;
 * valid until the next note. 0: none holds any. UINT32_MAX without memory. */
uint32_t gt_member_history_most(struct gt_member_history *history, unsigned gpus, const char **ret_name);

/* Appends what is missing in `cluster` of that supernode: "n3 has no NodeGPUTopology, n4 has 7 GPUs, before
 * 8". False: nothing is. */
bool gt_member_history_missing(struct gt_member_history *history, const struct gt_cluster *cluster,
                               const char *supernode, struct gt_buf *to);
