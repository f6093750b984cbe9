/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/reservations.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/digest.h"
#include "base/err.h"

uint64_t gt_reservations_node_digest(const struct gt_cluster *cluster, uint32_t node)
{
    struct gt_cluster_node info;
    return gt_cluster_get_node(cluster, node, &info) ? gt_digest_keyed(info.name) : 0;
}

uint32_t gt_reservations_node(const struct gt_reservations *reservations, const struct gt_cluster *cluster,
                              uint32_t at)
{
    const struct gt_reservation *reservation = &reservations->reservations[at];
    return reservation->node_digest &&
                   gt_reservations_node_digest(cluster, reservation->promise.place.node) ==
                       reservation->node_digest
               ? reservation->promise.place.node
               : GT_NONE;
}

static bool is_reserved(const struct gt_reservation *reservation)
{
    return reservation->state == GT_RESERVATION_HELD;
}

/* Counts its GPUs as reserved, or as no longer reserved. */
static void set_reserved(struct gt_reservations *reservations, uint32_t at, bool reserved)
{
    struct gt_reservation *reservation = &reservations->reservations[at];
    uint32_t gpus = gt_bit_count(reservation->promise.place.mask);
    if (reserved == is_reserved(reservation))
        return;
    reservation->state = reserved ? GT_RESERVATION_HELD : GT_RESERVATION_NONE;
    reservations->gpus += reserved ? gpus : -gpus;
    if (reservation->moves)
        reservations->moving += reserved ? gpus : -gpus;
    else if (reservations->charged)
        *reservations->charged += reserved ? gpus : -(uint64_t)gpus;
    if (reserved && reservations->cache)
        reservation->resources =
            gt_cache_reserve(reservations->cache, reservations->job, reservation->promise.place.node, gpus);
    else if (!reserved)
        gt_cache_unreserve(reservations->cache, gt_steal(reservation->resources));
}

int gt_reservations_resize(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t count,
                           struct gt_err **err)
{
    if (reservations->count == count)
        return 0;
    struct gt_reservation *fresh = calloc((size_t)count + 1, sizeof(*fresh));
    GT_NEED(fresh, err, "places");
    for (uint32_t i = 0; i < reservations->count; i++) {
        reservations->offered_ms = gt_reservations_offered_ms(reservations, i);
        if (i < count && reservations->reservations[i].moves)
            fresh[i] = reservations->reservations[i];
        else
            gt_reservations_release(reservations, cluster, i);
    }
    free(reservations->reservations);
    reservations->reservations = fresh;
    reservations->count = count;
    return 0;
}

/* Whether its GPUs are still the same as when it was reserved. */
static bool reservations_is_sound(const struct gt_reservations *reservations,
                                  const struct gt_cluster *cluster, uint32_t at)
{
    struct gt_cluster_node node;
    return gt_cluster_get_node(cluster, reservations->reservations[at].promise.place.node, &node) &&
           node.eligible &&
           !(reservations->reservations[at].promise.place.mask & ~(node.free & node.healthy));
}

static void reservations_keep(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t at)
{
    struct gt_reservation *reservation = &reservations->reservations[at];
    bool ended = !gt_cluster_find_promise(cluster, reservation->entry);
    if (ended && gt_cluster_promise(cluster, &reservation->promise, &reservation->entry, NULL) == 0)
        set_reserved(reservations, at, true);
    else if (is_reserved(reservation) && (ended || !reservations_is_sound(reservations, cluster, at)))
        gt_reservations_release(reservations, cluster,
                                at); /* another pod took GPUs of it, or one is unhealthy */
}

bool gt_reservations_sync(struct gt_reservations *reservations, struct gt_cluster *cluster, uint64_t now)
{
    bool room = false;
    for (uint32_t i = 0; i < reservations->count; i++) {
        const struct gt_reservation *reservation = &reservations->reservations[i];
        if (!is_reserved(reservation) && reservation->state != GT_RESERVATION_WANTED)
            continue;
        if (reservation->until <= now || gt_reservations_node(reservations, cluster, i) == GT_NONE)
            room = gt_reservations_release(reservations, cluster, i) || room;
        else
            reservations_keep(reservations, cluster, i);
    }
    return room;
}

void gt_reservations_reserve(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t at,
                             const struct gt_promise *promise, uint64_t until)
{
    gt_reservations_release(reservations, cluster, at);
    reservations->reservations[at] = (struct gt_reservation){
        .promise = {GT_PROMISE_RESERVED, promise->place, reservations->owner, promise->requests},
        .node_digest = gt_reservations_node_digest(cluster, promise->place.node),
        .until = until,
        .offered_ms = reservations->reservations[at].offered_ms};
    set_reserved(reservations, at, true);
}

uint64_t gt_reservations_offered_ms(const struct gt_reservations *reservations, uint32_t at)
{
    uint64_t own = reservations->reservations[at].offered_ms;
    return own > reservations->offered_ms ? own : reservations->offered_ms;
}

bool gt_reservations_release(struct gt_reservations *reservations, struct gt_cluster *cluster, uint32_t at)
{
    GT_ASSERT(at < reservations->count);
    bool reserved = is_reserved(&reservations->reservations[at]);
    gt_cluster_end_promise(cluster, reservations->reservations[at].entry);
    set_reserved(reservations, at, false);
    reservations->reservations[at].state = GT_RESERVATION_NONE;
    reservations->reservations[at].moves = false;
    return reserved;
}

void gt_reservations_set_moving(struct gt_reservations *reservations, uint32_t at)
{
    bool reserved = is_reserved(&reservations->reservations[at]);
    set_reserved(reservations, at, false);
    reservations->reservations[at].moves = true;
    set_reserved(reservations, at, reserved);
}

void gt_reservations_extend(struct gt_reservations *reservations, uint64_t until)
{
    for (uint32_t i = 0; i < reservations->count; i++) {
        struct gt_reservation *reservation = &reservations->reservations[i];
        if (is_reserved(reservation) && !reservation->returns && reservation->until < until)
            reservation->until = until;
    }
}

uint32_t gt_reservations_gpus(const struct gt_reservations *reservations)
{
    return reservations->gpus;
}

uint32_t gt_reservations_charged(const struct gt_reservations *reservations)
{
    return reservations->gpus - reservations->moving;
}

bool gt_reservations_wanted(const struct gt_reservations *reservations)
{
    for (uint32_t i = 0; i < reservations->count; i++)
        if (reservations->reservations[i].state == GT_RESERVATION_WANTED)
            return true;
    return false;
}

static uint64_t first_end(const struct gt_reservations *reservations, bool of_returning)
{
    uint64_t end = UINT64_MAX;
    for (uint32_t i = 0; i < reservations->count; i++) {
        const struct gt_reservation *reservation = &reservations->reservations[i];
        bool ends = is_reserved(reservation) || reservation->state == GT_RESERVATION_WANTED;
        if (ends && (of_returning || !reservation->returns) && reservation->until < end)
            end = reservation->until;
    }
    return end;
}

uint64_t gt_reservations_next_end(const struct gt_reservations *reservations)
{
    return first_end(reservations, true);
}

uint64_t gt_reservations_reserved_end(const struct gt_reservations *reservations)
{
    uint64_t end = first_end(reservations, false);
    return end == UINT64_MAX ? first_end(reservations, true) : end;
}

void gt_reservations_done(struct gt_reservations *reservations, struct gt_cluster *cluster)
{
    for (uint32_t i = 0; i < reservations->count; i++)
        gt_reservations_release(reservations, cluster, i);
    free(reservations->reservations);
    *reservations = (struct gt_reservations){.owner = reservations->owner,
                                             .charged = reservations->charged,
                                             .cache = reservations->cache,
                                             .job = reservations->job};
}
