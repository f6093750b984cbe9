/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/seats.h"

#include <errno.h>
#include <stdlib.h>

#include "kube/index.h"

uint64_t gt_seats_node_digest(const struct gt_cluster *cluster, uint32_t node)
{
    struct gt_cluster_node info;
    return gt_cluster_get_node(cluster, node, &info) ? gt_index_digest(info.name) : 0;
}

uint32_t gt_seats_node(const struct gt_seats *seats, const struct gt_cluster *cluster, uint32_t at)
{
    const struct gt_seat *seat = &seats->seats[at];
    return seat->node_digest && gt_seats_node_digest(cluster, seat->node) == seat->node_digest ? seat->node
                                                                                               : GT_NONE;
}

static bool is_kept(const struct gt_seat *seat)
{
    return seat->state == GT_SEAT_RESERVED;
}

/* The assumption that keeps it. Ids are used again, and assumptions die with their node: none is remembered.
 */
static uint32_t assumption_of(const struct gt_seats *seats, const struct gt_cluster *cluster, uint32_t at)
{
    uint32_t node = gt_seats_node(seats, cluster, at);
    return node == GT_NONE ? GT_NONE
                           : gt_cluster_find_assumption(cluster, node, seats->seats[at].mask, seats->owner);
}

int gt_seats_resize(struct gt_seats *seats, struct gt_cluster *cluster, uint32_t count, struct gt_err **err)
{
    if (seats->count == count)
        return 0;
    struct gt_seat *fresh = calloc((size_t)count + 1, sizeof(*fresh));
    if (!fresh)
        return gt_fail_sys(err, ENOMEM, "places");
    gt_seats_done(seats, cluster);
    seats->seats = fresh;
    seats->count = count;
    return 0;
}

/* Whether its GPUs are still what they were when it was kept. */
static bool is_sound(const struct gt_seats *seats, const struct gt_cluster *cluster, uint32_t at)
{
    struct gt_cluster_node node;
    return gt_cluster_get_node(cluster, seats->seats[at].node, &node) && node.eligible &&
           !(seats->seats[at].mask & ~(node.free & node.healthy));
}

static void keep(struct gt_seats *seats, struct gt_cluster *cluster, uint32_t at)
{
    struct gt_seat *seat = &seats->seats[at];
    uint32_t id = assumption_of(seats, cluster, at);
    if (id == GT_NONE &&
        gt_cluster_assume(cluster, seat->node, seat->mask, seats->owner, UINT64_MAX, &id, NULL) == 0)
        seat->state = GT_SEAT_RESERVED;
    else if (is_kept(seat) && (id == GT_NONE || !is_sound(seats, cluster, at)))
        gt_seats_release(seats, cluster, at); /* somebody took it, or a GPU of it is ill */
}

bool gt_seats_sync(struct gt_seats *seats, struct gt_cluster *cluster, uint64_t now)
{
    bool room = false;
    for (uint32_t i = 0; i < seats->count; i++) {
        const struct gt_seat *seat = &seats->seats[i];
        if (!is_kept(seat) && seat->state != GT_SEAT_WISHED)
            continue;
        if (seat->until <= now || gt_seats_node(seats, cluster, i) == GT_NONE)
            room = gt_seats_release(seats, cluster, i) || room;
        else
            keep(seats, cluster, i);
    }
    return room;
}

void gt_seats_reserve(struct gt_seats *seats, const struct gt_cluster *cluster, uint32_t at, uint32_t node,
                      uint64_t mask, uint64_t until)
{
    seats->seats[at] = (struct gt_seat){.state = GT_SEAT_RESERVED,
                                        .node = node,
                                        .node_digest = gt_seats_node_digest(cluster, node),
                                        .mask = mask,
                                        .until = until};
}

bool gt_seats_release(struct gt_seats *seats, struct gt_cluster *cluster, uint32_t at)
{
    bool kept = is_kept(&seats->seats[at]);
    if (kept)
        gt_cluster_forget(cluster, assumption_of(seats, cluster, at));
    seats->seats[at].state = GT_SEAT_EMPTY;
    return kept;
}

void gt_seats_set_end(struct gt_seats *seats, uint64_t until)
{
    for (uint32_t i = 0; i < seats->count; i++)
        if (is_kept(&seats->seats[i]))
            seats->seats[i].until = until;
}

uint32_t gt_seats_gpus(const struct gt_seats *seats)
{
    uint32_t gpus = 0;
    for (uint32_t i = 0; i < seats->count; i++)
        if (is_kept(&seats->seats[i]))
            gpus += (uint32_t)__builtin_popcountll(seats->seats[i].mask);
    return gpus;
}

bool gt_seats_wish(const struct gt_seats *seats)
{
    for (uint32_t i = 0; i < seats->count; i++)
        if (seats->seats[i].state == GT_SEAT_WISHED)
            return true;
    return false;
}

uint64_t gt_seats_next_end(const struct gt_seats *seats)
{
    uint64_t end = UINT64_MAX;
    for (uint32_t i = 0; i < seats->count; i++) {
        const struct gt_seat *seat = &seats->seats[i];
        if ((seat->state == GT_SEAT_RESERVED || seat->state == GT_SEAT_WISHED) && seat->until < end)
            end = seat->until;
    }
    return end;
}

void gt_seats_done(struct gt_seats *seats, struct gt_cluster *cluster)
{
    for (uint32_t i = 0; i < seats->count; i++)
        gt_seats_release(seats, cluster, i);
    free(seats->seats);
    *seats = (struct gt_seats){.owner = seats->owner};
}
