/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/placement/controller.h"

/* The controller's part of /metrics. */
void gt_placement_metrics(const struct gt_placement *placement, struct gt_buf *to);
