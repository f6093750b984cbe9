/* SPDX-License-Identifier: Apache-2.0 */
#include "api/resource_slice.h"

#include <string.h>

#include "api/names.h"
#include "api/read.h"
#include "base/digest.h"
#include "base/json_write.h"
#include "base/text.h"

enum { ATTRIBUTE_MAX = 64, GENERATION = 1, SLICES = 1 };

static const char standard[] = "resource.kubernetes.io/"; /* attributes that drivers share */

void gt_resource_slice_name(const char *node_name, char to[static GT_SLICE_NAME_SIZE])
{
    if (strlen(node_name) + strlen(GT_DRA_DRIVER) + 2 <= GT_SLICE_NAME_SIZE)
        snprintf(to, GT_SLICE_NAME_SIZE, "%s-%s", node_name, GT_DRA_DRIVER);
    else
        snprintf(to, GT_SLICE_NAME_SIZE, "%s-%016llx", GT_DRA_DRIVER,
                 (unsigned long long)gt_digest_bytes(GT_DIGEST_EMPTY, node_name, strlen(node_name)));
}

/* A text of at most 64 bytes, cut at a character. Left out where it is empty. */
static void add_string(struct gt_buf *to, const char *domain, const char *name, const char *text)
{
    char cut[ATTRIBUTE_MAX + 1], key[ATTRIBUTE_MAX];
    size_t len = 0;
    for (unsigned n; text[len] && (n = gt_text_utf8_length(text + len)) && len + n <= ATTRIBUTE_MAX; len += n)
        ;
    if (!len)
        return;
    memcpy(cut, text, len);
    cut[len] = '\0';
    snprintf(key, sizeof(key), "%s%s", domain, name);
    gt_json_begin(to, key, '{');
    gt_json_add_text(to, "string", cut);
    gt_json_end(to, '}');
}

static void add_int(struct gt_buf *to, const char *domain, const char *name, int64_t number)
{
    char key[ATTRIBUTE_MAX];
    snprintf(key, sizeof(key), "%s%s", domain, name);
    gt_json_begin(to, key, '{');
    gt_json_add_int(to, "int", number);
    gt_json_end(to, '}');
}

static void write_attributes(const struct gt_resource_slice *slice, const struct gt_gpu *gpu,
                             struct gt_buf *to)
{
    gt_json_begin(to, "attributes", '{');
    add_string(to, "", "type", "gpu");
    add_int(to, "", "index", gpu->index);
    add_string(to, "", "uuid", gpu->uuid);
    add_string(to, "", "product", gpu->product);
    if (gpu->zone) /* one without direct links matches no other */
        add_int(to, "", "linkZone", gpu->zone);
    add_string(to, "", "supernode", slice->supernode);
    add_string(to, "", "serverUUID", slice->node->server_uuid);
    add_string(to, "", "driverVersion", slice->node->driver_version);
    add_string(to, standard, "pciBusID", gpu->bdf);
    add_string(to, standard, "pcieRoot", gpu->path.root);
    if (gpu->numa_node >= 0)
        add_int(to, standard, "numaNode", gpu->numa_node);
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
    gt_json_begin(to, "capacity", '{');
    gt_json_begin(to, "memory", '{');
    gt_json_add_text(to, "value", quantity);
    gt_buf_puts(to, "}}");
}

static void write_device(const struct gt_resource_slice *slice, const struct gt_slice_device *device,
                         struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "name", device->name);
    write_attributes(slice, device->gpu, to);
    write_memory(device->gpu->memory_bytes, to);
    if (device->taint) {
        gt_json_begin(to, "taints", '[');
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "key", GT_DRA_TAINT);
        gt_json_add_text(to, "value", device->taint);
        gt_json_add_text(to, "effect", slice->taint_effect);
        gt_buf_puts(to, "}]");
    }
    gt_json_end(to, '}');
}

void gt_resource_slice_write(const struct gt_resource_slice *slice, struct gt_buf *to)
{
    char name[GT_SLICE_NAME_SIZE];
    gt_resource_slice_name(slice->node_name, name);
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "resource.k8s.io/v1");
    gt_json_add_text(to, "kind", "ResourceSlice");
    gt_json_begin(to, "metadata", '{');
    gt_json_add_text(to, "name", name);
    gt_json_begin(to, "ownerReferences", '[');
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "v1");
    gt_json_add_text(to, "kind", "Node");
    gt_json_add_text(to, "name", slice->node_name);
    gt_json_add_text(to, "uid", slice->node_uid);
    gt_json_add_bool(to, "controller", true);
    gt_json_end(to, '}');
    gt_json_end(to, ']');
    gt_json_end(to, '}');
    gt_json_begin(to, "spec", '{');
    gt_json_add_text(to, "driver", GT_DRA_DRIVER);
    gt_json_add_text(to, "nodeName", slice->node_name);
    gt_json_begin(to, "pool", '{');
    gt_json_add_text(to, "name", slice->node_name);
    gt_json_add_int(to, "generation", GENERATION);
    gt_json_add_int(to, "resourceSliceCount", SLICES);
    gt_json_end(to, '}');
    gt_json_begin(to, "devices", '[');
    for (unsigned i = 0; i < slice->device_count; i++)
        write_device(slice, &slice->devices[i], to);
    gt_json_end(to, ']');
    gt_json_end(to, '}');
    gt_json_end(to, '}');
}

int gt_resource_slice_read(const cJSON *object, struct gt_resource_slice_head *ret, struct gt_err **err)
{
    struct gt_resource_slice_head head = {"", "", "", "", 0};
    const struct gt_at at = {"ResourceSlice", "", err}, of_spec = {"ResourceSlice", "spec", err},
                       of_pool = {"ResourceSlice", "spec.pool", err};
    const cJSON *spec = gt_get(object, "spec"), *devices = NULL;
    const char *version;
    int r = gt_api_meta(&at, object, &head.name, &version);
    if (r >= 0)
        r = gt_api_text(&of_spec, spec, "driver", GT_API_TEXT_MAX, &head.driver);
    if (r >= 0)
        r = gt_api_text(&of_spec, spec, "nodeName", GT_API_NAME_MAX, &head.node_name);
    if (r >= 0)
        r = gt_api_text(&of_pool, gt_get(spec, "pool"), "name", GT_API_TEXT_MAX, &head.pool);
    if (r >= 0)
        r = gt_get_array(&of_spec, spec, "devices", GT_SLICE_DEVICES_MAX, &devices, &head.device_count);
    if (r < 0)
        return r;
    *ret = head;
    return 0;
}
