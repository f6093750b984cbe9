/* SPDX-License-Identifier: Apache-2.0 */
#include "api/resource_slice.h"

#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/bits.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/text.h"

enum { ATTRIBUTE_MAX = 64, GENERATION = 1, COUNTER_SETS_MAX = 8 };

#define COUNTER_SET "gpus"
#define STANDARD    "resource.kubernetes.io/" /* attributes that drivers share */

static void resource_slice_make_name(const char *node_name, const char *driver,
                                     char to[static GT_SLICE_NAME_SIZE])
{
    if (strlen(node_name) + strlen(driver) + 2 <= GT_SLICE_NAME_SIZE)
        snprintf(to, GT_SLICE_NAME_SIZE, "%s-%s", node_name, driver);
    else
        snprintf(to, GT_SLICE_NAME_SIZE, "%s-%016llx", driver,
                 (unsigned long long)gt_digest_bytes(GT_DIGEST_EMPTY, node_name, strlen(node_name)));
}

void gt_resource_slice_name(const char *node_name, char to[static GT_SLICE_NAME_SIZE])
{
    resource_slice_make_name(node_name, GT_DRA_DRIVER, to);
}

void gt_resource_slice_counters_name(const char *node_name, char to[static GT_SLICE_NAME_SIZE])
{
    resource_slice_make_name(node_name, GT_DRA_DRIVER "-counters", to);
}

/* A text of at most 64 bytes, cut at a character. Left out where it is empty. */
static void add_string(struct gt_buf *to, const char *key, const char *text)
{
    char cut[ATTRIBUTE_MAX + 1];
    gt_text_cut(cut, sizeof(cut), text);
    if (*cut)
        gt_json_printf(to, "%s: {'string': %s}", key, cut);
}

/* The first of a device's GPUs. */
static const struct gt_gpu *resource_slice_first_of(const struct gt_resource_slice *slice,
                                                    const struct gt_slice_device *device)
{
    return &slice->node->gpus[gt_bit_first(device->gpus)];
}

static void resource_slice_write_gpu(const struct gt_gpu *gpu, struct gt_buf *to)
{
    gt_json_printf(to, "'type': {'string': 'gpu'}, 'index': {'int': %u}", gpu->index);
    add_string(to, "uuid", gpu->uuid);
    add_string(to, STANDARD "pciBusID", gpu->bdf);
}

static void write_composite(const struct gt_resource_slice *slice, const struct gt_slice_device *device,
                            struct gt_buf *to)
{
    unsigned links = 0;
    for (unsigned i = 0; i < slice->node->link_count; i++) {
        const struct gt_link *link = &slice->node->links[i];
        links += link->kind == GT_LINK_MX && link->state != GT_LINK_STATE_DOWN &&
                 device->gpus >> link->a & device->gpus >> link->b & 1;
    }
    gt_json_printf(to,
                   "'type': {'string': %s}, 'gpus': {'int': %u}, 'links': {'int': %u}, 'weight': {'int': %u}",
                   gt_composite_word(device->type), gt_bit_count(device->gpus), links, device->weight);
}

/* What all GPUs of a device have alike; a single one is alike. */
static void resource_slice_write_attributes(const struct gt_resource_slice *slice,
                                            const struct gt_slice_device *device, struct gt_buf *to)
{
    const struct gt_gpu *first = resource_slice_first_of(slice, device);
    enum gt_gpu_grade grade = GT_GRADE_NONE; /* the worst */
    bool product = true, zone = first->zone, root = true, numa = first->numa_node >= 0;
    for (uint64_t rest = device->gpus; rest; rest &= rest - 1) {
        const struct gt_gpu *gpu = &slice->node->gpus[gt_bit_first(rest)];
        grade = gpu->grade > grade ? gpu->grade : grade;
        product = product && strcmp(gpu->product, first->product) == 0;
        zone = zone && gpu->zone == first->zone; /* one without direct links matches no other */
        root = root && strcmp(gpu->pci.path.root, first->pci.path.root) == 0;
        numa = numa && gpu->numa_node == first->numa_node;
    }
    gt_json_begin(to, "attributes", '{');
    if (gt_bit_count(device->gpus) == 1)
        resource_slice_write_gpu(first, to);
    else
        write_composite(slice, device, to);
    add_string(to, "product", product ? first->product : "");
    if (zone)
        gt_json_printf(to, "'linkZone': {'int': %u}", first->zone);
    add_string(to, "grade", gt_gpu_grade_name(grade));
    add_string(to, "supernode", slice->supernode);
    add_string(to, "serverUUID", slice->node->server_uuid);
    add_string(to, "driverVersion", slice->node->driver_version);
    add_string(to, STANDARD "pcieRoot", root ? first->pci.path.root : "");
    if (numa)
        gt_json_printf(to, "'" STANDARD "numaNode': {'int': %d}", first->numa_node);
    gt_json_end(to, '}');
}

static void write_memory(uint64_t bytes, struct gt_buf *to)
{
    char quantity[32];
    if (!bytes)
        return;
    if (bytes % (1 << 20))
        snprintf(quantity, sizeof(quantity), "%llu", (unsigned long long)bytes);
    else
        snprintf(quantity, sizeof(quantity), "%lluMi", (unsigned long long)bytes >> 20);
    gt_json_printf(to, "'capacity': {'memory': {'value': %s}}", quantity);
}

static uint64_t resource_slice_memory_of(const struct gt_resource_slice *slice,
                                         const struct gt_slice_device *device)
{
    uint64_t sum = 0;
    for (uint64_t rest = device->gpus; rest; rest &= rest - 1) {
        uint64_t bytes = slice->node->gpus[gt_bit_first(rest)].memory_bytes;
        if (!bytes)
            return 0;
        sum += bytes;
    }
    return sum;
}

/* One counter of 1 for each of these GPUs. */
static void resource_slice_write_counters(uint64_t gpus, struct gt_buf *to)
{
    gt_json_begin(to, "counters", '{');
    for (uint64_t rest = gpus; rest; rest &= rest - 1) {
        char name[16];
        snprintf(name, sizeof(name), "gpu-%u", gt_bit_first(rest));
        gt_json_printf(to, "%s: {'value': '1'}", name);
    }
    gt_json_end(to, '}');
}

static void write_device(const struct gt_resource_slice *slice, const struct gt_slice_device *device,
                         struct gt_buf *to)
{
    gt_json_printf(to, "{'name': %s", device->name);
    resource_slice_write_attributes(slice, device, to);
    write_memory(resource_slice_memory_of(slice, device), to);
    if (slice->has_counters) {
        gt_json_printf(to, "'consumesCounters': [{'counterSet': '" COUNTER_SET "'");
        resource_slice_write_counters(device->gpus, to);
        gt_buf_puts(to, "}]");
    }
    if (device->taint)
        gt_json_printf(to, "'taints': [{'key': '" GT_DRA_TAINT "', 'value': %s, 'effect': %s}]",
                       device->taint, device->keeps_pods ? "NoSchedule" : slice->taint_effect);
    gt_json_end(to, '}');
}

/* All but what the slice offers. */
static void resource_slice_write_head(const char *name, const char *node_name, const char *node_uid,
                                      unsigned slices, struct gt_buf *to)
{
    gt_json_printf(to,
                   "{'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceSlice', 'metadata': {'name': %s,"
                   "'ownerReferences': [{'apiVersion': 'v1', 'kind': 'Node', 'name': %s, 'uid': %s,"
                   "'controller': true}]}, 'spec': {'driver': '" GT_DRA_DRIVER "', 'nodeName': %s,"
                   "'pool': {'name': %s, 'generation': %d, 'resourceSliceCount': %u}",
                   name, node_name, node_uid, node_name, node_name, GENERATION, slices);
}

void gt_resource_slice_write(const struct gt_resource_slice *slice, struct gt_buf *to)
{
    char name[GT_SLICE_NAME_SIZE];
    gt_resource_slice_name(slice->node_name, name);
    resource_slice_write_head(name, slice->node_name, slice->node_uid, slice->has_counters ? 2 : 1, to);
    gt_json_begin(to, "devices", '[');
    for (unsigned i = 0; i < slice->device_count; i++)
        write_device(slice, &slice->devices[i], to);
    gt_json_ends(to, "]}}");
}

/* As many counters as there may be: were they the node's GPUs, both slices would have to change at once. */
void gt_resource_slice_write_counters(const char *node_name, const char *node_uid, struct gt_buf *to)
{
    char name[GT_SLICE_NAME_SIZE];
    gt_resource_slice_counters_name(node_name, name);
    resource_slice_write_head(name, node_name, node_uid, 2, to);
    gt_json_printf(to, "'sharedCounters': [{'name': '" COUNTER_SET "'");
    resource_slice_write_counters((UINT64_C(1) << GT_COMPOSITE_GPUS_MAX) - 1, to);
    gt_buf_puts(to, "}]}}");
}

int gt_resource_slice_read(const cJSON *object, struct gt_resource_slice_head *ret, struct gt_err **err)
{
    struct gt_resource_slice_head head = {.name = "", .driver = "", .node_name = "", .pool = ""};
    const struct gt_at at = {"ResourceSlice", "", err}, of_spec = {"ResourceSlice", "spec", err},
                       of_pool = {"ResourceSlice", "spec.pool", err};
    const cJSON *spec = gt_get(object, "spec"), *devices = NULL, *sets = NULL;
    GT_TRY(gt_api_meta(&at, object, &head.name, NULL));
    GT_TRY(gt_api_text(&of_spec, spec, "driver", GT_API_TEXT_MAX, &head.driver));
    GT_TRY(gt_api_text(&of_spec, spec, "nodeName", GT_API_NAME_MAX, &head.node_name));
    GT_TRY(gt_api_text(&of_pool, gt_get(spec, "pool"), "name", GT_API_TEXT_MAX, &head.pool));
    GT_TRY(gt_get_array(&of_spec, spec, "devices", GT_SLICE_DEVICES_MAX, &devices, &head.device_count));
    GT_TRY(gt_get_array(&of_spec, spec, "sharedCounters", COUNTER_SETS_MAX, &sets, &head.counter_set_count));
    gt_json_is_int(gt_get_at(spec, "pool", "generation"), &head.generation);
    gt_json_is_int(gt_get_at(spec, "pool", "resourceSliceCount"), &head.slices);
    *ret = head;
    return 0;
}

static bool is_tainted(const cJSON *device)
{
    for (const cJSON *taint = gt_first(gt_get(device, "taints")); taint; taint = taint->next) {
        const char *effect = gt_get_string(taint, "effect");
        if (strcmp(effect, "NoSchedule") == 0 || strcmp(effect, "NoExecute") == 0)
            return true;
    }
    return false;
}

unsigned gt_resource_slice_devices(const cJSON *object, const char *names[static GT_SLICE_DEVICES_MAX])
{
    unsigned count = 0;
    for (const cJSON *device = gt_first(gt_get_at(object, "spec", "devices")); device;
         device = device->next) {
        const char *name = gt_get_string(device, "name");
        if (*name && !is_tainted(device) && count < GT_SLICE_DEVICES_MAX)
            names[count++] = name;
    }
    return count;
}
