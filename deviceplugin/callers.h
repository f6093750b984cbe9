/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/rpc.h"

/*
 * Finds out which ListAndWatch is the kubelet's: other programs may call the plugin, too. It is the one on a
 * connection that called GetDevicePluginOptions during Register, since the kubelet connects back during that
 * call. If no connection did, it is the first ListAndWatch that is open when Register is done. Set everything
 * to zero before Register.
 */
enum { GT_DIALLED_MAX = 4 };

struct gt_callers {
    int dialled[GT_DIALLED_MAX]; /* connections that called GetDevicePluginOptions during Register */
    unsigned dialled_count;
    unsigned stream; /* the kubelet's ListAndWatch, 0: none */
    unsigned early; /* a ListAndWatch that began before Register was done and may be the kubelet's, 0: none */
};

/* A connection has called GetDevicePluginOptions during Register. */
void gt_callers_dialled(struct gt_callers *callers, const struct gt_rpc_caller *caller);

/* A ListAndWatch has been opened; true: it is the kubelet's, which had none before. */
bool gt_callers_opened(struct gt_callers *callers, const struct gt_rpc_caller *caller, bool is_registered);

/* Register is done; true: the kubelet's ListAndWatch is one that is open already. */
bool gt_callers_registered(struct gt_callers *callers);

/* A ListAndWatch has ended; true: it was the kubelet's. */
bool gt_callers_gone(struct gt_callers *callers, const struct gt_rpc_caller *caller);
