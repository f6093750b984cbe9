/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * Places that are reserved for pods that never existed are given to a complete job of another namespace that
 * could start there, once their own namespace has been silent for too long. Silence is counted for the
 * namespace, since a tenant could make a new job each time: it grows while any of its jobs has such places,
 * shrinks with each pod that comes for one, and while there are none.
 */

enum { POD_MS = 250 }; /* owners that make four pods a second are never silent */

static uint64_t silence_max_ms(const struct pjob *pjob)
{
    const struct gt_placement_options *options = &pjob->placement->spec.options;
    return pjob->move.is_sequential && options->reserve.missing_ms > options->reserve.yield_ms
               ? options->reserve.missing_ms
               : options->reserve.yield_ms;
}

static void count_silence(const struct pjob *pjob, uint64_t now)
{
    struct tenant *tenant = pjob->tenant;
    uint64_t passed = now - tenant->counted_ms, max = silence_max_ms(pjob);
    tenant->counted_ms = now;
    if (!tenant->reserving)
        tenant->silent_ms -= passed < tenant->silent_ms ? passed : tenant->silent_ms;
    else if (tenant->silent_ms < max)
        tenant->silent_ms = passed < max - tenant->silent_ms ? tenant->silent_ms + passed : max;
    tenant->yielded = tenant->yielded && tenant->silent_ms;
}

/* Whether a place is reserved for a pod that never existed. */
static bool is_for_new_pod(const struct gt_reservation *reservation)
{
    return reservation->state == GT_RESERVATION_HELD && !reservation->moves && !reservation->returns;
}

static void set_reserving(struct pjob *pjob, bool reserving)
{
    pjob->tenant->reserving += reserving - pjob->place.is_reserving;
    pjob->placement->jobs.reserving += reserving - pjob->place.is_reserving;
    pjob->place.is_reserving = reserving;
}

void gt_yield_count(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_reservations *reservations = &pjob->place.reservations;
    uint32_t pods = pjob->job->pod_count,
             more = pods > pjob->lift.most_pods ? pods - pjob->lift.most_pods : 0;
    bool reserving = false;
    pjob->move.is_sequential = reconcile->owner && reconcile->owner->sequential;
    count_silence(pjob, reconcile->now);
    for (uint32_t i = 0; i < reservations->count && !reserving; i++)
        reserving = is_for_new_pod(&reservations->reservations[i]);
    if (pjob->place.is_reserving) {
        uint64_t earned = (uint64_t)more * POD_MS;
        pjob->tenant->silent_ms -= earned < pjob->tenant->silent_ms ? earned : pjob->tenant->silent_ms;
    }
    pjob->lift.most_pods += more;
    pjob->move.yielded = pjob->move.yielded && !reserving;
    set_reserving(pjob, reserving);
}

void gt_yield_forget(struct pjob *pjob)
{
    count_silence(pjob, gt_clock_ms());
    set_reserving(pjob, false);
}

/* ---- for a job that does not fit ---- */

/* When a place may be given to others. */
static uint64_t yields_at(const struct pjob *pjob, uint32_t at, uint64_t now)
{
    const struct tenant *tenant = pjob->tenant;
    uint64_t max = silence_max_ms(pjob),
             silent = tenant->yielded || tenant->silent_ms >= max ? now : now + max - tenant->silent_ms,
             offered = gt_placement_offer_end(pjob->placement,
                                              gt_reservations_offered_ms(&pjob->place.reservations, at));
    return offered > silent ? offered : silent;
}

/* A place that may be given up now. */
struct yielding {
    struct pjob *pjob;
    uint32_t at;
    struct gt_reservation was;
};

/* Where some may be given up later, the job is tried again then. `to` may be NULL: they are only counted. */
static uint32_t list_yielding(const struct reconcile *reconcile, struct yielding *to)
{
    struct gt_placement *placement = reconcile->placement;
    uint32_t count = 0;
    for (struct pjob *pjob = placement->jobs.lists[PJOBS_KEPT].first; pjob;
         pjob = pjob->links[PJOBS_KEPT].next) {
        if (pjob->tenant == reconcile->pjob->tenant || !pjob->place.is_reserving)
            continue;
        count_silence(pjob, reconcile->now);
        for (uint32_t i = 0; i < pjob->place.reservations.count; i++) {
            const struct gt_reservation *reservation = &pjob->place.reservations.reservations[i];
            if (!is_for_new_pod(reservation))
                continue;
            uint64_t when = yields_at(pjob, i, reconcile->now);
            if (when > reconcile->now)
                placement->round.yield_ms =
                    when < placement->round.yield_ms ? when : placement->round.yield_ms;
            else if (to)
                to[count++] = (struct yielding){pjob, i, *reservation};
            else
                count++;
        }
    }
    return count;
}

static bool yield_is_used(const struct yielding *place, const struct gt_plan_pod *pods, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (pods[i].place.node == place->was.promise.place.node &&
            pods[i].place.mask & place->was.promise.place.mask)
            return true;
    return false;
}

/* Whether the job could start if all these places were free. They are free for this question only. */
static bool fits_there(struct reconcile *reconcile, const struct yielding *list, uint32_t count,
                       struct gt_plan_pod **ret_places)
{
    const struct gt_placement *placement = reconcile->placement;
    struct gt_cache *cache = placement->spec.cache;
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    bool is_holder = !placement->nodes.holder || placement->nodes.holder == reconcile->pjob;
    for (uint32_t i = 0; i < count; i++)
        gt_reservations_release(&list[i].pjob->place.reservations, cluster, list[i].at);
    bool fits = gt_decide_fits(reconcile->view, is_holder ? NULL : &placement->nodes.reserved, ret_places);
    for (uint32_t i = 0; i < count; i++) {
        struct gt_reservations *reservations = &list[i].pjob->place.reservations;
        gt_reservations_reserve(reservations, cluster, list[i].at, &list[i].was.promise, list[i].was.until);
        reservations->reservations[list[i].at].offered = list[i].was.offered;
        if (i + 1 == count || list[i + 1].pjob != list[i].pjob)
            gt_reservations_sync(reservations, cluster, 0);
    }
    return fits;
}

void gt_yield_ask(struct reconcile *reconcile)
{
    struct gt_placement *placement = reconcile->placement;
    gt_auto_free struct yielding *list = NULL;
    gt_auto_free struct gt_plan_pod *places = NULL;
    if (!placement->jobs.reserving || !gt_job_view_is_complete(reconcile->view))
        return;
    uint32_t count = list_yielding(reconcile, NULL);
    list = count ? calloc(count, sizeof(*list)) : NULL;
    if (!list)
        return;
    list_yielding(reconcile, list);
    if (!fits_there(reconcile, list, count, &places))
        return;
    for (uint32_t i = 0; i < count; i++)
        if (yield_is_used(&list[i], places, reconcile->view->count)) {
            list[i].pjob->move.yields_ms = reconcile->now + 2 * placement->times.retry_ms; /* it asks again */
            gt_placement_mark(list[i].pjob);
        }
}

/* ---- for the job that has the places ---- */

static void give_up_places(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_cache *cache = reconcile->placement->spec.cache;
    struct gt_reservations *reservations = &pjob->place.reservations;
    if (!gt_job_view_has_begun(reconcile->view)) {
        gt_decide_give_back(reconcile->view);
        return;
    }
    for (uint32_t i = 0; i < reservations->count; i++)
        if (is_for_new_pod(&reservations->reservations[i]) &&
            yields_at(pjob, i, reconcile->now) <= reconcile->now)
            gt_reservations_release(reservations, gt_cache_cluster(cache), i);
}

bool gt_yield_give_up(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    uint32_t gpus = gt_reservations_gpus(&pjob->place.reservations);
    char text[256];
    if (pjob->move.yields_ms <= reconcile->now || !pjob->place.is_reserving ||
        !(gt_job_view_has_begun(reconcile->view) || gt_placement_may_give_up(reconcile)))
        return false;
    give_up_places(reconcile);
    pjob->move.yields_ms = 0;
    gpus -= gt_reservations_gpus(&pjob->place.reservations);
    if (!gpus)
        return false;
    pjob->move.yielded = pjob->tenant->yielded = true;
    snprintf(
        text, sizeof(text),
        "%u GPUs are no longer reserved for its pods to come: none has come for %llu seconds, and a job of "
        "another namespace can start there",
        gpus, (unsigned long long)(silence_max_ms(pjob) / 1000));
    gt_placement_event(pjob, pjob->job->pods, true, "ReservationYielded", "Place", text);
    reconcile->placement->round.more_room = true;
    gt_placement_mark(pjob);
    return true;
}
