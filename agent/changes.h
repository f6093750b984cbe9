/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/inventory.h"

/*
 * Logs the differences between two inventories, one line each: GPUs lost, back, new, unhealthy or recovered,
 * direct links down or up, things that cannot be read any more. If `before` is NULL, it logs a summary of the
 * first inventory. Returns the number of lines, 0: nothing changed.
 *
 * `report` (may be NULL) is called for Events of the cluster, at most once for each reason: GPULost, GPUBack,
 * GPUUnhealthy, GPUHeldBack, GPURecovered, LinkDown, LinkUp.
 */
typedef void gt_changes_report(void *arg, bool warning, const char *reason, const char *note);
unsigned gt_changes_log(const struct gt_inventory *before, const struct gt_inventory *after,
                        gt_changes_report *report, void *arg);
