/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_RESOURCE_SLICE_H
#define GPUTOPO_API_RESOURCE_SLICE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"
#include "topology/model/node.h"

/*
 * ResourceSlice (resource.k8s.io/v1): the GPUs that a node offers to Dynamic Resource Allocation, in the
 * order in which the scheduler shall take them. One slice is the node's whole pool, so that it can be changed
 * in place.
 */
enum {
    GT_SLICE_NAME_SIZE = 254,
    GT_SLICE_DEVICES_MAX = 128, /* as the API server has it; GT_GPUS_MAX are fewer */
};

/* The name of a node's slice: "<node>-<driver>", or, where that is too long, the driver and a digest. */
void gt_resource_slice_name(const char *node_name, char to[static GT_SLICE_NAME_SIZE]);

struct gt_slice_device {
    const char *name; /* a DNS label */
    const struct gt_gpu *gpu;
    const char *taint; /* why nobody should get it: a value of a label; NULL: no taint */
};

struct gt_resource_slice {
    const char *node_name, *node_uid;
    const struct gt_node *node;
    const char *supernode;    /* "" not known */
    const char *taint_effect; /* "NoSchedule" or "NoExecute", for those with a taint */
    unsigned device_count;
    struct gt_slice_device devices[GT_GPUS_MAX];
};

/* Appends a body of server-side apply. */
void gt_resource_slice_write(const struct gt_resource_slice *slice, struct gt_buf *to);

/* What is read of one. Texts are borrowed. */
struct gt_resource_slice_head {
    const char *name, *driver, *node_name, *pool;
    unsigned device_count;
};
/* -EINVAL with the path of what is wrong. */
int gt_resource_slice_read(const cJSON *object, struct gt_resource_slice_head *ret, struct gt_err **err);

#endif
