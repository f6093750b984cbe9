/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/companion/apply_set.h"
#include "scheduler-ext/companion/view.h"

/*
 * Supernodes as HyperNodes of Volcano (topology.volcano.sh/v1alpha1): one of tier 1 has its nodes as members,
 * one above the HyperNodes of its children. No I/O: computes the desired HyperNodes from the view and the
 * existing HyperNodes.
 *
 * In Volcano a node or HyperNode with two parents makes every topology-aware job wait. So a member of
 * somebody else's HyperNode is left out and reported; a member that another HyperNode of ours still has is
 * left out until it has been removed there. A foreign HyperNode that selects by labels, or by an expression
 * that is not understood here, counts as having every member.
 */
struct gt_holders;

int gt_holders_new(struct gt_holders **ret, struct gt_err **err);
void gt_holders_free(struct gt_holders *holders);
GT_DEFINE_CLEANUP(struct gt_holders *, gt_holders_free)
#define gt_auto_holders GT_CLEANUP(gt_holders_free)

/* Adds an existing HyperNode, with `have` as in apply_set.h; a gt_apply_set_visit. */
void gt_holders_add(void *holders, const char *name, enum gt_apply_set_state state, const char *have);
/* To be called after the last one and before gt_holders_find(). False: no memory for one of them. */
bool gt_holders_end(struct gt_holders *holders);

/* The HyperNode besides `self` that has the node (or HyperNode) `member`; NULL: none. *ret_foreign: it is not
 * ours. */
const char *gt_holders_find(const struct gt_holders *holders, bool is_node, const char *member,
                            const char *self, bool *ret_foreign);

/*
 * Appends the desired HyperNode of supernode s and returns true, or returns false where it is to have none.
 * To be called by ascending tier; `made` [supernode] says which supernodes have one, and the entry of s is
 * set.
 */
bool gt_hypernode_write(const struct gt_view *view, uint32_t s, const struct gt_holders *holders, bool *made,
                        struct gt_projected *ret, struct gt_buf *to);
