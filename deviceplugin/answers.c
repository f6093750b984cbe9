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

int gt_answer_text(const char *what, const char *text, char **ret, struct gt_err **err)
{
    if (!gt_text_is_utf8(text))
        return gt_fail(err, EINVAL, "device plugin: the %s is not UTF-8", what);
    *ret = strdup(text);
    return *ret ? 0 : gt_fail_sys(err, ENOMEM, "device plugin");
}

void gt_answer_list(const struct gt_inventory *inventory, struct gt_buf *to)
{
    struct {
        Dp__Device device;
        Dp__Topology topology;
        Dp__NumaNode numa, *numas;
    } all[GT_DEVICES_MAX];
    Dp__Device *devices[GT_DEVICES_MAX];
    Dp__DeviceList list = DP__DEVICE_LIST__INIT;
    for (unsigned i = 0; i < inventory->device_count; i++) {
        const struct gt_device *from = &inventory->devices[i];
        dp__device__init(&all[i].device);
        all[i].device.id = gt_pack_text(from->id);
        all[i].device.health = gt_pack_text(from->healthy ? "Healthy" : "Unhealthy");
        if (from->numa_node >= 0) {
            dp__topology__init(&all[i].topology);
            dp__numa_node__init(&all[i].numa);
            all[i].numa.id = from->numa_node;
            all[i].numas = &all[i].numa;
            all[i].topology.nodes = &all[i].numas;
            all[i].topology.n_nodes = 1;
            all[i].device.topology = &all[i].topology;
        }
        devices[i] = &all[i].device;
    }
    list.devices = devices;
    list.n_devices = inventory->device_count;
    gt_pack(&list.base, to);
}

void gt_answer_list_one(const char *id, bool healthy, struct gt_buf *to)
{
    Dp__Device device, *devices[] = {&device};
    Dp__DeviceList list = DP__DEVICE_LIST__INIT;
    dp__device__init(&device);
    device.id = gt_pack_text(id);
    device.health = gt_pack_text(healthy ? "Healthy" : "Unhealthy");
    list.devices = devices;
    list.n_devices = 1;
    gt_pack(&list.base, to);
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

/* Fills one container's response; false without memory. `planner` NULL: there are no plans. */
static bool prefer_for(const struct gt_inventory *inventory, const Dp__ContainerPreferredRequest *request,
                       const struct gt_preferred_callbacks *planner, void *arg,
                       Dp__ContainerPreferredResponse *response, struct gt_choice *ret_choice)
{
    const char *ids[GT_DEVICES_MAX];
    size_t most = request->n_available + request->n_must,
           size = request->size > 0 ? (size_t)request->size : 0;
    if (size > most)
        size = most;
    if (size > GT_DEVICES_MAX)
        size = GT_DEVICES_MAX;
    response->ids = calloc(size + 1, sizeof(*response->ids));
    if (!response->ids)
        return false;
    const char *const *available = (const char *const *)request->available;
    if (planner && size && !request->n_must &&
        planner->planned(arg, available, (unsigned)request->n_available, (unsigned)size, ids))
        response->n_ids = size;
    else
        response->n_ids = gt_inventory_prefer(inventory, available, (unsigned)request->n_available,
                                              (const char *const *)request->must, (unsigned)request->n_must,
                                              (unsigned)size, ids, ret_choice);
    for (size_t i = 0; i < response->n_ids; i++)
        response->ids[i] = gt_pack_text(ids[i]);
    return true;
}

enum gt_rpc_status gt_answer_preferred(const struct gt_inventory *inventory, const uint8_t *bytes, size_t len,
                                       const struct gt_preferred_callbacks *callbacks, void *arg,
                                       struct gt_buf *to, struct gt_err **err)
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
    gt_auto_free Dp__ContainerPreferredResponse *all = calloc(count + 1, sizeof(*all));
    gt_auto_free Dp__ContainerPreferredResponse **pointers =
        calloc(count + 1, sizeof(Dp__ContainerPreferredResponse *));
    Dp__PreferredResponse response = DP__PREFERRED_RESPONSE__INIT;
    bool has_planner = callbacks && callbacks->planned && count == 1;
    for (size_t i = 0; all && pointers && i < count; i++) {
        struct gt_choice choice = {0};
        dp__container_preferred_response__init(&all[i]);
        if (!prefer_for(inventory, request->containers[i], has_planner ? callbacks : NULL, arg, &all[i],
                        &choice))
            break;
        pointers[response.n_containers++] = &all[i];
        if (callbacks && callbacks->chosen)
            callbacks->chosen(arg, (const char *const *)request->containers[i]->available,
                              (unsigned)request->containers[i]->n_available, (const char *const *)all[i].ids,
                              (unsigned)all[i].n_ids, &choice);
    }
    if (response.n_containers < count)
        response.n_containers = 0;
    response.containers = pointers;
    gt_pack(&response.base, to);
    for (size_t i = 0; all && i < count; i++)
        free(all[i].ids);
    gt_unpacked_free(&request->base);
    return GT_RPC_OK;
}
