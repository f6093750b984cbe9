/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "deviceplugin/device_nodes.h"

/*
 * A spec of the Container Device Interface, version 0.6.0, as JSON: containerd and CRI-O read it from a file,
 * and give a container the devices that were requested by name. It knows no GPUs and does no I/O; it is used
 * for the file of a node's GPUs and for the files of claims.
 */
enum {
    GT_CDI_DEVICES_MAX = 128,
    GT_CDI_NODES_MAX = 128, /* of one device, or common to all */
    GT_CDI_ENV_MAX = 32,
    GT_CDI_SPEC_MAX = 1 << 20, /* bytes of JSON */
};

struct gt_cdi_node {
    const char *path;        /* in the container, absolute */
    const char *host_path;   /* absolute; NULL: the same */
    const char *permissions; /* characters of "rwm" */
};

/* Changes to a container. Major and minor number are left out: the runtime reads the host's device node when
 * it makes the container. */
struct gt_cdi_edits {
    const struct gt_cdi_node *nodes;
    const char *const *env; /* "NAME=value" */
    unsigned node_count, env_count;
};

struct gt_cdi_device {
    const char *name;
    struct gt_cdi_edits edits; /* at least one */
};

struct gt_cdi_spec {
    const char *kind;           /* "vendor.com/class" */
    struct gt_cdi_edits common; /* made once, for any of the devices */
    const struct gt_cdi_device *devices;
    unsigned device_count; /* at least one */
};

/*
 * Checks whether a reader of CDI specs accepts it: kind and names, absolute paths without "." and "..",
 * permissions, no device, variable or path in the container twice, the limits above. -EINVAL or -E2BIG says
 * what is wrong.
 */
int gt_cdi_spec_check(const struct gt_cdi_spec *spec, struct gt_err **err);

/* Appends the JSON of a spec that passes the check; the same spec gives the same bytes. */
int gt_cdi_spec_write(const struct gt_cdi_spec *spec, struct gt_buf *to, struct gt_err **err);

/*
 * Appends a device's name for any ID. Letters, digits, '-', '.' and ':' stay as they are, every other byte
 * becomes '_' and two hexadecimal digits, as does a '-', '.' or ':' at the end; if the result does not begin
 * with a letter or digit, an 'x' is put in front. A UUID and PCI-<bdf> stay unchanged.
 */
void gt_cdi_name_add(struct gt_buf *to, const char *id);

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
