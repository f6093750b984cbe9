/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_CDI_PARTS_H
#define GPUTOPO_DEVICEPLUGIN_CDI_PARTS_H

#include "base/cleanup.h"
#include "deviceplugin/cdi_spec.h"
#include "deviceplugin/device_nodes.h"

/* The parts of a CDI spec of GPUs, and the memory that the spec points to. For cdi.c and dra/claim_cdi.c. */
struct gt_cdi_parts {
    const char *dev_root;
    struct gt_buf names[GT_CDI_DEVICES_MAX];
    unsigned device_count, node_count, path_count;
    struct gt_cdi_device devices[GT_CDI_DEVICES_MAX];
    struct gt_cdi_node nodes[1 + GT_DEVICE_NODES_MAX + 2 * GT_GPUS_MAX];
    char *paths[2 * (1 + GT_DEVICE_NODES_MAX + 2 * GT_GPUS_MAX)];
};

/* `dev_root` is borrowed: it must outlive the parts. */
int gt_cdi_parts_new(const char *dev_root, struct gt_cdi_parts **ret, struct gt_err **err);
void gt_cdi_parts_free(struct gt_cdi_parts *parts);
GT_DEFINE_CLEANUP(struct gt_cdi_parts *, gt_cdi_parts_free)
#define gt_auto_cdi_parts GT_CLEANUP(gt_cdi_parts_free)

/* *ret: these device nodes as edits (the control nodes, or those of one GPU). Call it once for each GPU, for
 * at most GT_GPUS_MAX. */
int gt_cdi_parts_nodes(struct gt_cdi_parts *parts, const struct gt_device_nodes *nodes,
                       struct gt_cdi_edits *ret, struct gt_err **err);

/* Adds a device with these nodes (NULL: none yet) at the end of parts->devices. gt_cdi_name_add() makes its
 * name from `name`. -E2BIG beyond GT_CDI_DEVICES_MAX. */
int gt_cdi_parts_device(struct gt_cdi_parts *parts, const char *name, const struct gt_device_nodes *nodes,
                        struct gt_err **err);

#endif
