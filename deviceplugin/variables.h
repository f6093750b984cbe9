/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "deviceplugin/inventory.h"

/* A container's environment variables about its GPUs. */
enum { GT_VARIABLES = 4, GT_NICS_PER_GPU = 8, GT_VARIABLE_MAX = 32 << 10 };

struct gt_variable {
    const char *name;
    /* `devices` must all be GPUs of the node. Nothing: the variable is not set. */
    void (*write)(const struct gt_node *node, const struct gt_device *const *devices, unsigned count,
                  struct gt_buf *to);
};

extern const struct gt_variable gt_variables[GT_VARIABLES];
