/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "deviceplugin/answers.h"
#include "deviceplugin/answers_pack.h"
#include "deviceplugin/device_nodes.h"
#include "proto/deviceplugin.pb-c.h"

static enum gt_link_kind nearest_kind(const struct gt_node *node, unsigned gpu)
{
    enum gt_link_kind nearest = GT_LINK_UNKNOWN;
    for (unsigned i = 0; i < node->nic_count; i++)
        if (node->nics[i].kind[gpu] < nearest)
            nearest = node->nics[i].kind[gpu];
    return nearest;
}

/* "GPU-1,GPU-2": UUIDs, or the device ID for a GPU without a known UUID. */
static void write_uuids(const struct gt_node *node, const struct gt_device *const *devices, unsigned count,
                        struct gt_buf *to)
{
    (void)node;
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "%s%s", i ? "," : "", devices[i]->uuid[0] ? devices[i]->uuid : devices[i]->id);
}

/* For each GPU the NICs with the nearest kind of PCIe path: "mlx5_0,mlx5_1;mlx5_2". */
static void write_nics(const struct gt_node *node, const struct gt_device *const *devices, unsigned count,
                       struct gt_buf *to)
{
    bool any = false;
    for (unsigned i = 0; i < count; i++)
        any = any || nearest_kind(node, (unsigned)devices[i]->gpu) != GT_LINK_UNKNOWN;
    for (unsigned i = 0; any && i < count; i++) {
        unsigned gpu = (unsigned)devices[i]->gpu, told = 0;
        enum gt_link_kind nearest = nearest_kind(node, gpu);
        gt_buf_puts(to, i ? ";" : "");
        for (unsigned n = 0; n < node->nic_count && told < GT_NICS_PER_GPU; n++)
            if (nearest != GT_LINK_UNKNOWN && node->nics[n].kind[gpu] == nearest)
                gt_buf_printf(to, "%s%s", told++ ? "," : "", node->nics[n].name);
    }
}

/* The RDMA devices among these, each once, the nearest to a GPU first: "mlx5_0,mlx5_1,mlx5_2". A NIC that is
 * called by its address has no such device. */
static void write_hcas(const struct gt_node *node, const struct gt_device *const *devices, unsigned count,
                       struct gt_buf *to)
{
    enum gt_link_kind best[GT_NICS_MAX];
    unsigned told = 0;
    for (unsigned n = 0; n < node->nic_count; n++) {
        best[n] = GT_LINK_UNKNOWN;
        for (unsigned i = 0; i < count; i++) {
            enum gt_link_kind kind = node->nics[n].kind[devices[i]->gpu];
            if (kind < best[n] && kind == nearest_kind(node, (unsigned)devices[i]->gpu))
                best[n] = kind;
        }
    }
    for (int kind = 0; kind < GT_LINK_UNKNOWN; kind++)
        for (unsigned n = 0; n < node->nic_count; n++)
            if ((int)best[n] == kind && strcmp(node->nics[n].name, node->nics[n].bdf) != 0)
                gt_buf_printf(to, "%s%s", told++ ? "," : "", node->nics[n].name);
}

/* "0,1" */
static void write_numa_nodes(const struct gt_node *node, const struct gt_device *const *devices,
                             unsigned count, struct gt_buf *to)
{
    int last = -1;
    for (unsigned told = 0; told < count; told++) {
        int next = -1;
        for (unsigned i = 0; i < count; i++) {
            int numa = node->gpus[devices[i]->gpu].numa_node;
            next = numa > last && (next < 0 || numa < next) ? numa : next;
        }
        if (next < 0)
            break;
        gt_buf_printf(to, "%s%d", told ? "," : "", next);
        last = next;
    }
}

const struct gt_variable gt_variables[GT_VARIABLES] = {
    {"METAX_GPU_UUIDS", write_uuids},
    {"METAX_GPU_NICS", write_nics},
    {"METAX_GPU_HCAS", write_hcas},
    {"METAX_GPU_NUMA_NODES", write_numa_nodes},
};

/* The GPUs meant, each once. */
static int allocate_find_devices(const struct gt_inventory *inventory,
                                 const Dp__ContainerAllocateRequest *request,
                                 const struct gt_device **devices, unsigned *ret_count, struct gt_err **err)
{
    unsigned count = 0;
    for (size_t i = 0; i < request->n_ids; i++) {
        const struct gt_device *device = gt_inventory_find(inventory, request->ids[i]);
        if (!device)
            return gt_fail(err, ENODEV, "GPU \"%.63s\" is unknown on this node", request->ids[i]);
        if (device->gpu < 0)
            return gt_fail(err, ENODEV, "GPU %s at %s is lost: %s", device->id, device->bdf, device->reason);
        bool twice = false;
        for (unsigned k = 0; k < count; k++)
            twice |= devices[k] == device;
        if (!twice)
            devices[count++] = device;
    }
    *ret_count = count;
    return 0;
}

/*
 * A message consists of its fields one after the other: a container's answer is written as messages of one
 * field each. So it needs no memory beside the buffer.
 */

static void allocate_add_variables(const struct gt_node *node, const struct gt_device *const *devices,
                                   unsigned count, struct gt_buf *to)
{
    for (unsigned i = 0; i < GT_VARIABLES; i++) {
        gt_auto_buf struct gt_buf value = GT_BUF(GT_VARIABLE_MAX);
        Dp__ContainerAllocateResponse__EnvsEntry entry, *entries[] = {&entry};
        Dp__ContainerAllocateResponse part = DP__CONTAINER_ALLOCATE_RESPONSE__INIT;
        gt_variables[i].write(node, devices, count, &value);
        to->failed |= value.failed;
        if (value.failed || !value.len)
            continue;
        dp__container_allocate_response__envs_entry__init(&entry);
        entry.key = gt_pack_text(gt_variables[i].name);
        entry.value = value.data;
        part.envs = entries;
        part.n_envs = 1;
        gt_pack(&part.base, to);
    }
}

static void add_nodes(const char *dev_root, const struct gt_device_nodes *nodes, struct gt_buf *to)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        gt_auto_buf struct gt_buf host = GT_BUF(PATH_MAX), inside = GT_BUF(PATH_MAX);
        Dp__DeviceNode node, *list[] = {&node};
        Dp__ContainerAllocateResponse part = DP__CONTAINER_ALLOCATE_RESPONSE__INIT;
        gt_buf_printf(&host, "%s/%s", dev_root, nodes->names[i]);
        gt_buf_printf(&inside, "/dev/%s", nodes->names[i]);
        dp__device_node__init(&node);
        node.host_path = host.data ? host.data : node.host_path;
        node.container_path = inside.data ? inside.data : node.container_path;
        node.permissions = gt_pack_text("rw");
        part.devices = list;
        part.n_devices = 1;
        gt_pack(&part.base, to);
        to->failed |= host.failed || inside.failed;
    }
}

static void add_cdi_devices(const struct gt_cdi *cdi, const struct gt_device *const *devices, unsigned count,
                            struct gt_buf *to)
{
    for (unsigned i = 0; i < count; i++) {
        gt_auto_buf struct gt_buf name = GT_BUF(4 * GT_ID_SIZE + 512);
        Dp__CdiDevice device, *list[] = {&device};
        Dp__ContainerAllocateResponse part = DP__CONTAINER_ALLOCATE_RESPONSE__INIT;
        gt_cdi_full_name(cdi, devices[i]->id, &name);
        dp__cdi_device__init(&device);
        device.name = name.data ? name.data : device.name;
        part.cdi_devices = list;
        part.n_cdi_devices = 1;
        gt_pack(&part.base, to);
        to->failed |= name.failed;
    }
}

static int claim_all(const struct gt_allocate_options *options, const struct gt_device *const *devices,
                     unsigned count, struct gt_err **err)
{
    for (unsigned i = 0; options->claim && i < count; i++)
        if (!options->claim(options->arg, devices[i]->id))
            return gt_fail(err, ENODEV, "GPU %s at %s is served by another ID now", devices[i]->id,
                           devices[i]->bdf);
    return 0;
}

static int answer_container(const struct gt_inventory *inventory, const struct gt_allocate_options *options,
                            const Dp__ContainerAllocateRequest *request, struct gt_buf *to,
                            struct gt_err **err)
{
    const struct gt_device *devices[GT_GPUS_MAX];
    unsigned count = 0;
    GT_TRY(allocate_find_devices(inventory, request, devices, &count, err));
    GT_TRY(claim_all(options, devices, count, err));
    if (!count)
        return 0;
    struct gt_device_nodes nodes;
    GT_TRY(gt_device_nodes_find(options->dev_root, devices, count, &nodes, err));
    bool by_name = options->strategy != GT_STRATEGY_DEVICES, needs_cdi = options->strategy == GT_STRATEGY_CDI;
    if (by_name && gt_cdi_refresh(options->cdi, inventory, needs_cdi ? err : NULL) < 0) {
        if (needs_cdi)
            return gt_wrap(err, "the CDI spec cannot be written");
        by_name = false;
    }
    allocate_add_variables(inventory->node, devices, count, to);
    if (!needs_cdi)
        add_nodes(options->dev_root, &nodes, to);
    if (by_name)
        add_cdi_devices(options->cdi, devices, count, to);
    return to->failed ? gt_fail_sys(err, ENOMEM, "allocate") : 0;
}

/* NULL: the request is invalid, or has more containers than GT_REQUEST_CONTAINERS_MAX. */
static Dp__AllocateRequest *allocate_read_request(const uint8_t *bytes, size_t len, struct gt_err **err)
{
    Dp__AllocateRequest *request =
        gt_unpack(&dp__allocate_request__descriptor, bytes, len, GT_REQUEST_UNPACKED_MAX);
    if (request && request->n_containers <= GT_REQUEST_CONTAINERS_MAX)
        return request;
    if (request)
        gt_unpacked_free(&request->base);
    gt_fail(err, EINVAL, "this is no AllocateRequest of at most %d containers", GT_REQUEST_CONTAINERS_MAX);
    return NULL;
}

static enum gt_rpc_status allocate_status_of(int code)
{
    switch (-code) {
    case ENODEV:
        return GT_RPC_NOT_FOUND;
    case ENOMEM:
        return GT_RPC_INTERNAL;
    default:
        return GT_RPC_FAILED_PRECONDITION;
    }
}

enum gt_rpc_status gt_answer_allocate(const struct gt_inventory *inventory,
                                      const struct gt_allocate_options *options, const uint8_t *bytes,
                                      size_t len, struct gt_buf *to, struct gt_err **err)
{
    Dp__AllocateRequest *request = allocate_read_request(bytes, len, err);
    if (!request)
        return GT_RPC_INVALID_ARGUMENT;
    gt_auto_err struct gt_err *why = NULL;
    gt_auto_buf struct gt_buf all = GT_BUF(GT_RPC_MESSAGE_MAX);
    size_t answered = 0;
    int r = 0;
    while (r == 0 && answered < request->n_containers) {
        gt_auto_buf struct gt_buf one = GT_BUF(GT_RPC_MESSAGE_MAX);
        r = answer_container(inventory, options, request->containers[answered++], &one, &why);
        gt_pack_part(&one, &all);
    }
    if (r == 0 && all.failed)
        r = gt_fail_sys(&why, ENOMEM, "allocate");
    if (r == 0)
        gt_buf_add(to, all.data ? all.data : "", all.len);
    /* If one container fails, none gets devices: that one's event has the error, the others have no error. */
    for (size_t i = 0; options->allocated && i < request->n_containers; i++)
        if (r == 0 || i + 1 == answered)
            options->allocated(options->arg, (const char *const *)request->containers[i]->ids,
                               (unsigned)request->containers[i]->n_ids, r < 0 ? gt_err_text(why) : NULL);
    gt_unpacked_free(&request->base);
    if (r == 0)
        return GT_RPC_OK;
    if (err)
        *err = gt_steal(why);
    return allocate_status_of(r);
}

static int check_ids(const Dp__AllocateRequest *request, const char *id, struct gt_err **err)
{
    for (size_t i = 0; i < request->n_containers; i++)
        for (size_t k = 0; k < request->containers[i]->n_ids; k++)
            if (strcmp(request->containers[i]->ids[k], id) != 0)
                return gt_fail(err, ENODEV, "device \"%.63s\" is unknown on this node",
                               request->containers[i]->ids[k]);
    return 0;
}

enum gt_rpc_status gt_answer_allocate_all(const struct gt_node *node, const char *dev_root, const char *id,
                                          const uint8_t *bytes, size_t len, unsigned *ret_nodes,
                                          struct gt_buf *to, struct gt_err **err)
{
    Dp__AllocateRequest *request = allocate_read_request(bytes, len, err);
    if (!request)
        return GT_RPC_INVALID_ARGUMENT;
    struct gt_device_nodes nodes;
    gt_auto_buf struct gt_buf one = GT_BUF(GT_RPC_MESSAGE_MAX); /* of every container the same */
    int r = check_ids(request, id, err);
    if (r == 0) {
        gt_device_nodes_all(dev_root, node, &nodes);
        add_nodes(dev_root, &nodes, &one);
        for (size_t i = 0; i < request->n_containers; i++)
            gt_pack_part(&one, to);
        *ret_nodes = nodes.count;
    }
    gt_unpacked_free(&request->base);
    return r == 0 ? GT_RPC_OK : allocate_status_of(r);
}
