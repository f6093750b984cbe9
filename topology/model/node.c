/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/node.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"

void gt_drm_node_names(int card, int render, char ret[static 2][GT_DEVICE_NAME_SIZE])
{
    ret[0][0] = ret[1][0] = '\0';
    if (card >= 0)
        snprintf(ret[0], sizeof(ret[0]), "dri/card%d", card);
    if (render >= 0)
        snprintf(ret[1], sizeof(ret[1]), "dri/renderD%d", render);
}

static void set_unknown(struct gt_node *node)
{
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        gpu->index = i;
        gpu->vendor_index = gpu->numa_node = gpu->drm_card = gpu->drm_render = -1;
        gpu->mode = GT_GPU_NATIVE;
        gpu->health = GT_GPU_HEALTH_UNKNOWN;
        gpu->cause = GT_SIGNALS;
    }
    for (unsigned i = 0; i < node->nic_count; i++) {
        node->nics[i].numa_node = -1;
        for (unsigned g = 0; g < GT_GPUS_MAX; g++)
            node->nics[i].kind[g] = GT_LINK_UNKNOWN;
    }
    struct gt_link *link = node->links;
    for (unsigned b = 1; b < node->gpu_count; b++)
        for (unsigned a = 0; a < b; a++, link++)
            *link = (struct gt_link){
                .a = a,
                .b = b,
                .kind = GT_LINK_UNKNOWN,
                .path_kind = GT_LINK_UNKNOWN,
            };
}

int gt_node_new(unsigned gpu_count, unsigned nic_count, struct gt_node **ret, struct gt_err **err)
{
    if (gpu_count > GT_GPUS_MAX)
        return gt_fail(err, E2BIG, "%u GPUs, the limit is %d", gpu_count, GT_GPUS_MAX);
    if (nic_count > GT_NICS_MAX)
        return gt_fail(err, E2BIG, "%u NICs, the limit is %d", nic_count, GT_NICS_MAX);
    unsigned link_count = gpu_count ? gpu_count * (gpu_count - 1) / 2 : 0;

    gt_auto_node struct gt_node *node = calloc(1, sizeof(*node));
    GT_NEED(node, err, "node");
    node->references = 1;
    if (gpu_count)
        node->gpus = calloc(gpu_count, sizeof(*node->gpus));
    if (nic_count)
        node->nics = calloc(nic_count, sizeof(*node->nics));
    if (link_count)
        node->links = calloc(link_count, sizeof(*node->links));
    if ((gpu_count && !node->gpus) || (nic_count && !node->nics) || (link_count && !node->links))
        return gt_fail_sys(err, ENOMEM, "node");
    node->gpu_count = gpu_count;
    node->nic_count = nic_count;
    node->link_count = link_count;
    set_unknown(node);
    *ret = gt_steal(node);
    return 0;
}

int gt_node_copy(const struct gt_node *node, struct gt_node **ret, struct gt_err **err)
{
    struct gt_node *copy = NULL;
    GT_TRY(gt_node_new(node->gpu_count, node->nic_count, &copy, err));
    struct gt_node made = *node;
    made.gpus = copy->gpus;
    made.nics = copy->nics;
    made.links = copy->links;
    made.references = 1;
    *copy = made;
    if (node->gpu_count)
        memcpy(copy->gpus, node->gpus, node->gpu_count * sizeof(*node->gpus));
    if (node->nic_count)
        memcpy(copy->nics, node->nics, node->nic_count * sizeof(*node->nics));
    if (node->link_count)
        memcpy(copy->links, node->links, node->link_count * sizeof(*node->links));
    *ret = copy;
    return 0;
}

struct gt_node *gt_node_ref(const struct gt_node *node)
{
    /* The count is not part of what is immutable. */
    union {
        const struct gt_node *in;
        struct gt_node *out;
    } shared = {.in = node};
    GT_ASSERT(node->references);
    __atomic_add_fetch(&shared.out->references, 1, __ATOMIC_RELAXED);
    return shared.out;
}

void gt_node_unref(struct gt_node *node)
{
    GT_ASSERT(!node || node->references);
    if (!node || __atomic_sub_fetch(&node->references, 1, __ATOMIC_ACQ_REL))
        return;
    free(node->gpus);
    free(node->nics);
    free(node->links);
    free(node);
}

struct gt_link *gt_node_link(const struct gt_node *node, unsigned a, unsigned b)
{
    if (a == b || a >= node->gpu_count || b >= node->gpu_count)
        return NULL;
    unsigned low = a < b ? a : b, high = a < b ? b : a;
    return &node->links[high * (high - 1) / 2 + low];
}

void gt_node_missing(struct gt_node *node, const char *what, const char *format, ...)
{
    struct gt_missing entry = {0};
    snprintf(entry.what, sizeof(entry.what), "%s", what);
    va_list args;
    va_start(args, format);
    vsnprintf(entry.why, sizeof(entry.why), format, args);
    va_end(args);
    gt_text_make_printable(entry.what);
    gt_text_make_printable(entry.why);

    for (unsigned i = 0; i < node->missing_count; i++)
        if (!strcmp(node->missing[i].what, entry.what) && !strcmp(node->missing[i].why, entry.why))
            return;
    if (node->missing_count >= GT_MISSING_MAX)
        return;
    if (node->missing_count == GT_MISSING_MAX - 1)
        entry = (struct gt_missing){"more", "more is missing than this list holds"};
    node->missing[node->missing_count++] = entry;
}

uint64_t gt_node_all(const struct gt_node *node)
{
    return node->gpu_count < 64 ? (UINT64_C(1) << node->gpu_count) - 1 : UINT64_MAX;
}

uint64_t gt_node_with_health(const struct gt_node *node, enum gt_gpu_health health)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].health == health)
            mask |= UINT64_C(1) << i;
    return mask;
}

uint64_t gt_node_graded(const struct gt_node *node)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].grade)
            mask |= UINT64_C(1) << i;
    return mask & gt_node_usable(node);
}

uint64_t gt_node_usable(const struct gt_node *node)
{
    return gt_node_all(node) & ~gt_node_with_health(node, GT_GPU_UNHEALTHY);
}

const char *gt_node_not_advertised(const struct gt_node *node)
{
    unsigned vfio = 0;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        if (node->gpus[i].mode == GT_GPU_SGPU)
            return "a GPU is shared as sGPUs, which the vendor's device plugin serves";
        if (node->gpus[i].mode == GT_GPU_VF)
            return "a GPU is split into virtual functions, which the vendor's device plugin serves";
        vfio += node->gpus[i].mode == GT_GPU_VFIO;
    }
    return vfio && vfio == node->gpu_count ? "every GPU is bound to vfio-pci for virtual machines, which the "
                                             "vendor's device plugin serves"
                                           : NULL;
}

void gt_gpu_device_id(const struct gt_gpu *gpu, char to[static GT_ID_SIZE])
{
    size_t len = strlen(gpu->uuid);
    bool servable = len >= 1 && len <= 63 && strncmp(gpu->uuid, "PCI-", 4) != 0;
    for (const char *p = gpu->uuid; servable && *p; p++)
        servable = *p > 0x20 && *p < 0x7f && *p != ',';
    if (servable)
        memcpy(to, gpu->uuid, len + 1);
    else
        snprintf(to, GT_ID_SIZE, "PCI-%s", gpu->bdf);
}

bool gt_device_id_is_valid(const char *id)
{
    size_t len = 0;
    for (; id[len]; len++)
        if (id[len] <= ' ' || id[len] > '~')
            return false;
    return len > 0 && len < GT_ID_SIZE;
}
