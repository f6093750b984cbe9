/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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

/* One container's response, all of it allocated: dp__container_allocate_response__free_unpacked() frees it.
 */

static char *allocate_copy(const char *text, struct gt_err **err)
{
    char *made = strdup(text);
    if (!made)
        gt_fail_sys(err, ENOMEM, "allocate");
    return made;
}

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

static int allocate_add_variable(const char *name, const struct gt_buf *value,
                                 Dp__ContainerAllocateResponse *response, struct gt_err **err)
{
    GT_TRY(gt_buf_check(value, name, err));
    Dp__ContainerAllocateResponse__EnvsEntry *entry = calloc(1, sizeof(*entry));
    if (!response->envs)
        response->envs = calloc(GT_VARIABLES, sizeof(*response->envs));
    if (!entry || !response->envs) {
        free(entry);
        return gt_fail_sys(err, ENOMEM, "allocate");
    }
    dp__container_allocate_response__envs_entry__init(entry);
    response->envs[response->n_envs++] = entry;
    entry->key = allocate_copy(name, err);
    entry->value = entry->key ? allocate_copy(value->data ? value->data : "", err) : NULL;
    return entry->value ? 0 : -ENOMEM;
}

static int allocate_add_variables(const struct gt_node *node, const struct gt_device *const *devices,
                                  unsigned count, Dp__ContainerAllocateResponse *response,
                                  struct gt_err **err)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < GT_VARIABLES; i++) {
        gt_auto_buf struct gt_buf value = GT_BUF(GT_VARIABLE_MAX);
        gt_variables[i].write(node, devices, count, &value);
        if (value.len > 0 || value.failed)
            r = allocate_add_variable(gt_variables[i].name, &value, response, err);
    }
    return r;
}

static Dp__DeviceNode *make_node(const char *dev_root, const char *name)
{
    Dp__DeviceNode *node = malloc(sizeof(*node));
    if (!node)
        return NULL;
    dp__device_node__init(node);
    char *host = NULL, *inside = NULL, *permissions = strdup("rw");
    if (!permissions || asprintf(&host, "%s/%s", dev_root, name) < 0 ||
        asprintf(&inside, "/dev/%s", name) < 0) {
        free(permissions);
        free(host);
        free(node);
        return NULL;
    }
    node->host_path = host;
    node->container_path = inside;
    node->permissions = permissions;
    return node;
}

static int allocate_add_nodes(const char *dev_root, const struct gt_device_nodes *nodes,
                              Dp__ContainerAllocateResponse *response, struct gt_err **err)
{
    response->devices = calloc(nodes->count + 1, sizeof(*response->devices));
    for (unsigned i = 0; response->devices && i < nodes->count; i++) {
        response->devices[i] = make_node(dev_root, nodes->names[i]);
        if (!response->devices[i])
            break;
        response->n_devices++;
    }
    return response->devices && response->n_devices == nodes->count ? 0
                                                                    : gt_fail_sys(err, ENOMEM, "allocate");
}

static int add_cdi_devices(const struct gt_cdi *cdi, const struct gt_device *const *devices, unsigned count,
                           Dp__ContainerAllocateResponse *response, struct gt_err **err)
{
    response->cdi_devices = calloc(count, sizeof(*response->cdi_devices));
    for (unsigned i = 0; response->cdi_devices && i < count; i++) {
        Dp__CdiDevice *device = malloc(sizeof(*device));
        GT_NEED(device, err, "allocate");
        dp__cdi_device__init(device);
        response->cdi_devices[response->n_cdi_devices++] = device;
        gt_auto_buf struct gt_buf name = GT_BUF(4 * GT_ID_SIZE + 512);
        gt_cdi_full_name(cdi, devices[i]->id, &name);
        device->name = gt_buf_take(&name);
        GT_NEED(device->name, err, "allocate");
    }
    return response->cdi_devices ? 0 : gt_fail_sys(err, ENOMEM, "allocate");
}

static int claim_all(const struct gt_allocate_options *options, const struct gt_device *const *devices,
                     unsigned count, void *arg, struct gt_err **err)
{
    for (unsigned i = 0; options->claim && i < count; i++)
        if (!options->claim(arg, devices[i]->id))
            return gt_fail(err, ENODEV, "GPU %s at %s is served by another ID now", devices[i]->id,
                           devices[i]->bdf);
    return 0;
}

static int answer_container(const struct gt_inventory *inventory, const struct gt_allocate_options *options,
                            const Dp__ContainerAllocateRequest *request, void *arg,
                            Dp__ContainerAllocateResponse *response, struct gt_err **err)
{
    const struct gt_device *devices[GT_GPUS_MAX];
    unsigned count = 0;
    int r = allocate_find_devices(inventory, request, devices, &count, err);
    if (r == 0)
        r = claim_all(options, devices, count, arg, err);
    if (r < 0 || count == 0)
        return r;
    struct gt_device_nodes nodes;
    r = gt_device_nodes_find(options->dev_root, devices, count, &nodes, err);
    if (r == 0 && options->strategy != GT_STRATEGY_CDI)
        r = allocate_add_nodes(options->dev_root, &nodes, response, err);
    if (r == 0 && options->strategy != GT_STRATEGY_DEVICES) {
        bool is_needed = options->strategy == GT_STRATEGY_CDI;
        int in_place = gt_cdi_refresh(options->cdi, inventory, is_needed ? err : NULL);
        if (in_place == 0)
            r = add_cdi_devices(options->cdi, devices, count, response, err);
        else if (is_needed)
            r = gt_wrap(err, "the CDI spec cannot be written");
    }
    return r == 0 ? allocate_add_variables(inventory->node, devices, count, response, err) : r;
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

/* Adds the answers to `request` to `response`, up to the first that fails. */
static int answer_all(const struct gt_inventory *inventory, const struct gt_allocate_options *options,
                      const Dp__AllocateRequest *request, void *arg, Dp__AllocateResponse *response,
                      struct gt_err **err)
{
    response->containers = calloc(request->n_containers + 1, sizeof(*response->containers));
    GT_NEED(response->containers, err, "allocate");
    for (size_t i = 0; i < request->n_containers; i++) {
        Dp__ContainerAllocateResponse *one = malloc(sizeof(*one));
        GT_NEED(one, err, "allocate");
        dp__container_allocate_response__init(one);
        response->containers[response->n_containers++] = one;
        GT_TRY(answer_container(inventory, options, request->containers[i], arg, one, err));
    }
    return 0;
}

enum gt_rpc_status gt_answer_allocate(const struct gt_inventory *inventory,
                                      const struct gt_allocate_options *options, const uint8_t *bytes,
                                      size_t len, gt_answer_allocated_callback *allocated, void *arg,
                                      struct gt_buf *to, struct gt_err **err)
{
    Dp__AllocateRequest *request = allocate_read_request(bytes, len, err);
    if (!request)
        return GT_RPC_INVALID_ARGUMENT;
    gt_auto_err struct gt_err *why = NULL;
    Dp__AllocateResponse *response = malloc(sizeof(*response));
    int r;
    if (response) {
        dp__allocate_response__init(response);
        r = answer_all(inventory, options, request, arg, response, &why);
    } else
        r = gt_fail_sys(&why, ENOMEM, "allocate");
    if (r == 0)
        gt_pack(&response->base, to);
    /* If one container fails, none gets devices: that one's event has the error, the others have no error. */
    for (size_t i = 0; allocated && i < request->n_containers; i++)
        if (r == 0 || !response || i + 1 == response->n_containers)
            allocated(arg, (const char *const *)request->containers[i]->ids,
                      (unsigned)request->containers[i]->n_ids, r < 0 ? gt_err_text(why) : NULL);
    if (response)
        gt_unpacked_free(&response->base);
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
    Dp__AllocateResponse response = DP__ALLOCATE_RESPONSE__INIT;
    Dp__ContainerAllocateResponse *one = malloc(sizeof(*one)); /* of every container the same */
    response.containers = calloc(request->n_containers + 1, sizeof(Dp__ContainerAllocateResponse *));
    int r = one && response.containers ? check_ids(request, id, err) : gt_fail_sys(err, ENOMEM, "allocate");
    if (one)
        dp__container_allocate_response__init(one);
    if (r == 0) {
        gt_device_nodes_all(dev_root, node, &nodes);
        r = allocate_add_nodes(dev_root, &nodes, one, err);
    }
    if (r == 0) {
        while (response.n_containers < request->n_containers)
            response.containers[response.n_containers++] = one;
        gt_pack(&response.base, to);
        *ret_nodes = nodes.count;
    }
    free(response.containers);
    if (one)
        gt_unpacked_free(&one->base);
    gt_unpacked_free(&request->base);
    return r == 0 ? GT_RPC_OK : allocate_status_of(r);
}
