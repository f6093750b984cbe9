/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stale_links.h"

#include <string.h>

/* The index of the same card before, -1 none. */
static int find_card(const struct gt_node *before, const struct gt_gpu *gpu)
{
    for (unsigned i = 0; i < before->gpu_count; i++) {
        const struct gt_gpu *was = &before->gpus[i];
        if (strcmp(was->bdf, gpu->bdf) != 0)
            continue;
        bool swapped = gpu->uuid[0] && was->uuid[0] && strcmp(gpu->uuid, was->uuid) != 0;
        return was->pci_device == gpu->pci_device && !swapped ? (int)i : -1;
    }
    return -1;
}

static bool keep_link(const struct gt_node *before, const struct gt_node *node, struct gt_link *link)
{
    const struct gt_gpu *a = &node->gpus[link->a], *b = &node->gpus[link->b];
    if (a->vendor_index >= 0 || b->vendor_index >= 0 || link->kind == GT_LINK_MX)
        return false;
    int old_a = find_card(before, a), old_b = find_card(before, b);
    const struct gt_link *was =
        old_a >= 0 && old_b >= 0 ? gt_node_link(before, (unsigned)old_a, (unsigned)old_b) : NULL;
    if (!was || was->kind != GT_LINK_MX)
        return false;
    struct gt_link kept = *was;
    kept.a = link->a;
    kept.b = link->b;
    if (link->path_kind != GT_LINK_UNKNOWN)
        kept.path_kind = link->path_kind; /* the kernel still reports that */
    kept.stale = true;
    *link = kept;
    return true;
}

/* Without GPUs no server is known. */
static bool is_silent(const struct gt_node *node)
{
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].vendor_index >= 0)
            return false;
    return node->gpu_count > 0;
}

static bool keep_servers(const struct gt_node *before, struct gt_node *node)
{
    if (node->server_uuid[0] || !before->server_uuid[0] || !is_silent(node))
        return false;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (find_card(before, &node->gpus[i]) < 0)
            return false;
    memcpy(node->server_uuid, before->server_uuid, sizeof(node->server_uuid));
    memcpy(node->remotes, before->remotes, sizeof(node->remotes));
    node->remote_count = before->remote_count;
    return true;
}

int gt_stale_links_keep(const struct gt_node *before, struct gt_node *node, bool *ret_kept,
                        struct gt_err **err)
{
    bool kept = keep_servers(before, node);
    for (unsigned i = 0; i < node->link_count; i++)
        kept |= keep_link(before, node, &node->links[i]);
    int r = kept ? gt_node_finish(node, err) : 0;
    if (r == 0)
        *ret_kept = kept;
    return r;
}
