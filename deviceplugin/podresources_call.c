/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/podresources_call.h"

#include "deviceplugin/listener.h"

#define PATH_LIST        "/v1.PodResourcesLister/List"
#define PATH_ALLOCATABLE "/v1.PodResourcesLister/GetAllocatableResources"

/* Either request is an empty message. */
static int podresources_call(struct gt_rpc *rpc, const char *socket, const char *path, unsigned timeout_ms,
                             gt_rpc_done *done, void *arg, struct gt_rpc_call **ret, struct gt_err **err)
{
    int fd = gt_unix_connect(socket, err);
    if (fd < 0)
        return fd;
    return gt_rpc_call_new(rpc, fd, path, "", 0, timeout_ms, done, arg, ret, err);
}

int gt_pod_call_list(struct gt_rpc *rpc, const char *socket, unsigned timeout_ms, gt_rpc_done *done,
                     void *arg, struct gt_rpc_call **ret, struct gt_err **err)
{
    return podresources_call(rpc, socket, PATH_LIST, timeout_ms, done, arg, ret, err);
}

int gt_pod_call_allocatable(struct gt_rpc *rpc, const char *socket, unsigned timeout_ms, gt_rpc_done *done,
                            void *arg, struct gt_rpc_call **ret, struct gt_err **err)
{
    return podresources_call(rpc, socket, PATH_ALLOCATABLE, timeout_ms, done, arg, ret, err);
}
