/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/feasibility.h"

#include <string.h>

#include "base/bits.h"

static unsigned feasibility_bits(uint64_t mask)
{
    return gt_bit_count(mask);
}

void gt_extender_pod_find(const struct gt_cache *cache, struct gt_extender_pod *pod)
{
    const struct gt_cache_pod *known = gt_cache_find_pod(cache, pod->namespace_, pod->name);
    if (known && pod->uid[0] && strcmp(known->uid, pod->uid) != 0)
        known = NULL; /* an earlier pod of the same name */
    pod->known = known;
    if (known) {
        gt_cache_asked(cache, known, &pod->asked);
        pod->gpus = known->gpus;
    } else
        pod->asked.gpus = pod->gpus;
    pod->planned = known && known->plan == GT_CACHE_PLAN_ASSUMED ? known->plan_node : GT_NONE;
}

enum gt_feasibility gt_node_feasibility(struct gt_cache *cache, const struct gt_placement *placement,
                                        const struct gt_extender_pod *pod, uint32_t node)
{
    struct gt_cluster_node known;
    if (!pod->gpus)
        return GT_FEASIBLE;
    if (pod->planned != GT_NONE)
        return node == pod->planned ? GT_FEASIBLE : GT_PLANNED_ELSEWHERE;
    if (!gt_cluster_get_node(gt_cache_cluster(cache), node, &known))
        return GT_FEASIBLE;
    if (placement && gt_placement_is_reserved(placement, pod->known, node))
        return GT_NODE_RESERVED;
    uint64_t remote = placement ? gt_placement_remote_gpus(placement, node) : 0;
    return gt_node_gpus_are_reserved(&known, remote, pod->gpus) ? GT_GPUS_RESERVED : GT_FEASIBLE;
}

void gt_feasibility_reason(struct gt_cache *cache, const struct gt_placement *placement,
                           const struct gt_extender_pod *pod, uint32_t node, enum gt_feasibility feasibility,
                           struct gt_buf *to)
{
    struct gt_cluster_node known;
    uint32_t shown = feasibility == GT_PLANNED_ELSEWHERE ? pod->planned : node;
    if (!gt_cluster_get_node(gt_cache_cluster(cache), shown, &known))
        return;
    if (feasibility == GT_PLANNED_ELSEWHERE)
        gt_buf_printf(to, "gputopo planned this pod for node %s", known.name);
    else if (feasibility == GT_NODE_RESERVED && gt_placement_is_spare(placement, node))
        gt_buf_puts(to, "this node is a spare: it waits for pods whose nodes are lost");
    else if (feasibility == GT_NODE_RESERVED)
        gt_buf_puts(to, "gputopo has reserved this node for a larger job that has waited for long");
    else if (feasibility == GT_GPUS_RESERVED) {
        uint64_t remote = placement ? gt_placement_remote_gpus(placement, node) & known.free : 0;
        gt_buf_printf(to,
                      "%u of the free GPUs are reserved for planned or starting pods, %u are left, %u needed",
                      feasibility_bits(known.assumed | remote),
                      feasibility_bits(gt_node_available(&known, remote)), pod->gpus);
        struct gt_cache_node cached;
        if (gt_cache_get_node(cache, node, &cached) && cached.foreign)
            gt_buf_printf(to, "; the other scheduler has reserved %u for pods to come",
                          feasibility_bits(cached.foreign));
    }
}
