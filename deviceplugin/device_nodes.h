/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_DEVICE_NODES_H
#define GPUTOPO_DEVICEPLUGIN_DEVICE_NODES_H

#include "deviceplugin/inventory.h"
#include "topology/model/device_names.h"

/*
 * The device nodes that a container needs for its GPUs, as names below /dev: mxcd (the control device), every
 * further mx?d (a digit or a small letter) that the host has, and of each GPU dri/cardN and dri/renderDN.
 */
struct gt_device_nodes {
    unsigned count;
    char names[1 + GT_DEVICE_NODES_MAX + 2 * GT_GPUS_MAX][GT_DEVICE_NAME_SIZE];
};

/*
 * Looks below `dev_root`. A node of a GPU, or mxcd, that is not there is -ENOENT with its path: a container
 * that starts without its GPU is worse than one that does not start. So is a GPU without any DRM node.
 */
int gt_device_nodes_find(const char *dev_root, const struct gt_device *const *devices, unsigned count,
                         struct gt_device_nodes *ret, struct gt_err **err);

/* The DRM nodes of one GPU alone; -ENOENT likewise. */
int gt_device_nodes_drm(const char *dev_root, const struct gt_device *device, struct gt_device_nodes *ret,
                        struct gt_err **err);

/* All of them that the host has: every mx?d, and the DRM nodes of each GPU of `node`, which may be NULL. Asks
 * for none: whoever gets these finds out about GPUs, also about broken ones. */
void gt_device_nodes_all(const char *dev_root, const struct gt_node *node, struct gt_device_nodes *ret);

/* Whether there is the vendor's driver, by mxcd. */
bool gt_device_nodes_driver(const char *dev_root);

#endif
