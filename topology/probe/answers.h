/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/*
 * Reads a vendor call log (docs/probe-protocol.md) and adds its valid answers to a node that discovery has
 * built from PCI: sorted, links present, not finished. GPUs are matched by BDF. Every answer is checked
 * (symmetry of the matrix, ranges, string termination, counts, a BDF or UUID twice); an answer that is
 * invalid, failed, hung or is missing is noted in node->missing, and the others are used.
 *
 * - A BDF that two devices report, or a UUID that two GPUs report, is used for neither. A counter with all
 *   bits set is ignored.
 * - Topology: level 5 is a direct link (MX); 0 and 1 PIX, 2 PXB, 3 PHB, 4 NODE, 6 SYS; 7 and 8 no direct
 *   link. A pair whose two directions differ is ignored. A PCIe level is used only if the PCIe paths are not
 *   known.
 * - Ports of a pair: links whose remote GPU is the other one, by BDF and device number. Both ends must agree,
 *   unless one gives no answer. Width and speed are the lowest of the ports in use.
 * - Link numbers start at 0 or at 1: an existing link 0 or 7 decides; else the numbering with which more
 *   links have ports with speed and width; else a number that the library refuses.
 * - A direct link is up if at least one port is up at both ends. It is down if every port is down (states 2,
 *   3, 4) at one end, or if no port is up and MetaXLink is disabled or its training failed on one GPU. A pair
 *   at a PCIe level whose ends still name each other over ports that are all down is a direct link that is
 *   down. Without any data about ports the state is unknown.
 * - A pair without a level is a direct link if both ends name each other over ports that are up.
 * - A missing answer for a GPU counts as a fault only if another GPU has one, and not if a scan ended early.
 * - NUMA node, CPUs and PCIe link are used only if they are not known from another source.
 *
 * *ret_unmatched counts the vendor's devices whose BDF the node does not have. -EINVAL, with the node
 * unchanged, only if the log as a whole is not in its documented form.
 */
int gt_answers_apply(const char *log, size_t len, struct gt_node *node, unsigned *ret_unmatched,
                     struct gt_err **err);

/*
 * A digest of what both a full scan and a health check read: the devices and the state of the links. While it
 * is the same, a full scan would find the same wiring. -EINVAL as above.
 */
int gt_answers_digest(const char *log, size_t len, uint64_t *ret, struct gt_err **err);

/*
 * The BDFs of all GPUs in the log, canonical, at most GT_GPUS_MAX: for a replay without PCI data. Returns
 * their number. -EINVAL as above.
 */
int gt_answers_bdfs(const char *log, size_t len, char (*ret)[GT_BDF_SIZE], struct gt_err **err);
