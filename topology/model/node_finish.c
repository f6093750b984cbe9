/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "topology/model/node.h"
#include "topology/model/node_internal.h"

static int by_bdf(const void *a, const void *b)
{
    const struct gt_gpu *x = a, *y = b;
    return gt_bdf_compare(x->bdf, y->bdf);
}

static int node_sort_by_name(const void *a, const void *b)
{
    const struct gt_nic *x = a, *y = b;
    int order = strverscmp(x->name, y->name); /* mlx5_2 before mlx5_10 */
    return order ? order : gt_bdf_compare(x->bdf, y->bdf);
}

void gt_node_sort(struct gt_node *node)
{
    if (node->gpu_count)
        qsort(node->gpus, node->gpu_count, sizeof(*node->gpus), by_bdf);
    for (unsigned i = 0; i < node->gpu_count; i++)
        node->gpus[i].index = i;
    if (node->nic_count)
        qsort(node->nics, node->nic_count, sizeof(*node->nics), node_sort_by_name);
}

static void make_texts_printable(struct gt_node *node)
{
    gt_text_make_printable(node->name);
    gt_text_make_printable(node->driver_version);
    gt_text_make_printable(node->library_version);
    gt_text_make_printable(node->server_uuid);
    for (unsigned i = 0; i < node->remote_count; i++)
        gt_text_make_printable(node->remotes[i]);
    for (unsigned i = 0; i < node->missing_count; i++) {
        gt_text_make_printable(node->missing[i].what);
        gt_text_make_printable(node->missing[i].why);
    }
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        gt_text_make_printable(gpu->uuid);
        gt_text_make_printable(gpu->product);
        gt_text_make_printable(gpu->serial);
        gt_text_make_printable(gpu->cpu_set);
        gt_text_make_printable(gpu->unhealthy_reason);
        gt_text_make_printable(gpu->grade_reason);
    }
    for (unsigned i = 0; i < node->nic_count; i++)
        gt_text_make_printable(node->nics[i].name);
}

static int node_finish_check_path(const struct gt_pcie_path *path, const char *what, unsigned index,
                                  struct gt_err **err)
{
    if (path->depth > GT_PATH_MAX_DEPTH)
        return gt_fail(err, EINVAL, "%s[%u]: %u bridges above it, the limit is %d", what, index, path->depth,
                       GT_PATH_MAX_DEPTH);
    return 0;
}

static int check_gpus(const struct gt_node *node, struct gt_err **err)
{
    char bdf[GT_BDF_SIZE];
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gt_gpu *gpu = &node->gpus[i];
        if (!gt_bdf_normalise(gpu->bdf, bdf) || strcmp(bdf, gpu->bdf))
            return gt_fail(err, EINVAL, "gpus[%u].bdf: \"%s\" is no PCI address such as 0000:0e:00.0", i,
                           gpu->bdf);
        int order = i ? gt_bdf_compare(node->gpus[i - 1].bdf, gpu->bdf) : -1;
        if (order == 0)
            return gt_fail(err, EINVAL, "gpus[%u].bdf: %s is there twice", i, gpu->bdf);
        if (order > 0)
            return gt_fail(err, EINVAL, "gpus[%u].bdf: %s stands behind %s", i, gpu->bdf,
                           node->gpus[i - 1].bdf);
        const struct gt_gpu *same = gpu->uuid[0] ? GT_FIND(node->gpus, i, uuid, gpu->uuid) : NULL;
        if (same)
            return gt_fail(err, EINVAL, "gpus[%u].uuid: %s is that of %s too", i, gpu->uuid, same->bdf);
        GT_TRY(node_finish_check_path(&gpu->pci.path, "gpus", i, err));
    }
    return 0;
}

static int check_nics(struct gt_node *node, struct gt_err **err)
{
    for (unsigned i = 0; i < node->nic_count; i++) {
        struct gt_nic *nic = &node->nics[i];
        if (!nic->name[0])
            gt_text_copy(nic->name, sizeof(nic->name), nic->bdf);
        if (!nic->name[0])
            return gt_fail(err, EINVAL, "nics[%u]: neither a name nor a PCI address", i);
        if (GT_FIND(node->nics, i, name, nic->name))
            return gt_fail(err, EINVAL, "nics[%u].name: %s is there twice", i, nic->name);
        for (unsigned g = 0; g < node->gpu_count; g++)
            if (nic->kind[g] <= GT_LINK_MX || nic->kind[g] > GT_LINK_UNKNOWN)
                return gt_fail(err, EINVAL, "nics[%u].locality[%u]: %s is no kind of PCIe path", i, g,
                               gt_link_kind_name(nic->kind[g]));
        GT_TRY(node_finish_check_path(&nic->path, "nics", i, err));
    }
    return 0;
}

static int check_links(const struct gt_node *node, struct gt_err **err)
{
    const struct gt_link *link = node->links;
    for (unsigned b = 1; b < node->gpu_count; b++)
        for (unsigned a = 0; a < b; a++, link++) {
            if (link->a != a || link->b != b)
                return gt_fail(err, EINVAL, "link of GPU %u and GPU %u: says %u and %u", a, b, link->a,
                               link->b);
            if (link->kind <= GT_LINK_SELF || link->kind > GT_LINK_UNKNOWN)
                return gt_fail(err, EINVAL, "link of GPU %u and GPU %u: no kind of a link", a, b);
            if (link->path_kind <= GT_LINK_MX || link->path_kind > GT_LINK_UNKNOWN)
                return gt_fail(err, EINVAL, "link of GPU %u and GPU %u: no kind of a PCIe path", a, b);
            if (!(link->speed >= 0 && link->speed <= GT_SPEED_MAX))
                return gt_fail(err, EINVAL, "link of GPU %u and GPU %u: speed out of range", a, b);
        }
    return 0;
}

static int node_finish_by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* In an order of their own: the library names them in any. */
static void settle_remotes(struct gt_node *node)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < node->remote_count; i++) {
        bool drop = !node->remotes[i][0] || !strcmp(node->remotes[i], node->server_uuid);
        for (unsigned j = 0; j < kept && !drop; j++)
            drop = !strcmp(node->remotes[i], node->remotes[j]);
        if (drop)
            continue;
        if (kept != i)
            memcpy(node->remotes[kept], node->remotes[i], sizeof(node->remotes[kept]));
        kept++;
    }
    node->remote_count = kept;
    qsort(node->remotes, kept, sizeof(node->remotes[0]), node_finish_by_text);
}

static void derive_links(struct gt_node *node)
{
    for (unsigned i = 0; i < node->link_count; i++) {
        struct gt_link *link = &node->links[i];
        const struct gt_gpu *a = &node->gpus[link->a], *b = &node->gpus[link->b];
        if (link->kind != GT_LINK_MX && link->kind != GT_LINK_UNKNOWN)
            link->path_kind = link->kind;
        else if (link->path_kind == GT_LINK_UNKNOWN)
            link->path_kind = gt_pcie_kind(&a->pci.path, a->numa_node, &b->pci.path, b->numa_node);
        if (link->kind == GT_LINK_UNKNOWN)
            link->kind = link->path_kind;
        link->weight = gt_link_weight(link);
    }
}

/* Zones are the connected components of the direct links that work, numbered by their lowest GPU. */
static void derive_zones(struct gt_node *node)
{
    uint64_t neighbours[GT_GPUS_MAX] = {0};
    for (unsigned i = 0; i < node->link_count; i++) {
        const struct gt_link *link = &node->links[i];
        if (link->kind != GT_LINK_MX || link->state == GT_LINK_STATE_DOWN)
            continue;
        neighbours[link->a] |= UINT64_C(1) << link->b;
        neighbours[link->b] |= UINT64_C(1) << link->a;
    }
    for (unsigned i = 0; i < node->gpu_count; i++)
        node->gpus[i].zone = 0;
    unsigned zone = 0;
    for (unsigned first = 0; first < node->gpu_count; first++) {
        if (node->gpus[first].zone || !neighbours[first])
            continue;
        zone++;
        uint64_t waiting = UINT64_C(1) << first;
        while (waiting) {
            unsigned i = gt_bit_first(waiting);
            waiting &= waiting - 1;
            if (node->gpus[i].zone)
                continue;
            node->gpus[i].zone = zone;
            waiting |= neighbours[i];
        }
    }
}

void gt_gpu_withhold_vfio(struct gt_gpu *gpu)
{
    if (gpu->mode != GT_GPU_VFIO)
        return;
    gpu->health = GT_GPU_UNHEALTHY;
    gpu->cause = GT_SIGNAL_DRM_NODE; /* its driver makes none */
    gt_text_copy(gpu->unhealthy_reason, sizeof(gpu->unhealthy_reason),
                 "bound to vfio-pci, for virtual machines");
}

/* Values that no hardware can have count as unknown. */
static void drop_nonsense(struct gt_gpu *gpu)
{
    struct gt_pcie_link *links[] = {&gpu->pci.now, &gpu->pci.max};
    for (unsigned i = 0; i < GT_COUNT(links); i++) {
        if (!(links[i]->speed > 0 && links[i]->speed <= GT_SPEED_MAX))
            links[i]->speed = 0;
        if (links[i]->width > GT_WIDTH_MAX)
            links[i]->width = 0;
    }
    if (gpu->numa_node < 0 || gpu->numa_node > GT_NUMA_MAX)
        gpu->numa_node = -1;
    if (gt_gpu_usable(gpu))
        gpu->unhealthy_reason[0] = '\0';
    else if (!gpu->unhealthy_reason[0])
        gt_text_copy(gpu->unhealthy_reason, sizeof(gpu->unhealthy_reason), "no reason is given");
}

int gt_node_finish(struct gt_node *node, struct gt_err **err)
{
    make_texts_printable(node);
    GT_TRY(check_gpus(node, err));
    GT_TRY(check_nics(node, err));
    GT_TRY(check_links(node, err));
    for (unsigned i = 0; i < node->gpu_count; i++) {
        node->gpus[i].index = i;
        gt_gpu_withhold_vfio(&node->gpus[i]);
        drop_nonsense(&node->gpus[i]);
    }
    settle_remotes(node);
    derive_links(node);
    derive_zones(node);
    for (unsigned i = 0; i < node->nic_count; i++) {
        struct gt_nic *nic = &node->nics[i];
        for (unsigned g = 0; g < node->gpu_count; g++)
            if (nic->kind[g] == GT_LINK_UNKNOWN)
                nic->kind[g] = gt_pcie_kind(&nic->path, nic->numa_node, &node->gpus[g].pci.path,
                                            node->gpus[g].numa_node);
    }
    return 0;
}
