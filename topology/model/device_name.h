/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_DEVICE_NAME_H
#define GPUTOPO_MODEL_DEVICE_NAME_H

#include "topology/model/node.h"

/*
 * What a GPU is called as a device of Dynamic Resource Allocation: "gpu-" and its PCI address, which keeps
 * its meaning when another GPU is lost, with dashes, since the name is a DNS label: "gpu-0000-3b-00-0".
 */
enum { GT_DRA_DEVICE_SIZE = 64 };

/* False where the BDF is none. */
bool gt_dra_device_name(const char *bdf, char to[static GT_DRA_DEVICE_SIZE]);
/* The way back; false for another name. */
bool gt_dra_device_bdf(const char *name, char to[static GT_BDF_SIZE]);

#endif
