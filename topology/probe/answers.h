/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PROBE_ANSWERS_H
#define GPUTOPO_PROBE_ANSWERS_H

#include "topology/model/node.h"

/*
 * Reads a vendor call log (docs/probe-protocol.md) and brings what can be believed into a node that discovery
 * has built from PCI so far: sorted, links present, not finished. GPUs are matched by BDF. Every answer is
 * checked (symmetry of the matrix, ranges, string termination, counts, a BDF or UUID twice); what is not
 * believed, failed, hung or is missing is noted in node->missing and the rest is used.
 *
 * *ret_unmatched counts the vendor's devices whose BDF the node does not have.
 * -EINVAL, the node unchanged, only where the log as a whole is not in its documented form.
 */
int gt_answers_apply(const char *log, size_t len, struct gt_node *node, unsigned *ret_unmatched,
                     struct gt_err **err);

/*
 * What both a whole scan and a health check learn: which devices are there, and the state of the links, as
 * one number: where it is the same, a whole scan would find no other wiring. -EINVAL as above.
 */
int gt_answers_digest(const char *log, size_t len, uint64_t *ret, struct gt_err **err);

/*
 * The BDFs of all GPUs that the log knows, canonical, at most GT_GPUS_MAX: for a replay that has no PCI
 * knowledge. Returns their number.
 */
int gt_answers_bdfs(const char *log, size_t len, char (*ret)[GT_BDF_SIZE], struct gt_err **err);

#endif
