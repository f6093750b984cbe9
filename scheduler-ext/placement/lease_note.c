/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lease_note.h"
#include "base/clock.h"
#include "scheduler-ext/decide/noted.h"
#include "scheduler-ext/placement/state.h"

/* The reservations of the leader, written for the other replicas. */

void gt_placement_write_note(const struct gt_placement *placement, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    struct gt_cluster_node node;
    for (uint32_t n = placement->nodes.holder ? gt_node_set_next(&placement->nodes.reserved, 0) : GT_NONE;
         n != GT_NONE; n = gt_node_set_next(&placement->nodes.reserved, n + 1))
        if (gt_cluster_get_node(cluster, n, &node))
            gt_lease_note_add(to, node.name, 0);
    gt_noted_write(cluster, to);
}

/* Called after the end of a term. */
void gt_placement_write_last_note(const struct gt_placement *placement, struct gt_buf *to)
{
    uint64_t now = gt_clock_ms(), request_ms = placement->times.request_ms;
    uint64_t end = placement->term.offered_ms ? placement->term.offered_ms + request_ms : 0;
    if (!placement->term.earlier_known)
        return;
    end = placement->term.earlier_end_ms > end ? placement->term.earlier_end_ms : end;
    gt_lease_note_add_quiet(to, end > now ? (request_ms - (end - now)) / 1000 : UINT32_MAX);
}

static void read_quiet(struct gt_placement *placement, const char *note)
{
    uint64_t quiet_s, request_ms = placement->times.request_ms;
    placement->term.note_is_fresh = true;
    placement->term.earlier_known = gt_lease_note_quiet(note, &quiet_s);
    if (placement->term.earlier_known)
        placement->term.earlier_end_ms =
            quiet_s * 1000 < request_ms ? gt_clock_ms() + request_ms - quiet_s * 1000 : 0;
}

void gt_placement_read_note(struct gt_placement *placement, const char *note)
{
    if (placement->round.started)
        return;
    read_quiet(placement, note);
    gt_noted_read(gt_cache_cluster(placement->spec.cache), note);
}
