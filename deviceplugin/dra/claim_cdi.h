/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/cdi_spec.h"
#include "deviceplugin/dra/claims.h"

/*
 * CDI specs of claims: one file for each, <vendor>-<class>-claim-<uid>.json, with a device for each GPU and
 * one for each request, which has the request's variables. It stays until the claim is unprepared: containers
 * that restart need it.
 */
enum { GT_DRA_CDI_ID_SIZE = 512 };

/* "metax-tech.com/gpu=<uid>-<device>" and "...=<uid>-<request>-request". */
void gt_dra_cdi_device_id(const char *kind, const char *uid, const char *device,
                          char to[static GT_DRA_CDI_ID_SIZE]);
void gt_dra_cdi_request_id(const char *kind, const char *uid, const char *request,
                           char to[static GT_DRA_CDI_ID_SIZE]);
/* The GPU with this device name; NULL: the node has none. */
const struct gt_device *gt_dra_find_device(const struct gt_inventory *inventory, const char *device);
/* Whether this device is the first of its request in the claim. */
bool gt_dra_cdi_is_first(const struct gt_dra_claim *claim, unsigned device);

/* Writes the file unless it is up to date, which costs one read. -ENODEV for a device that is not a GPU of
 * the inventory, -ENOENT for a device node that the host does not have, or an error of writing. */
int gt_dra_cdi_write(const struct gt_cdi_options *options, const struct gt_inventory *inventory,
                     const struct gt_dra_claim *claim, struct gt_err **err);
/* Removes the claim's file. A missing file is no error. */
int gt_dra_cdi_remove(const struct gt_cdi_options *options, const char *uid, struct gt_err **err);
/* Removes files of claims that are not among these, and temporary files of interrupted writes, if they are at
 * least a minute old: another instance may be writing newer ones. Returns how many it removed. */
unsigned gt_dra_cdi_sweep(const struct gt_cdi_options *options, const struct gt_dra_claims *claims);
