/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
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

static uint64_t exact(uint64_t number)
{
    return number < GT_EXACT_MAX ? number : GT_EXACT_MAX;
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
    bool usable = gt_gpu_usable(gpu);
    gt_json_printf(to, "{'index': %u", gpu->index);
    add_index_if(to, "vendorIndex", gpu->vendor_index);
    gt_json_printf(to, "'uuid': ~%s, ?'bdf': %s, 'product': ~%s, ?'serial': %s, ?'memoryBytes': %" PRIu64,
                   gpu->uuid, gpu->bdf, gpu->product, gpu->serial, exact(gpu->memory_bytes));
    add_numa(to, gpu->numa_node);
    gt_json_add_text_if(to, "cpuSet", gpu->cpu_set);
    add_pci_id(to, "pciVendor", gpu->pci.vendor);
    add_pci_id(to, "pciDevice", gpu->pci.device);
    if (gpu->pci.now.speed > 0 || gpu->pci.now.width || gpu->pci.max.speed > 0 || gpu->pci.max.width ||
        path_known(&gpu->pci.path)) {
        gt_json_begin(to, "pcie", '{');
        add_real_if(to, "speedGTs", gpu->pci.now.speed);
        gt_json_printf(to, "?'width': %u", gpu->pci.now.width);
        add_real_if(to, "maxSpeedGTs", gpu->pci.max.speed);
        gt_json_printf(to, "?'maxWidth': %u", gpu->pci.max.width);
        node_json_write_path(to, &gpu->pci.path);
        gt_json_end(to, '}');
    }
    if (gpu->drm_card >= 0 || gpu->drm_render >= 0) {
        gt_json_begin(to, "drm", '{');
        add_index_if(to, "card", gpu->drm_card);
        add_index_if(to, "render", gpu->drm_render);
        gt_json_end(to, '}');
    }
    gt_json_printf(to, "'mode': %s, 'health': %s", gt_gpu_mode_name(gpu->mode),
                   gt_gpu_health_name(gpu->health));
    gt_json_add_bool(to, "healthy", usable); /* deprecated: as it was before `health` */
    gt_json_printf(to, "?'unhealthyReason': %s, ?'grade': %s, ?'gradeReason': %s, 'zone': %u}",
                   usable ? "" : gpu->unhealthy_reason, usable ? gt_gpu_grade_name(gpu->grade) : "",
                   usable && gpu->grade ? gpu->grade_reason : "", gpu->zone);
}

static void write_nic(struct gt_buf *to, const struct gt_node *node, const struct gt_nic *nic)
{
    gt_json_printf(to, "{'name': %s, 'bdf': ~%s", nic->name, nic->bdf);
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
        gt_json_printf(to, "{'port': %s, 'switch': %s, ?'switchPort': %s}", nic->name, nic->peer,
                       nic->peer_port);
    }
    if (begun)
        gt_json_end(to, ']');
}

static void write_link(struct gt_buf *to, const struct gt_link *link)
{
    bool has_path = link->path_kind != link->kind && link->path_kind != GT_LINK_UNKNOWN;
    gt_json_printf(to, "{'a': %u, 'b': %u, 'kind': %s, ?'pathKind': %s, ?'ports': %u, ?'width': %u", link->a,
                   link->b, gt_link_kind_name(link->kind), has_path ? gt_link_kind_name(link->path_kind) : "",
                   link->ports, link->width);
    add_real_if(to, "speedGTs", link->speed);
    gt_json_printf(to,
                   "?'bandwidthMBps': %" PRIu64 ", ?'measuredMBps': %" PRIu64
                   ", ?'state': %s, ?'stale': !%d, 'weight': %u}",
                   exact(link->bandwidth_mbps), exact(link->measured_mbps),
                   link->state != GT_LINK_STATE_UNKNOWN ? gt_link_state_name(link->state) : "", link->stale,
                   link->weight);
}

static void write_kubelet(struct gt_buf *to, const struct gt_node *node)
{
    const struct gt_kubelet *kubelet = &node->kubelet;
    if (kubelet->policy[0] || kubelet->unknown[0])
        gt_json_printf(to,
                       "'kubelet': {?'topologyManagerPolicy': %s, ?'topologyManagerScope': %s, "
                       "?'cpuManagerPolicy': %s, ?'source': %s, ?'unknown': %s}",
                       kubelet->policy, kubelet->scope, kubelet->cpu_policy, kubelet->source,
                       kubelet->unknown);
    if (!node->numa_node_count)
        return;
    gt_json_begin(to, "numaNodes", '[');
    for (unsigned i = 0; i < node->numa_node_count; i++)
        gt_json_printf(to, "{'id': %u, ?'cpus': %s, ?'memoryBytes': %" PRIu64 "}", node->numa_nodes[i].id,
                       node->numa_nodes[i].cpus, exact(node->numa_nodes[i].memory_bytes));
    gt_json_end(to, ']');
}

void gt_node_add_json(const struct gt_node *node, const char *name, struct gt_buf *to)
{
    char time[GT_TIME_TEXT_SIZE] = "";
    gt_json_printf(to, "?'name': %s, ?'driverVersion': %s, ?'libraryVersion': %s, 'gpus': [", name,
                   node->driver_version, node->library_version);
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
    gt_json_printf(to, "?'linksReportedAt': %s, 'supernode': {'uuid': ~%s, 'remote': [", time,
                   node->server_uuid);
    for (unsigned i = 0; i < node->remote_count; i++)
        gt_json_add_text(to, NULL, node->remotes[i]);
    gt_buf_puts(to, "]}");
    gt_json_begin(to, "missing", '[');
    for (unsigned i = 0; i < node->missing_count; i++)
        gt_json_printf(to, "{'what': %s, 'why': %s}", node->missing[i].what, node->missing[i].why);
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
