/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent_private.h"
#include "base/bits.h"

static uint64_t agent_score_gpus_of(const struct gt_inventory *inventory,
                                    const struct gt_allocation *allocation)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < allocation->count; i++) {
        const struct gt_device *device = gt_inventory_find(inventory, allocation->ids[i]);
        if (device && device->gpu >= 0)
            mask |= 1ULL << device->gpu;
    }
    return mask;
}

/*
 * The GPUs that were free: those that the kubelet has offered for this container, else those that were free
 * in its last list, without those given away since. An offer may have fewer than are free (NUMA), a list may
 * be seconds old.
 */
void gt_agent_score(struct gt_agent *agent, const struct gt_allocation *allocation)
{
    const struct gt_inventory *inventory = agent->inventory;
    const struct gt_usage *usage = gt_usage_now(agent->usage);
    struct gt_choice best;
    uint64_t offered = agent->offered;
    agent->offered = 0;
    if (allocation->error || !inventory || !inventory->class)
        return;
    uint64_t got = agent_score_gpus_of(inventory, allocation);
    bool is_offer = got && !(got & ~offered);
    if (is_offer || usage->known) {
        uint64_t free = got | (is_offer ? offered : 0) | (usage->known ? usage->free & ~agent->given : 0);
        if (gt_choose(inventory->class, free, 0, gt_bit_count(got), 0, &best)) {
            uint32_t score = gt_class_sum(inventory->class, got);
            agent->scores.given += score;
            agent->scores.best += best.score > score ? best.score : score; /* a search may end early */
        }
    }
    agent->given |= got;
}
