/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/publish_text.h"
#include "api/node.h"
#include "base/bits.h"

static struct gt_condition publish_condition_of(const struct gt_agent_condition *from)
{
    return (struct gt_condition){from->status, from->reason, from->message, from->since};
}

void gt_publish_write_condition(const char *node_name, const char *uid,
                                const struct gt_agent_condition *healthy, struct gt_buf *to)
{
    const struct gt_condition condition = publish_condition_of(healthy);
    gt_node_condition_write(node_name, uid, &condition, to);
}

void gt_publish_write_wiring(const char *node_name, const struct gt_node *node,
                             const struct gt_agent_condition conditions[static GT_TOPOLOGY_CONDITIONS],
                             const char *at, struct gt_buf *to)
{
    gt_auto_node struct gt_node *wired = gt_node_ref(node);
    struct gt_node_gpu_topology topology = {.name = node_name, .node = wired, .observed_at = at};
    for (unsigned i = 0; i < GT_TOPOLOGY_CONDITIONS; i++)
        topology.conditions[i] = publish_condition_of(&conditions[i]);
    gt_node_gpu_topology_write_wiring(&topology, to);
}

bool gt_publish_write_usage(const char *node_name, const struct gt_usage *usage,
                            const struct gt_publish_scores *scores, struct gt_buf *to)
{
    if (!usage || !usage->known)
        return false;
    struct gt_node_gpu_topology topology = {.name = node_name, .use_known = true, .free = usage->free};
    for (unsigned i = 0; i < usage->gpu_count; i++) {
        const struct gt_usage_owner *owner = &usage->owners[i];
        if (usage->used >> i & 1 && owner->namespace[0] && owner->pod[0] && owner->container[0])
            topology.owners[topology.owner_count++] =
                (struct gt_gpu_owner){i, owner->namespace, owner->pod, owner->container};
    }
    return gt_node_gpu_topology_write_usage(&topology, scores->score, scores->loss, scores->count, to);
}

static uint64_t publish_status_free_of(const struct gt_inventory *inventory, const struct gt_usage *usage)
{
    uint64_t free = 0;
    if (usage && usage->known)
        return usage->free;
    for (unsigned i = 0; i < inventory->device_count; i++)
        if (inventory->devices[i].gpu >= 0 && inventory->devices[i].healthy)
            free |= UINT64_C(1) << inventory->devices[i].gpu;
    return inventory->device_count ? free : gt_node_usable(inventory->node);
}

/* The searches above 16 GPUs run on the loop's thread, one for each count: their limit for all. */
enum { SEARCH_US = 20000 };

void gt_publish_scores_update(struct gt_publish_scores *scores, const struct gt_inventory *inventory,
                              const struct gt_usage *usage)
{
    uint64_t free = inventory->class ? publish_status_free_of(inventory, usage) : 0;
    if (scores->class == inventory->class && scores->free == free)
        return;
    gt_publish_scores_done(scores);
    if (!inventory->class)
        return;
    scores->class = gt_class_ref(inventory->class);
    scores->free = free;
    scores->count = gt_bit_count(free);
    for (unsigned k = 1; k <= scores->count; k++) {
        struct gt_choice choice;
        if (gt_choose(scores->class, free, 0, k, SEARCH_US / scores->count, &choice)) {
            scores->score[k] = choice.score;
            scores->loss[k] = choice.loss;
        }
    }
    gt_hami_maps(scores->class, free, &scores->maps);
}

void gt_publish_scores_done(struct gt_publish_scores *scores)
{
    if (scores->class)
        gt_class_unref(scores->class);
    memset(scores, 0, sizeof(*scores));
}
