/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"
#include "topology/model/composite.h"

/*
 * ResourceSlice (resource.k8s.io/v1): the GPUs that a node offers to Dynamic Resource Allocation, in the
 * order in which the scheduler should take them. One slice has all devices of the node's pool, so that it can
 * be changed in place. If composites are offered, a second slice has a counter for each GPU, which every
 * device with that GPU consumes, so that no two of them are given. This one never changes.
 */
enum {
    GT_SLICE_NAME_SIZE = 254,
    GT_SLICE_DEVICES_MAX = 128, /* as the API server has it */
    GT_SLICE_COUNTED_MAX = 64,  /* limit of devices with counters or taints; not below GT_GPUS_MAX */
};

/* The name of a node's slice: "<node>-<driver>", or the driver and a digest if that is too long. */
void gt_resource_slice_name(const char *node_name, char to[static GT_SLICE_NAME_SIZE]);
/* The name of the slice with its counters: "<node>-<driver>-counters". */
void gt_resource_slice_counters_name(const char *node_name, char to[static GT_SLICE_NAME_SIZE]);

struct gt_slice_device {
    const char *name;            /* a DNS label */
    uint64_t gpus;               /* mask of one GPU of the node, or of those of a composite */
    enum gt_composite_type type; /* of a composite */
    unsigned weight;             /* of a composite: the sum of its pair weights (topology/model/loss.h) */
    const char *taint;           /* why it should not be given, as a label's value; NULL: no taint */
    bool keeps_pods;             /* the taint evicts nobody: its effect is NoSchedule */
};

struct gt_resource_slice {
    const char *node_name, *node_uid;
    const struct gt_node *node;
    const char *supernode;    /* "" not known */
    const char *taint_effect; /* "NoSchedule" or "NoExecute", for devices with a taint */
    bool has_counters;        /* there is also a slice of counters, which the devices consume */
    unsigned device_count;
    struct gt_slice_device devices[GT_SLICE_COUNTED_MAX];
};

/* Each appends the body of a server-side apply. */
void gt_resource_slice_write(const struct gt_resource_slice *slice, struct gt_buf *to);
void gt_resource_slice_write_counters(const char *node_name, const char *node_uid, struct gt_buf *to);

/* The members of a slice that are read. Texts are borrowed. */
struct gt_resource_slice_head {
    const char *name, *driver, *node_name, *pool;
    unsigned device_count, counter_set_count;
    int64_t generation; /* of its pool */
    int64_t slices;     /* so many have all that the pool has */
};
/* -EINVAL with the path of what is wrong. */
int gt_resource_slice_read(const cJSON *object, struct gt_resource_slice_head *ret, struct gt_err **err);
/* The names of the devices in it that have no taint against pods, borrowed; how many. */
unsigned gt_resource_slice_devices(const cJSON *object, const char *names[static GT_SLICE_DEVICES_MAX]);
