/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/json_write.h"
#include "base/time_text.h"
#include "topology/model/node_internal.h"
#include "topology/model/node_json.h"

/*
 * Which keys are always there, null where their value is unknown, and which are left out then: see
 * docs/reference/node-json.md.
 */

enum { REAL_DIGITS = 15 };

static void add_text_or_unknown(struct gt_buf *to, const char *key, const char *text)
{
    gt_json_add_text_or_null(to, key, text[0] ? text : NULL);
}

static void add_number_if(struct gt_buf *to, const char *key, uint64_t number)
{
    if (number)
        gt_json_add_unsigned(to, key, number < GT_EXACT_MAX ? number : GT_EXACT_MAX);
}

static void add_real_if(struct gt_buf *to, const char *key, double number)
{
    if (number > 0)
        gt_json_add_real(to, key, number, REAL_DIGITS);
}

static void add_index_if(struct gt_buf *to, const char *key, int index)
{
    if (index >= 0)
        gt_json_add_int(to, key, index);
}

static void add_numa(struct gt_buf *to, int numa)
{
    if (numa >= 0)
        gt_json_add_int(to, "numaNode", numa);
    else
        gt_json_add_null(to, "numaNode");
}

static void add_pci_id(struct gt_buf *to, const char *key, unsigned id)
{
    char text[16];
    snprintf(text, sizeof(text), "%04x", id & 0xffff);
    gt_json_add_text_if(to, key, id ? text : NULL);
}

static bool path_known(const struct gt_pcie_path *path)
{
    return path->depth || path->root[0];
}

static void node_json_write_path(struct gt_buf *to, const struct gt_pcie_path *path)
{
    if (!path_known(path))
        return;
    gt_json_begin(to, "path", '[');
    for (unsigned i = 0; i < path->depth && i < GT_PATH_MAX_DEPTH; i++)
        gt_json_add_text(to, NULL, path->bridges[i]);
    gt_json_end(to, ']');
    gt_json_add_text_if(to, "root", path->root);
}

static void node_json_write_gpu(struct gt_buf *to, const struct gt_gpu *gpu)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_unsigned(to, "index", gpu->index);
    add_index_if(to, "vendorIndex", gpu->vendor_index);
    add_text_or_unknown(to, "uuid", gpu->uuid);
    gt_json_add_text_if(to, "bdf", gpu->bdf);
    add_text_or_unknown(to, "product", gpu->product);
    gt_json_add_text_if(to, "serial", gpu->serial);
    add_number_if(to, "memoryBytes", gpu->memory_bytes);
    add_numa(to, gpu->numa_node);
    gt_json_add_text_if(to, "cpuSet", gpu->cpu_set);
    add_pci_id(to, "pciVendor", gpu->pci.vendor);
    add_pci_id(to, "pciDevice", gpu->pci.device);
    if (gpu->pci.now.speed > 0 || gpu->pci.now.width || gpu->pci.max.speed > 0 || gpu->pci.max.width ||
        path_known(&gpu->pci.path)) {
        gt_json_begin(to, "pcie", '{');
        add_real_if(to, "speedGTs", gpu->pci.now.speed);
        add_number_if(to, "width", gpu->pci.now.width);
        add_real_if(to, "maxSpeedGTs", gpu->pci.max.speed);
        add_number_if(to, "maxWidth", gpu->pci.max.width);
        node_json_write_path(to, &gpu->pci.path);
        gt_json_end(to, '}');
    }
    if (gpu->drm_card >= 0 || gpu->drm_render >= 0) {
        gt_json_begin(to, "drm", '{');
        add_index_if(to, "card", gpu->drm_card);
        add_index_if(to, "render", gpu->drm_render);
        gt_json_end(to, '}');
    }
    gt_json_add_text_if(to, "mode", gt_gpu_mode_name(gpu->mode));
    gt_json_add_text_if(to, "health", gt_gpu_health_name(gpu->health));
    gt_json_add_bool(to, "healthy", gt_gpu_usable(gpu)); /* deprecated: as it was before `health` */
    gt_json_add_text_if(to, "unhealthyReason", gt_gpu_usable(gpu) ? NULL : gpu->unhealthy_reason);
    gt_json_add_text_if(to, "grade", gt_gpu_usable(gpu) ? gt_gpu_grade_name(gpu->grade) : NULL);
    gt_json_add_text_if(to, "gradeReason", gt_gpu_usable(gpu) && gpu->grade ? gpu->grade_reason : NULL);
    gt_json_add_unsigned(to, "zone", gpu->zone);
    gt_json_end(to, '}');
}

static void write_nic(struct gt_buf *to, const struct gt_node *node, const struct gt_nic *nic)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "name", nic->name);
    add_text_or_unknown(to, "bdf", nic->bdf);
    add_numa(to, nic->numa_node);
    node_json_write_path(to, &nic->path);
    gt_json_begin(to, "locality", '[');
    for (unsigned i = 0; i < node->gpu_count; i++)
        gt_json_add_text(to, NULL, gt_link_kind_name(nic->kind[i]));
    gt_json_ends(to, "]}");
}

/* The ports whose switch is known. */
static void write_network(struct gt_buf *to, const struct gt_node *node)
{
    bool begun = false;
    for (unsigned i = 0; i < node->nic_count; i++) {
        const struct gt_nic *nic = &node->nics[i];
        if (!nic->peer[0])
            continue;
        if (!begun)
            gt_json_begin(to, "network", '[');
        begun = true;
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "port", nic->name);
        gt_json_add_text(to, "switch", nic->peer);
        gt_json_add_text_if(to, "switchPort", nic->peer_port);
        gt_json_end(to, '}');
    }
    if (begun)
        gt_json_end(to, ']');
}

static void write_link(struct gt_buf *to, const struct gt_link *link)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_unsigned(to, "a", link->a);
    gt_json_add_unsigned(to, "b", link->b);
    gt_json_add_text_if(to, "kind", gt_link_kind_name(link->kind));
    if (link->path_kind != link->kind && link->path_kind != GT_LINK_UNKNOWN)
        gt_json_add_text_if(to, "pathKind", gt_link_kind_name(link->path_kind));
    add_number_if(to, "ports", link->ports);
    add_number_if(to, "width", link->width);
    add_real_if(to, "speedGTs", link->speed);
    add_number_if(to, "bandwidthMBps", link->bandwidth_mbps);
    add_number_if(to, "measuredMBps", link->measured_mbps);
    if (link->state != GT_LINK_STATE_UNKNOWN)
        gt_json_add_text_if(to, "state", gt_link_state_name(link->state));
    if (link->stale)
        gt_json_add_bool(to, "stale", true);
    gt_json_add_unsigned(to, "weight", link->weight);
    gt_json_end(to, '}');
}

static void write_kubelet(struct gt_buf *to, const struct gt_node *node)
{
    const struct gt_kubelet *kubelet = &node->kubelet;
    if (kubelet->policy[0] || kubelet->unknown[0]) {
        gt_json_begin(to, "kubelet", '{');
        gt_json_add_text_if(to, "topologyManagerPolicy", kubelet->policy);
        gt_json_add_text_if(to, "topologyManagerScope", kubelet->scope);
        gt_json_add_text_if(to, "cpuManagerPolicy", kubelet->cpu_policy);
        gt_json_add_text_if(to, "source", kubelet->source);
        gt_json_add_text_if(to, "unknown", kubelet->unknown);
        gt_json_end(to, '}');
    }
    if (!node->numa_node_count)
        return;
    gt_json_begin(to, "numaNodes", '[');
    for (unsigned i = 0; i < node->numa_node_count; i++) {
        gt_json_begin(to, NULL, '{');
        gt_json_add_unsigned(to, "id", node->numa_nodes[i].id);
        gt_json_add_text_if(to, "cpus", node->numa_nodes[i].cpus);
        add_number_if(to, "memoryBytes", node->numa_nodes[i].memory_bytes);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

void gt_node_add_json(const struct gt_node *node, const char *name, struct gt_buf *to)
{
    char time[GT_TIME_TEXT_SIZE] = "";
    gt_json_add_text_if(to, "name", name);
    gt_json_add_text_if(to, "driverVersion", node->driver_version);
    gt_json_add_text_if(to, "libraryVersion", node->library_version);
    gt_json_begin(to, "gpus", '[');
    for (unsigned i = 0; i < node->gpu_count; i++)
        node_json_write_gpu(to, &node->gpus[i]);
    gt_json_end(to, ']');
    gt_json_begin(to, "nics", '[');
    for (unsigned i = 0; i < node->nic_count; i++)
        write_nic(to, node, &node->nics[i]);
    gt_json_end(to, ']');
    write_network(to, node);
    gt_json_begin(to, "links", '[');
    for (unsigned i = 0; i < node->link_count; i++)
        write_link(to, &node->links[i]);
    gt_json_end(to, ']');
    if (node->links_reported_s)
        gt_time_text(node->links_reported_s, time);
    gt_json_add_text_if(to, "linksReportedAt", time);
    gt_json_begin(to, "supernode", '{');
    add_text_or_unknown(to, "uuid", node->server_uuid);
    gt_json_begin(to, "remote", '[');
    for (unsigned i = 0; i < node->remote_count; i++)
        gt_json_add_text(to, NULL, node->remotes[i]);
    gt_buf_puts(to, "]}");
    gt_json_begin(to, "missing", '[');
    for (unsigned i = 0; i < node->missing_count; i++) {
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "what", node->missing[i].what);
        gt_json_add_text(to, "why", node->missing[i].why);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
    write_kubelet(to, node);
}

cJSON *gt_node_to_json(const struct gt_node *node)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    cJSON *json = NULL;
    gt_json_begin(&text, NULL, '{');
    gt_node_add_json(node, node->name, &text);
    gt_json_end(&text, '}');
    return !text.failed && gt_json_parse(text.data, text.len, "node", &json, NULL) >= 0 ? json : NULL;
}
