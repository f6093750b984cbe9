/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/*
 * The name of a GPU as a device of Dynamic Resource Allocation: "gpu-0000-3b-00-0", with its PCI address,
 * since an index would change when another GPU is lost. It is a DNS label, so it has dashes only.
 */
enum { GT_DRA_DEVICE_SIZE = 64 };

/* False if the BDF is invalid. */
bool gt_dra_device_name(const char *bdf, char to[static GT_DRA_DEVICE_SIZE]);
/* The BDF of such a name; false for any other name. */
bool gt_dra_device_bdf(const char *name, char to[static GT_BDF_SIZE]);

/* Names below /dev of the device nodes that a container with a GPU gets; the last two are formats of
 * printf(). */
#define GT_CONTROL_NODE "mxcd"
#define GT_CARD_NODE    "dri/card%d"
#define GT_RENDER_NODE  "dri/renderD%d"
enum { GT_DEVICE_NAME_SIZE = 24 };
