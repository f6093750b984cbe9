/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "deviceplugin/inventory.h"

/* Values of a container's environment variables about its GPUs. `devices` must all be GPUs of the node. */
enum { GT_NICS_PER_GPU = 8, GT_VARIABLE_MAX = 32 << 10 };

/* "GPU-1,GPU-2": UUIDs, or the device ID for a GPU without a known UUID. */
void gt_variable_uuids(const struct gt_device *const *devices, unsigned count, struct gt_buf *to);

/* For each GPU the NICs with the nearest kind of PCIe path, at most GT_NICS_PER_GPU: "mlx5_0,mlx5_1;mlx5_2".
 * False: there are none. */
bool gt_variable_nics(const struct gt_node *node, const struct gt_device *const *devices, unsigned count,
                      struct gt_buf *to);
