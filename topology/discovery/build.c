/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "topology/discovery/backends.h"
#include "topology/probe/answers.h"

/* Copies a text that may come from anywhere. */
static void copy_clean(char *to, size_t size, const char *from)
{
    if (gt_text_copy(to, size, from))
        gt_text_make_printable(to);
}

static void fill_gpu(struct gt_gpu *gpu, const struct gt_fact *fact)
{
    memcpy(gpu->bdf, fact->bdf, sizeof(gpu->bdf));
    copy_clean(gpu->product, sizeof(gpu->product), fact->product);
    copy_clean(gpu->uuid, sizeof(gpu->uuid), fact->uuid);
    copy_clean(gpu->serial, sizeof(gpu->serial), fact->serial);
    if (fact->cpu_set[strspn(fact->cpu_set, "0123456789,-")] == '\0')
        gt_text_copy(gpu->cpu_set, sizeof(gpu->cpu_set), fact->cpu_set);
    gpu->pci.vendor = fact->vendor;
    gpu->pci.device = fact->device;
    gpu->numa_node = fact->numa_node;
    gpu->pci.now = fact->now;
    gpu->pci.max = fact->max;
    gpu->pci.path = fact->path;
    gpu->drm_card = fact->drm_card;
    gpu->drm_render = fact->drm_render;
    if (strcmp(fact->driver, "vfio-pci") == 0)
        gpu->mode = GT_GPU_VFIO;
    else if (fact->virtual_function)
        gpu->mode = GT_GPU_VF;
}

static void fill_nic(struct gt_nic *nic, const struct gt_fact *fact)
{
    const char *name = fact->rdma[0] ? fact->rdma : fact->net[0] ? fact->net : fact->bdf;
    copy_clean(nic->name, sizeof(nic->name), name);
    memcpy(nic->bdf, fact->bdf, sizeof(nic->bdf));
    nic->numa_node = fact->numa_node;
    nic->path = fact->path;
    copy_clean(nic->peer, sizeof(nic->peer), fact->peer);
    copy_clean(nic->peer_port, sizeof(nic->peer_port), fact->peer_port);
}

static void fill_direct(struct gt_node *node, const struct gt_facts *facts)
{
    for (unsigned i = 0; i < facts->direct_count; i++) {
        const struct gt_direct *direct = &facts->direct[i];
        int a = gt_node_gpu_at(node, direct->a), b = gt_node_gpu_at(node, direct->b);
        struct gt_link *link = a < 0 || b < 0 ? NULL : gt_node_link(node, (unsigned)a, (unsigned)b);
        if (!link)
            continue; /* a link to a switch or to something that is no GPU of ours */
        link->kind = GT_LINK_MX;
        link->state = GT_LINK_STATE_UP;
        if (direct->bandwidth_mbps > link->bandwidth_mbps)
            link->bandwidth_mbps = direct->bandwidth_mbps;
    }
}

/* Attributes that are unknown for some GPUs: one note each, for all GPUs together. */
enum attribute { LINK_SPEED, NUMA_NODE, CPU_SET, PCIE_PATH, DRM_NUMBERS, ATTRIBUTES };

static bool build_lacks(const struct gt_gpu *gpu, enum attribute attribute)
{
    switch (attribute) {
    case LINK_SPEED:
        return gpu->pci.now.speed == 0 || gpu->pci.now.width == 0;
    case NUMA_NODE:
        return gpu->numa_node < 0;
    case CPU_SET:
        return gpu->cpu_set[0] == '\0';
    case PCIE_PATH:
        return gpu->pci.path.root[0] == '\0';
    case DRM_NUMBERS:
        return gpu->drm_card < 0 && gpu->drm_render < 0 && gpu->mode != GT_GPU_VFIO;
    case ATTRIBUTES:
        break;
    }
    return false;
}

static void note_gaps(struct gt_node *node)
{
    static const char *const names[ATTRIBUTES] = {"PCIe link speed and width", "NUMA node", "CPU set",
                                                  "PCIe path", "DRM numbers"};
    for (enum attribute attribute = LINK_SPEED; attribute < ATTRIBUTES; attribute++) {
        unsigned count = 0;
        const char *first = "";
        for (unsigned i = node->gpu_count; i-- > 0;)
            if (build_lacks(&node->gpus[i], attribute)) {
                count++;
                first = node->gpus[i].bdf;
            }
        if (count)
            gt_node_missing(node, names[attribute], "not given for %u of %u GPUs, first %s", count,
                            node->gpu_count, first);
    }
}

static void apply_answers(struct gt_node *node, const char *answers, const char *why_none)
{
    gt_auto_err struct gt_err *err = NULL;
    unsigned unmatched = 0;
    if (!answers)
        gt_node_missing(node, GT_MISSING_VENDOR, "%s", why_none && why_none[0] ? why_none : "not asked");
    else if (gt_answers_apply(answers, strlen(answers), node, &unmatched, &err) < 0)
        gt_node_missing(node, GT_MISSING_VENDOR, "%s", gt_err_text(err));
    else if (unmatched)
        gt_node_missing(node, "vendor devices",
                        "%u devices of the vendor library are at no PCI address known here", unmatched);
}

int gt_assemble(const struct gt_facts *facts, const char *answers, const char *why_none, const char *name,
                struct gt_node **ret, struct gt_err **err)
{
    char extra[GT_GPUS_MAX][GT_BDF_SIZE];
    unsigned gpus = 0, nics = 0;
    int extras = 0;
    for (unsigned i = 0; i < facts->count; i++) {
        gpus += gt_fact_is_gpu(&facts->devices[i], facts->vendor);
        nics += gt_fact_is_nic(&facts->devices[i]);
    }
    if (answers && !gpus)
        extras = gt_answers_bdfs(answers, strlen(answers), extra, NULL);
    unsigned kept = nics > GT_NICS_MAX ? GT_NICS_MAX : nics;
    gt_auto_node struct gt_node *node = NULL;
    GT_TRY(gt_node_new(extras > 0 ? (unsigned)extras : gpus, kept, &node, err));

    unsigned gpu = 0, nic = 0;
    for (unsigned i = 0; i < facts->count; i++) {
        if (gt_fact_is_gpu(&facts->devices[i], facts->vendor))
            fill_gpu(&node->gpus[gpu++], &facts->devices[i]);
        if (gt_fact_is_nic(&facts->devices[i]) && nic < kept)
            fill_nic(&node->nics[nic++], &facts->devices[i]);
    }
    for (int i = 0; i < extras; i++)
        memcpy(node->gpus[i].bdf, extra[i], GT_BDF_SIZE);
    gt_node_sort(node);
    fill_direct(node, facts);
    memcpy(node->driver_version, facts->driver_version, sizeof(node->driver_version));
    for (unsigned i = 0; i < facts->missing_count; i++)
        gt_node_missing(node, facts->missing[i].what, "%s", facts->missing[i].why);
    if (kept < nics)
        gt_node_missing(node, "NICs", "%u of %u are left out: at most %d are kept", nics - kept, nics,
                        GT_NICS_MAX);
    note_gaps(node);
    if (name && gt_text_is_printable(name)) /* it may be that of a recording */
        gt_text_copy(node->name, sizeof(node->name), name);
    apply_answers(node, answers, why_none);
    GT_TRY(gt_node_finish(node, err));
    *ret = gt_steal(node);
    return 0;
}
