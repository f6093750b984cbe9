/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "deviceplugin/variables.h"

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
