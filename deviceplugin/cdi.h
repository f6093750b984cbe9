/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cleanup.h"
#include "deviceplugin/cdi_spec.h"

/*
 * The CDI spec of a node's GPUs: one file, <vendor>-<class>.json, with a device for each GPU whose device
 * nodes the host has, and the control nodes common to all. It is written, as a whole or not at all, if its
 * content differs from the file, and removed if no GPU is left. It stays when the agent ends: a container
 * that is restarted needs it. Safe from any thread.
 */
struct gt_cdi;

/* How a container gets its GPUs. */
enum gt_device_strategy {
    GT_STRATEGY_DEVICES, /* device nodes in the answer to Allocate */
    GT_STRATEGY_CDI,     /* names of CDI devices */
    GT_STRATEGY_BOTH,
};

/* Makes the checks of gt_cdi_check(), and removes temporary files of an interrupted write. The texts of the
 * options are borrowed. */
int gt_cdi_new(const struct gt_cdi_options *options, struct gt_cdi **ret, struct gt_err **err);
void gt_cdi_free(struct gt_cdi *cdi);
GT_DEFINE_CLEANUP(struct gt_cdi *, gt_cdi_free)

/* Updates the file from the inventory and the host's device nodes. If it is up to date it is only read.
 * An inventory older than the one written last is ignored: a running Allocate may still use an old one. */
int gt_cdi_refresh(struct gt_cdi *cdi, const struct gt_inventory *inventory, struct gt_err **err);

/* Removes the file. Not finding it is no error. */
int gt_cdi_remove(struct gt_cdi *cdi, struct gt_err **err);
/* Whether there is a file. */
bool gt_cdi_exists(struct gt_cdi *cdi);

/* Appends the full name of a device, "metax-tech.com/gpu=GPU-...". */
void gt_cdi_full_name(const struct gt_cdi *cdi, const char *id, struct gt_buf *to);

struct gt_cdi_stats {
    bool current; /* the last refresh succeeded */
    uint64_t writes, failures;
};
void gt_cdi_stats(struct gt_cdi *cdi, struct gt_cdi_stats *ret);

const char *gt_cdi_path(const struct gt_cdi *cdi);
