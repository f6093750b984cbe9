/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

#include "base/bits.h"

int gt_links_open(struct gt_links *links, const struct gt_site *site, struct gt_err **err)
{
    links->nodes = site->node_count;
    for (unsigned k = 0; k <= GT_GPUS_MAX; k++)
        links->best[k] = -1;
    return gt_site_model(site, &links->model, err);
}

void gt_links_done(struct gt_links *links)
{
    gt_cluster_free(links->model);
}

static uint32_t best_of(struct gt_links *links, unsigned k)
{
    struct gt_cluster_node node;
    if (links->best[k] < 0)
        for (uint32_t i = 0; i < links->nodes; i++)
            if (gt_cluster_get_node(links->model, i, &node)) {
                uint32_t score = gt_class_best_score(node.class, k);
                links->best[k] = score > links->best[k] ? score : links->best[k];
            }
    return (uint32_t)links->best[k];
}

void gt_links_add(struct gt_links *links, uint32_t node, uint64_t mask)
{
    struct gt_cluster_node at;
    uint32_t best = best_of(links, gt_bit_count(mask));
    if (!best || !gt_cluster_get_node(links->model, node, &at))
        return;
    links->share_sum += (double)gt_class_sum(at.class, mask) / best;
    links->share_count++;
}

double gt_links_share(const struct gt_links *links)
{
    return links->share_count ? links->share_sum / links->share_count : 1;
}

double gt_links_fragmentation(const struct gt_links *links, uint64_t (*free)(const void *arg, uint32_t node),
                              const void *arg)
{
    double left = 0, whole = 0;
    for (uint32_t i = 0; i < links->nodes; i++) {
        struct gt_cluster_node node;
        uint64_t mask = free(arg, i);
        if (!mask || !gt_cluster_get_node(links->model, i, &node))
            continue;
        left += gt_class_sum(node.class, mask);
        whole += (double)gt_class_sum(node.class, node.all) * gt_bit_count(mask) / gt_bit_count(node.all);
    }
    return whole > 0 ? 1 - left / whole : 0;
}
