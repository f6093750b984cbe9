/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/podresources_call.h"

#include <string.h>

#include "deviceplugin/answers_pack.h"
#include "deviceplugin/listener.h"
#include "proto/podresources.pb-c.h"

#define PATH_LIST        "/v1.PodResourcesLister/List"
#define PATH_GET         "/v1.PodResourcesLister/Get"
#define PATH_ALLOCATABLE "/v1.PodResourcesLister/GetAllocatableResources"

enum { REQUEST_MAX = 4096 };

static int call(struct gt_rpc *rpc, const char *socket, const char *path, const struct gt_buf *request,
                unsigned timeout_ms, gt_rpc_done *done, void *arg, struct gt_rpc_call **ret,
                struct gt_err **err)
{
    int r = gt_buf_check(request, "request", err);
    if (r < 0)
        return r;
    int fd = gt_unix_connect(socket, err);
    if (fd < 0)
        return fd;
    return gt_rpc_call_new(rpc, fd, path, request->data ? request->data : "", request->len, timeout_ms, done,
                           arg, ret, err);
}

int gt_pod_call_list(struct gt_rpc *rpc, const char *socket, unsigned timeout_ms, gt_rpc_done *done,
                     void *arg, struct gt_rpc_call **ret, struct gt_err **err)
{
    const struct gt_buf request = GT_BUF(REQUEST_MAX);
    return call(rpc, socket, PATH_LIST, &request, timeout_ms, done, arg, ret, err);
}

int gt_pod_call_allocatable(struct gt_rpc *rpc, const char *socket, unsigned timeout_ms, gt_rpc_done *done,
                            void *arg, struct gt_rpc_call **ret, struct gt_err **err)
{
    const struct gt_buf request = GT_BUF(REQUEST_MAX);
    return call(rpc, socket, PATH_ALLOCATABLE, &request, timeout_ms, done, arg, ret, err);
}

/* protobuf-c's messages hold char * also where they are only read. */
static char *unconst(const char *text)
{
    union {
        const char *in;
        char *out;
    } same = {text};
    return same.out;
}

int gt_pod_call_get(struct gt_rpc *rpc, const char *socket, const char *namespace, const char *pod,
                    unsigned timeout_ms, gt_rpc_done *done, void *arg, struct gt_rpc_call **ret,
                    struct gt_err **err)
{
    gt_auto_buf struct gt_buf request = GT_BUF(REQUEST_MAX);
    Pr__GetRequest message;
    pr__get_request__init(&message);
    message.namespace_ = unconst(namespace);
    message.pod = unconst(pod);
    gt_pack(&message.base, &request);
    return call(rpc, socket, PATH_GET, &request, timeout_ms, done, arg, ret, err);
}
