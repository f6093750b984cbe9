/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/core/cluster.h"

/* How much room there is for units, for /metrics. It is counted when asked for. */
void gt_room_metrics(const struct gt_cluster *cluster, struct gt_buf *to);
