/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "base/text.h"
#include "base/time_text.h"
#include "topology/model/node_internal.h"
#include "topology/model/node_json.h"

/*
 * Which keys are always there, null where their value is unknown, and which are left out then: see
 * docs/reference/node-json.md.
 */

/* Adds to an object or, with a NULL key, to an array. Remembers a failure, so that one check is enough. */
struct node_writer {
    bool failed;
};

static cJSON *node_json_write_add(struct node_writer *w, cJSON *to, const char *key, cJSON *value)
{
    if (!value || !to) {
        w->failed = true;
        cJSON_Delete(value);
        return NULL;
    }
    if (!(key ? cJSON_AddItemToObject(to, key, value) : cJSON_AddItemToArray(to, value))) {
        w->failed = true;
        cJSON_Delete(value);
        return NULL;
    }
    return value;
}

static void node_json_write_add_text(struct node_writer *w, cJSON *to, const char *key, const char *text)
{
    if (text[0])
        node_json_write_add(w, to, key, cJSON_CreateString(text));
}

static void add_text_or_null(struct node_writer *w, cJSON *to, const char *key, const char *text)
{
    node_json_write_add(w, to, key, text[0] ? cJSON_CreateString(text) : cJSON_CreateNull());
}

static void node_json_write_add_number(struct node_writer *w, cJSON *to, const char *key, double number)
{
    node_json_write_add(w, to, key, cJSON_CreateNumber(number));
}

static void add_number_if(struct node_writer *w, cJSON *to, const char *key, double number)
{
    if (number > 0)
        node_json_write_add_number(w, to, key, number);
}

static double exact(uint64_t number)
{
    return (double)(number < GT_EXACT_MAX ? number : GT_EXACT_MAX);
}

static void add_numa(struct node_writer *w, cJSON *to, int numa)
{
    node_json_write_add(w, to, "numaNode", numa >= 0 ? cJSON_CreateNumber(numa) : cJSON_CreateNull());
}

static void add_pci_id(struct node_writer *w, cJSON *to, const char *key, unsigned id)
{
    char text[16];
    if (!id)
        return;
    snprintf(text, sizeof(text), "%04x", id & 0xffff);
    node_json_write_add_text(w, to, key, text);
}

static bool path_known(const struct gt_pcie_path *path)
{
    return path->depth || path->root[0];
}

static void node_json_write_add_path(struct node_writer *w, cJSON *to, const struct gt_pcie_path *path)
{
    if (!path_known(path))
        return;
    cJSON *array = node_json_write_add(w, to, "path", cJSON_CreateArray());
    for (unsigned i = 0; i < path->depth && i < GT_PATH_MAX_DEPTH; i++)
        node_json_write_add(w, array, NULL, cJSON_CreateString(path->bridges[i]));
    node_json_write_add_text(w, to, "root", path->root);
}

static void node_json_write_gpu(struct node_writer *w, cJSON *array, const struct gt_gpu *gpu)
{
    cJSON *o = node_json_write_add(w, array, NULL, cJSON_CreateObject());
    node_json_write_add_number(w, o, "index", gpu->index);
    if (gpu->vendor_index >= 0)
        node_json_write_add_number(w, o, "vendorIndex", gpu->vendor_index);
    add_text_or_null(w, o, "uuid", gpu->uuid);
    node_json_write_add_text(w, o, "bdf", gpu->bdf);
    add_text_or_null(w, o, "product", gpu->product);
    node_json_write_add_text(w, o, "serial", gpu->serial);
    add_number_if(w, o, "memoryBytes", exact(gpu->memory_bytes));
    add_numa(w, o, gpu->numa_node);
    node_json_write_add_text(w, o, "cpuSet", gpu->cpu_set);
    add_pci_id(w, o, "pciVendor", gpu->pci_vendor);
    add_pci_id(w, o, "pciDevice", gpu->pci_device);
    if (gpu->pcie_now.speed > 0 || gpu->pcie_now.width || gpu->pcie_max.speed > 0 || gpu->pcie_max.width ||
        path_known(&gpu->path)) {
        cJSON *pcie = node_json_write_add(w, o, "pcie", cJSON_CreateObject());
        add_number_if(w, pcie, "speedGTs", gpu->pcie_now.speed);
        add_number_if(w, pcie, "width", gpu->pcie_now.width);
        add_number_if(w, pcie, "maxSpeedGTs", gpu->pcie_max.speed);
        add_number_if(w, pcie, "maxWidth", gpu->pcie_max.width);
        node_json_write_add_path(w, pcie, &gpu->path);
    }
    if (gpu->drm_card >= 0 || gpu->drm_render >= 0) {
        cJSON *drm = node_json_write_add(w, o, "drm", cJSON_CreateObject());
        if (gpu->drm_card >= 0)
            node_json_write_add_number(w, drm, "card", gpu->drm_card);
        if (gpu->drm_render >= 0)
            node_json_write_add_number(w, drm, "render", gpu->drm_render);
    }
    node_json_write_add_text(w, o, "mode", gt_gpu_mode_name(gpu->mode));
    node_json_write_add_text(w, o, "health", gt_gpu_health_name(gpu->health));
    node_json_write_add(w, o, "healthy",
                        cJSON_CreateBool(gt_gpu_usable(gpu))); /* deprecated: as it was before `health` */
    if (!gt_gpu_usable(gpu))
        node_json_write_add_text(w, o, "unhealthyReason", gpu->unhealthy_reason);
    node_json_write_add_number(w, o, "zone", gpu->zone);
}

static void write_nic(struct node_writer *w, cJSON *array, const struct gt_node *node,
                      const struct gt_nic *nic)
{
    cJSON *o = node_json_write_add(w, array, NULL, cJSON_CreateObject());
    node_json_write_add(w, o, "name", cJSON_CreateString(nic->name));
    add_text_or_null(w, o, "bdf", nic->bdf);
    add_numa(w, o, nic->numa_node);
    node_json_write_add_path(w, o, &nic->path);
    cJSON *locality = node_json_write_add(w, o, "locality", cJSON_CreateArray());
    for (unsigned i = 0; i < node->gpu_count; i++)
        node_json_write_add(w, locality, NULL, cJSON_CreateString(gt_link_kind_name(nic->kind[i])));
}

static void write_link(struct node_writer *w, cJSON *array, const struct gt_link *link)
{
    cJSON *o = node_json_write_add(w, array, NULL, cJSON_CreateObject());
    node_json_write_add_number(w, o, "a", link->a);
    node_json_write_add_number(w, o, "b", link->b);
    node_json_write_add_text(w, o, "kind", gt_link_kind_name(link->kind));
    if (link->path_kind != link->kind && link->path_kind != GT_LINK_UNKNOWN)
        node_json_write_add_text(w, o, "pathKind", gt_link_kind_name(link->path_kind));
    add_number_if(w, o, "ports", link->ports);
    add_number_if(w, o, "width", link->width);
    add_number_if(w, o, "speedGTs", link->speed);
    add_number_if(w, o, "bandwidthMBps", exact(link->bandwidth_mbps));
    if (link->state != GT_LINK_STATE_UNKNOWN)
        node_json_write_add_text(w, o, "state", gt_link_state_name(link->state));
    if (link->stale)
        node_json_write_add(w, o, "stale", cJSON_CreateTrue());
    node_json_write_add_number(w, o, "weight", link->weight);
}

static void write_kubelet(struct node_writer *w, cJSON *root, const struct gt_node *node)
{
    const struct gt_kubelet *kubelet = &node->kubelet;
    if (kubelet->policy[0] || kubelet->unknown[0]) {
        cJSON *o = node_json_write_add(w, root, "kubelet", cJSON_CreateObject());
        node_json_write_add_text(w, o, "topologyManagerPolicy", kubelet->policy);
        node_json_write_add_text(w, o, "topologyManagerScope", kubelet->scope);
        node_json_write_add_text(w, o, "cpuManagerPolicy", kubelet->cpu_policy);
        node_json_write_add_text(w, o, "source", kubelet->source);
        node_json_write_add_text(w, o, "unknown", kubelet->unknown);
    }
    cJSON *array =
        node->numa_node_count ? node_json_write_add(w, root, "numaNodes", cJSON_CreateArray()) : NULL;
    for (unsigned i = 0; i < node->numa_node_count; i++) {
        cJSON *o = node_json_write_add(w, array, NULL, cJSON_CreateObject());
        node_json_write_add_number(w, o, "id", node->numa_nodes[i].id);
        node_json_write_add_text(w, o, "cpus", node->numa_nodes[i].cpus);
        add_number_if(w, o, "memoryBytes", exact(node->numa_nodes[i].memory_bytes));
    }
}

struct cJSON *gt_node_to_json(const struct gt_node *node)
{
    struct node_writer writer = {0}, *w = &writer;
    cJSON *root = cJSON_CreateObject();
    if (!root)
        return NULL;
    node_json_write_add_text(w, root, "name", node->name);
    node_json_write_add_text(w, root, "driverVersion", node->driver_version);
    node_json_write_add_text(w, root, "libraryVersion", node->library_version);
    cJSON *gpus = node_json_write_add(w, root, "gpus", cJSON_CreateArray());
    for (unsigned i = 0; i < node->gpu_count; i++)
        node_json_write_gpu(w, gpus, &node->gpus[i]);
    cJSON *nics = node_json_write_add(w, root, "nics", cJSON_CreateArray());
    for (unsigned i = 0; i < node->nic_count; i++)
        write_nic(w, nics, node, &node->nics[i]);
    cJSON *links = node_json_write_add(w, root, "links", cJSON_CreateArray());
    for (unsigned i = 0; i < node->link_count; i++)
        write_link(w, links, &node->links[i]);
    if (node->links_reported_s) {
        char time[GT_TIME_TEXT_SIZE];
        gt_time_text(node->links_reported_s, time);
        node_json_write_add_text(w, root, "linksReportedAt", time);
    }
    cJSON *supernode = node_json_write_add(w, root, "supernode", cJSON_CreateObject());
    add_text_or_null(w, supernode, "uuid", node->server_uuid);
    cJSON *remotes = node_json_write_add(w, supernode, "remote", cJSON_CreateArray());
    for (unsigned i = 0; i < node->remote_count; i++)
        node_json_write_add(w, remotes, NULL, cJSON_CreateString(node->remotes[i]));
    cJSON *missing = node_json_write_add(w, root, "missing", cJSON_CreateArray());
    for (unsigned i = 0; i < node->missing_count; i++) {
        cJSON *o = node_json_write_add(w, missing, NULL, cJSON_CreateObject());
        node_json_write_add(w, o, "what", cJSON_CreateString(node->missing[i].what));
        node_json_write_add(w, o, "why", cJSON_CreateString(node->missing[i].why));
    }
    write_kubelet(w, root, node);
    if (writer.failed) {
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}
