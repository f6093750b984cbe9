/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/inventory.h"
#include "topology/model/node.h"

/*
 * The device nodes that a container needs for its GPUs, as names below /dev: mxcd (the control device), every
 * further mx?d (a digit or a small letter) that the host has, and of each GPU dri/cardN and dri/renderDN.
 */
struct gt_device_nodes {
    unsigned count;
    char names[1 + GT_DEVICE_NODES_MAX + 2 * GT_GPUS_MAX][GT_DEVICE_NAME_SIZE];
};

/*
 * Searches below `dev_root`. -ENOENT with the path if mxcd or a device node of a GPU is missing, or if a GPU
 * has no DRM node: a container must not start without its GPU.
 */
int gt_device_nodes_find(const char *dev_root, const struct gt_device *const *devices, unsigned count,
                         struct gt_device_nodes *ret, struct gt_err **err);

/* The DRM nodes of one GPU alone; -ENOENT likewise. */
int gt_device_nodes_drm(const char *dev_root, const struct gt_device *device, struct gt_device_nodes *ret,
                        struct gt_err **err);

/* All of them that the host has: every mx?d, and the DRM nodes of each GPU of `node`, which may be NULL.
 * Missing ones are no error: they are for gputopo-probe, which also examines broken GPUs. */
void gt_device_nodes_all(const char *dev_root, const struct gt_node *node, struct gt_device_nodes *ret);
