/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/answers.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "deviceplugin/answers_pack.h"
#include "proto/deviceplugin.pb-c.h"

enum { LIST_UNPACKED_MAX = 32 << 20 }; /* of another plugin's */

static Dp__Options options(bool prefers)
{
    return (Dp__Options){.base = PROTOBUF_C_MESSAGE_INIT(&dp__options__descriptor),
                         .pre_start_required = 0,
                         .preferred_allocation_available = prefers};
}

void gt_answer_register(const char *endpoint, const char *resource, bool prefers, struct gt_buf *to)
{
    Dp__Options own = options(prefers);
    Dp__RegisterRequest request;
    dp__register_request__init(&request);
    request.version = gt_pack_text("v1beta1");
    request.endpoint = gt_pack_text(endpoint);
    request.resource = gt_pack_text(resource);
    request.options = &own;
    gt_pack(&request.base, to);
}

static enum gt_rpc_status answer_options(bool prefers, struct gt_buf *to)
{
    Dp__Options own = options(prefers);
    gt_pack(&own.base, to);
    return GT_RPC_OK;
}

enum gt_rpc_status gt_handle_options_preferring(void *arg, const uint8_t *request, size_t len,
                                                struct gt_buf *reply, struct gt_err **err)
{
    (void)arg, (void)request, (void)len, (void)err;
    return answer_options(true, reply);
}

enum gt_rpc_status gt_handle_options_plain(void *arg, const uint8_t *request, size_t len,
                                           struct gt_buf *reply, struct gt_err **err)
{
    (void)arg, (void)request, (void)len, (void)err;
    return answer_options(false, reply);
}

enum gt_rpc_status gt_handle_prestart(void *arg, const uint8_t *request, size_t len, struct gt_buf *reply,
                                      struct gt_err **err)
{
    (void)arg, (void)request, (void)len, (void)err;
    Dp__PreStartResponse response = DP__PRE_START_RESPONSE__INIT;
    gt_pack(&response.base, reply);
    return GT_RPC_OK;
}

/* A list with this device alone; several of them, one after the other, make the whole list. */
static void answer_device(const char *id, bool healthy, int numa_node, struct gt_buf *to)
{
    Dp__Device device, *devices[] = {&device};
    Dp__Topology topology;
    Dp__NumaNode numa, *numas[] = {&numa};
    Dp__DeviceList part = DP__DEVICE_LIST__INIT;
    dp__device__init(&device);
    device.id = gt_pack_text(id);
    device.health = gt_pack_text(healthy ? "Healthy" : "Unhealthy");
    if (numa_node >= 0) {
        dp__topology__init(&topology);
        dp__numa_node__init(&numa);
        numa.id = numa_node;
        topology.nodes = numas;
        topology.n_nodes = 1;
        device.topology = &topology;
    }
    part.devices = devices;
    part.n_devices = 1;
    gt_pack(&part.base, to);
}

void gt_answer_list(const struct gt_inventory *inventory, struct gt_buf *to)
{
    for (unsigned i = 0; i < inventory->device_count; i++)
        answer_device(inventory->devices[i].id, inventory->devices[i].healthy,
                      inventory->devices[i].numa_node, to);
}

void gt_answer_list_one(const char *id, bool healthy, struct gt_buf *to)
{
    answer_device(id, healthy, -1, to);
}

static int answers_by_text(const void *a, const void *b)
{
    return strcmp(a, *(const char *const *)b);
}

bool gt_answer_list_shares(const uint8_t *message, size_t len, const char *const *ids, unsigned count,
                           unsigned *ret)
{
    Dp__DeviceList *list = gt_unpack(&dp__device_list__descriptor, message, len, LIST_UNPACKED_MAX);
    if (!list)
        return false;
    unsigned shared = 0;
    for (size_t i = 0; i < list->n_devices; i++)
        shared += bsearch(list->devices[i]->id, ids, count, sizeof(*ids), answers_by_text) != NULL;
    gt_unpacked_free(&list->base);
    *ret = shared;
    return true;
}

/* Answers for one container. */
static void prefer_for(const struct gt_inventory *inventory, const Dp__ContainerPreferredRequest *request,
                       const struct gt_preferred_callbacks *callbacks, bool may_plan, struct gt_buf *to)
{
    const char *ids[GT_DEVICES_MAX];
    char *texts[GT_DEVICES_MAX];
    struct gt_choice choice = {0};
    Dp__ContainerPreferredResponse response = DP__CONTAINER_PREFERRED_RESPONSE__INIT;
    const char *const *available = (const char *const *)request->available;
    size_t most = request->n_available + request->n_must,
           size = request->size > 0 ? (size_t)request->size : 0;
    size = size < most ? size : most;
    size = size < GT_DEVICES_MAX ? size : GT_DEVICES_MAX;
    if (may_plan && size && !request->n_must &&
        callbacks->planned(callbacks->arg, available, (unsigned)request->n_available, (unsigned)size, ids))
        response.n_ids = size;
    else
        response.n_ids = gt_inventory_prefer(inventory, available, (unsigned)request->n_available,
                                             (const char *const *)request->must, (unsigned)request->n_must,
                                             (unsigned)size, ids, &choice);
    for (size_t i = 0; i < response.n_ids; i++)
        texts[i] = gt_pack_text(ids[i]);
    response.ids = texts;
    gt_auto_buf struct gt_buf one = GT_BUF(GT_RPC_MESSAGE_MAX);
    gt_pack(&response.base, &one);
    gt_pack_part(&one, to);
    if (callbacks && callbacks->chosen)
        callbacks->chosen(callbacks->arg, available, (unsigned)request->n_available, ids,
                          (unsigned)response.n_ids, &choice);
}

enum gt_rpc_status gt_answer_preferred(const struct gt_inventory *inventory,
                                       const struct gt_preferred_callbacks *callbacks, const uint8_t *bytes,
                                       size_t len, struct gt_buf *to, struct gt_err **err)
{
    Dp__PreferredRequest *request =
        gt_unpack(&dp__preferred_request__descriptor, bytes, len, GT_REQUEST_UNPACKED_MAX);
    size_t count = request ? request->n_containers : 0;
    if (!request || count > GT_REQUEST_CONTAINERS_MAX) {
        if (request)
            gt_unpacked_free(&request->base);
        gt_fail(err, EINVAL, "this is no PreferredAllocationRequest of at most %d containers",
                GT_REQUEST_CONTAINERS_MAX);
        return GT_RPC_INVALID_ARGUMENT;
    }
    gt_auto_buf struct gt_buf all = GT_BUF(GT_RPC_MESSAGE_MAX);
    bool may_plan = callbacks && callbacks->planned && count == 1;
    for (size_t i = 0; i < count; i++)
        prefer_for(inventory, request->containers[i], callbacks, may_plan, &all);
    if (!all.failed)
        gt_buf_add(to, all.data ? all.data : "", all.len);
    gt_unpacked_free(&request->base);
    return GT_RPC_OK;
}
