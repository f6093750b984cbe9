/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/internal.h"

/*
 * Nodes that a scheduler refused, for want of CPUs, memory, or anything that is not known here. With
 * --on-lost-plan=recreate the same node would be chosen for the pod that is made again, for ever. What the
 * node lacks may come back: it is left out for some minutes, or until a pod leaves it.
 */

static struct refusing *oldest(struct gt_placement *placement)
{
    struct refusing *found = &placement->refusing[0];
    for (unsigned i = 1; i < REFUSING_MAX; i++)
        if (placement->refusing[i].until_ms < found->until_ms)
            found = &placement->refusing[i];
    return found;
}

void gt_refuse_see(struct gt_placement *placement, const struct gt_cache_job *job, uint32_t node,
                   uint64_t now)
{
    const struct refusing seen = {gt_digest_keyed(job->key), now + REFUSING_MS, node,
                                  gt_reservations_node_digest(gt_cache_cluster(placement->spec.cache), node)};
    struct refusing *to = oldest(placement);
    if (!seen.node_digest)
        return;
    for (unsigned i = 0; i < REFUSING_MAX; i++)
        if (placement->refusing[i].key == seen.key && placement->refusing[i].node_digest == seen.node_digest)
            to = &placement->refusing[i];
    *to = seen;
}

void gt_refuse_forget(struct gt_placement *placement, uint32_t node)
{
    uint64_t digest = gt_reservations_node_digest(gt_cache_cluster(placement->spec.cache), node);
    for (unsigned i = 0; i < REFUSING_MAX; i++)
        if (placement->refusing[i].node_digest == digest)
            placement->refusing[i] = (struct refusing){0};
}

void gt_refuse_find(const struct gt_placement *placement, const struct gt_cache_job *job, uint64_t now,
                    struct gt_node_set *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    uint64_t key = gt_digest_keyed(job->key);
    for (unsigned i = 0; i < REFUSING_MAX; i++) {
        const struct refusing *one = &placement->refusing[i];
        if (one->key == key && one->until_ms > now &&
            gt_reservations_node_digest(cluster, one->node) == one->node_digest)
            gt_node_set_add(to, one->node, NULL);
    }
}
