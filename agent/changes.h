/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/inventory.h"
#include "topology/model/node.h"

/*
 * Logs the differences between two inventories, one line each: GPUs lost, back, new, unhealthy or recovered,
 * direct links down or up, things that cannot be read any more. If `before` is NULL, it logs a summary of the
 * first inventory.
 *
 * `report` (may be NULL) is called for Events of the cluster, at most once for each reason: GPULost, GPUBack,
 * GPUMoved, GPUUnhealthy, GPUHeldBack, GPURecovered, LinkDown, LinkUp.
 */
typedef void gt_changes_report(void *arg, bool warning, const char *reason, const char *note);
void gt_changes_log(const struct gt_inventory *before, const struct gt_inventory *after,
                    gt_changes_report *report, void *arg);

/*
 * Copies direct links, and the servers reached, from the earlier node `before` into a finished node if its
 * vendor library gives no answer about both GPUs of a link; they are marked stale. Both GPUs must be the same
 * cards at the same BDFs. The node is finished again; *ret_kept says whether anything was copied.
 */
int gt_stale_links_keep(const struct gt_node *before, struct gt_node *node, bool *ret_kept,
                        struct gt_err **err);
