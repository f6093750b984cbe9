/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_PLACEMENT_METRICS_H
#define GPUTOPO_COMPANION_PLACEMENT_METRICS_H

#include "scheduler-ext/placement/controller.h"

/* The controller's part of /metrics. */
void gt_placement_metrics(const struct gt_placement *placement, struct gt_buf *to);

#endif
