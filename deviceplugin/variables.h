/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_VARIABLES_H
#define GPUTOPO_DEVICEPLUGIN_VARIABLES_H

#include "base/buf.h"
#include "deviceplugin/inventory.h"

/* The values of a container's variables about its GPUs, which are all in the node. */
enum { GT_NICS_PER_GPU = 8, GT_VARIABLE_MAX = 32 << 10 };

/* "GPU-1,GPU-2": UUIDs, or IDs where they are not known. */
void gt_variable_uuids(const struct gt_device *const *devices, unsigned count, struct gt_buf *to);

/* The NICs to which the PCIe path is the shortest kind, at most GT_NICS_PER_GPU of each GPU,
 * "mlx5_0,mlx5_1;mlx5_2". False: there is none. */
bool gt_variable_nics(const struct gt_node *node, const struct gt_device *const *devices, unsigned count,
                      struct gt_buf *to);

#endif
