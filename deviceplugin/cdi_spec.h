/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "deviceplugin/device_nodes.h"

/*
 * A spec of the Container Device Interface, version 0.6.0, as JSON: containerd and CRI-O read it from a file,
 * and give a container the devices that were requested by name. For the file of a node's GPUs (cdi.c) and for
 * those of claims (dra/claim_cdi.c).
 */
enum { GT_CDI_SPEC_MAX = 1 << 20 }; /* bytes of JSON */

struct gt_cdi_options {
    const char *dir;      /* "/var/run/cdi"; created if it does not exist */
    const char *kind;     /* "metax-tech.com/gpu" */
    const char *dev_root; /* as in gt_plugin_options; absolute */
};

/* -EINVAL if CDI does not allow such a kind or dev_root. The other functions need sound ones. */
int gt_cdi_check(const struct gt_cdi_options *options, struct gt_err **err);

/*
 * Writes a spec: its begin, with the device nodes that each of its devices brings, then its devices, at least
 * one, and its end. A device has nodes, or variables: a JSON array of "NAME=value". Major and minor numbers
 * are left out: the runtime reads the host's device node when it makes the container.
 */
void gt_cdi_spec_begin(const struct gt_cdi_options *options, const struct gt_device_nodes *nodes,
                       struct gt_buf *to);
void gt_cdi_spec_add(const struct gt_cdi_options *options, const char *id,
                     const struct gt_device_nodes *nodes, const char *variables, struct gt_buf *to);
void gt_cdi_spec_end(struct gt_buf *to);

/*
 * Appends a device's name for any ID. Letters, digits, '-', '.' and ':' stay as they are, every other byte
 * becomes '_' and two hexadecimal digits, as does a '-', '.' or ':' at the end; if the result does not begin
 * with a letter or digit, an 'x' is put in front. A UUID and PCI-<bdf> stay unchanged.
 */
void gt_cdi_name_add(struct gt_buf *to, const char *id);

/* Appends "<dir>/<vendor>-<class>": the begin of the path of each of our files. */
void gt_cdi_path_add(const struct gt_cdi_options *options, struct gt_buf *to);
/* Whether it is a plain file with exactly this content. */
bool gt_cdi_file_says(const char *path, const char *text, size_t len);
/* Writes the file as a whole or not at all. -EEXIST: there is something else than a plain file. */
int gt_cdi_file_write(const struct gt_cdi_options *options, const char *path, const char *text, size_t len,
                      struct gt_err **err);
/* Not finding it is no error. */
int gt_cdi_file_remove(const char *path, struct gt_err **err);
