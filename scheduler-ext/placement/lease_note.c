/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lease_note.h"
#include "scheduler-ext/placement/state.h"

/*
 * The reservations of the leader, written for the other replicas. They do not assume these GPUs in their
 * caches: they see the plan of a pod as soon as it is written, while the note may be older.
 */

/* `mask` 0: the whole node. */
static void add_word(const struct gt_cluster *cluster, uint32_t id, uint64_t mask, struct gt_buf *to)
{
    struct gt_cluster_node node;
    if (gt_cluster_get_node(cluster, id, &node))
        gt_lease_note_add(to, node.name, mask);
}

void gt_placement_write_note(const struct gt_placement *placement, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    for (uint32_t n = placement->holder ? gt_node_set_next(&placement->reserved_nodes, 0) : GT_NONE;
         n != GT_NONE; n = gt_node_set_next(&placement->reserved_nodes, n + 1))
        add_word(cluster, n, 0, to);
    for (const struct pjob *pjob = placement->jobs; pjob; pjob = pjob->next)
        for (uint32_t i = 0; pjob->reserves && i < pjob->reservations.count; i++)
            if (pjob->reservations.reservations[i].state == GT_RESERVATION_HELD)
                add_word(cluster, gt_reservations_node(&pjob->reservations, cluster, i),
                         pjob->reservations.reservations[i].mask, to);
}

void gt_placement_read_note(struct gt_placement *placement, const char *note)
{
    if (placement->started)
        gt_noted_done(&placement->remote);
    else
        gt_noted_read(&placement->remote, gt_cache_cluster(placement->spec.cache), note);
}

uint64_t gt_placement_remote_gpus(const struct gt_placement *placement, uint32_t node)
{
    return gt_noted_gpus(&placement->remote, node);
}
