/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_HYPERNODES_H
#define GPUTOPO_COMPANION_HYPERNODES_H

#include "scheduler-ext/companion/apply_set.h"
#include "scheduler-ext/companion/view.h"

/*
 * Supernodes as HyperNodes of Volcano (topology.volcano.sh/v1alpha1): one of tier 1 has its nodes as members,
 * one above the HyperNodes of its children. Pure: from the view and what HyperNodes are there to what they
 * shall be.
 *
 * In Volcano a node or HyperNode with two parents makes every topology-aware job wait. So what a HyperNode of
 * somebody else's holds is left out and reported; what another one of ours still holds is left out until that
 * has let go of it. A HyperNode of somebody else's that selects by labels, or by an expression beyond what is
 * understood here, may hold anything, and is taken to.
 */
struct gt_holders;

int gt_holders_new(struct gt_holders **ret, struct gt_err **err);
void gt_holders_free(struct gt_holders *holders);
GT_DEFINE_CLEANUP(struct gt_holders *, gt_holders_free)
#define gt_auto_holders GT_CLEANUP(gt_holders_free)

/* One HyperNode that is there, its `have` as apply_set.h gives it; a gt_apply_set_visit. */
void gt_holders_add(void *holders, const char *name, enum gt_apply_set_state state, const char *have);
/* After the last one, before any question. False: one of them did not fit into memory. */
bool gt_holders_end(struct gt_holders *holders);

/* Who besides `self` holds the node (or HyperNode) `member`: NULL nobody; *ret_foreign: somebody else's. */
const char *gt_holders_find(const struct gt_holders *holders, bool is_node, const char *member,
                            const char *self, bool *ret_foreign);

/*
 * What is desired of supernode s: appends it and returns true, or returns false where it shall have
 * no HyperNode. Supernodes are asked about by ascending tier; `made` [supernode] says which children have
 * one, and is filled in.
 */
bool gt_hypernode_write(const struct gt_view *view, uint32_t s, const struct gt_holders *holders, bool *made,
                        struct gt_projected *ret, struct gt_buf *to);

#endif
