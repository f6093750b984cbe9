/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_CALLERS_H
#define GPUTOPO_DEVICEPLUGIN_CALLERS_H

#include "deviceplugin/rpc.h"

/*
 * Which ListAndWatch is the kubelet's: others may call the plugin, too. It is the one on a connection that
 * asked for GetDevicePluginOptions while Register was under way, since the kubelet dials back within it;
 * where no connection did, the first that is open when Register is done. All zeros before Register.
 */
enum { GT_DIALLED_MAX = 4 };

struct gt_callers {
    int dialled[GT_DIALLED_MAX]; /* connections that asked for the options during Register */
    unsigned dialled_count;
    unsigned stream; /* the kubelet's ListAndWatch, 0: none */
    unsigned early;  /* one that came before Register was done and may be the kubelet's, 0: none */
};

/* Somebody asks for the options while Register is under way. */
void gt_callers_dialled(struct gt_callers *callers, const struct gt_rpc_caller *caller);

/* Somebody opens ListAndWatch; true: it is the kubelet's, and was not there before. */
bool gt_callers_opened(struct gt_callers *callers, const struct gt_rpc_caller *caller, bool is_registered);

/* Register is done; true: the kubelet's ListAndWatch turns out to be one that is there already. */
bool gt_callers_registered(struct gt_callers *callers);

/* A ListAndWatch has ended; true: it was the kubelet's. */
bool gt_callers_gone(struct gt_callers *callers, const struct gt_rpc_caller *caller);

#endif
