/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/placement/objects.h"
#include "scheduler-ext/placement/state.h"

/* Pods that are created after their job was planned: a place is reserved for each, so it gets its plan on
 * creation, without gate and further requests. */

/* The place that is reserved for a pod, of which only the identity is known. */
struct reserved_place {
    struct gt_job *job; /* made from this pod and its owner only; owned */
    struct pjob *pjob;
    uint32_t at;
};

static void free_place(struct reserved_place *place)
{
    if (place->job)
        gt_job_free(place->job);
}
#define auto_place __attribute__((cleanup(free_place)))

static bool admit_find_place(struct gt_placement *placement, const struct gt_pod_meta *meta,
                             const struct gt_pod_identity *identity, const char *api_version,
                             struct reserved_place *ret)
{
    gt_auto_buf struct gt_buf key = GT_BUF(2048);
    const char *name;
    enum gt_job_kind kind = gt_owner_of_pod(meta, identity, api_version, &name);
    const struct gt_owner *owner =
        kind < GT_JOB_KINDS
            ? gt_owners_find(placement->spec.owners, kind, meta->namespace_, name, identity->role)
            : NULL;
    gt_job_key(meta, identity, &key);
    const struct gt_cache_job *job = key.data ? gt_cache_find_job(placement->spec.cache, key.data) : NULL;
    ret->pjob = job ? job->user : NULL;
    if (!owner || !ret->pjob || !identity->has_index ||
        gt_job_make(meta, 1, &owner->spec, &ret->job, NULL) < 0 ||
        ret->job->member_count != ret->pjob->place.reservations.count)
        return false;
    while (ret->at < ret->job->member_count && ret->job->members[ret->at].pod == GT_NONE)
        ret->at++;
    return ret->at < ret->job->member_count &&
           ret->pjob->place.reservations.reservations[ret->at].state == GT_RESERVATION_HELD;
}

static bool admit_is_alike(const struct gt_cache_pod *pod, const struct gt_pod_meta *meta,
                           const struct gt_pod_identity *identity)
{
    return (pod->plan == GT_CACHE_PLAN_ASSUMED || pod->plan == GT_CACHE_PLAN_RUNNING) && !pod->other_gates &&
           strcmp(pod->identity.role, identity->role) == 0 && pod->meta.containers == meta->containers &&
           pod->meta.requests == meta->requests &&
           memcmp(pod->meta.gpus, meta->gpus, sizeof(*meta->gpus) * meta->containers) == 0;
}

/* Finds a planned pod of the same template: the new pod may run where that pod may run. */
static const struct gt_cache_pod *model_of(const struct pjob *pjob, const struct gt_pod_meta *meta,
                                           const struct gt_pod_identity *identity)
{
    const struct gt_cache_pod *pod = pjob->job->pods;
    while (pod && !admit_is_alike(pod, meta, identity))
        pod = pod->next;
    return pod;
}

static bool admit_is_settled(struct gt_placement *placement, const struct pjob *pjob)
{
    uint64_t refused_ms;
    gt_backoff_refusals(&placement->backoffs, pjob->job->key, gt_clock_ms(), &refused_ms);
    /* While pods have to leave, their successors get the gate. So do all after a kubelet has refused one. */
    return !refused_ms && !pjob->move.moving && !pjob->tenant->yielded &&
           (pjob->state == GT_PLACEMENT_WRITES || pjob->state == GT_PLACEMENT_PLACED) && !pjob->wait.queued &&
           gt_backoff_job_until(&placement->backoffs, pjob->job->key) <= gt_clock_ms();
}

/* The tier of the lowest supernode that holds the places of a unit, as far as they are known; 0: there is
 * none.
 */
static unsigned tier_of(const struct gt_reservations *reservations, const struct gt_cluster *cluster,
                        const struct gt_plan_unit *unit)
{
    struct gt_cluster_supernode supernode;
    uint32_t common = GT_NONE;
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
        uint32_t node = gt_reservations_node(reservations, cluster, i);
        if (node != GT_NONE && !gt_cluster_widen(cluster, node, &common))
            return 0;
    }
    return gt_cluster_get_supernode(cluster, common, &supernode) ? supernode.tier : 0;
}

static int admit_make_texts(const struct gt_placement *placement, const struct reserved_place *reserved_nodes,
                            const struct gt_cache_pod *model, uint32_t node, struct gt_plan_texts *ret)
{
    const struct gt_reservations *reservations = &reserved_nodes->pjob->place.reservations;
    const struct gt_job_units *units = &reserved_nodes->job->units;
    uint32_t unit = 0;
    while (unit < units->count && reserved_nodes->at >= units->units[unit].first + units->units[unit].pods)
        unit++;
    if (unit == units->count)
        return -ENOENT;
    const struct gt_planned_place place = {
        .place = {node, reservations->reservations[reserved_nodes->at].promise.place.mask},
        .unit = unit,
        .unit_rank = reserved_nodes->at - units->units[unit].first,
        .rank = reserved_nodes->job->members[reserved_nodes->at].rank,
        .tier = tier_of(reservations, gt_cache_cluster(placement->spec.cache), &units->units[unit])};
    return gt_plan_texts_make(placement->spec.cache, model, &place, ret, NULL);
}

bool gt_placement_offer(struct gt_placement *placement, const struct gt_pod_meta *meta,
                        const struct gt_pod_identity *identity, const char *api_version,
                        struct gt_placement_offer *ret)
{
    auto_place struct reserved_place place = {0};
    struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    struct gt_cluster_node info;
    if (!gt_placement_may_send(placement) ||
        !admit_find_place(placement, meta, identity, api_version, &place) ||
        !admit_is_settled(placement, place.pjob))
        return false;
    struct gt_reservation *reservation = &place.pjob->place.reservations.reservations[place.at];
    const struct gt_cache_pod *model = model_of(place.pjob, meta, identity);
    uint32_t node = gt_reservations_node(&place.pjob->place.reservations, cluster, place.at);
    if (!model || !gt_cluster_get_node(cluster, node, &info) || !info.eligible ||
        !gt_cache_successor_fits_node(placement->spec.cache, model, node) ||
        reservation->promise.place.mask & ~info.healthy ||
        !gt_cache_reserve_is_sound(placement->spec.cache, reservation->resources) ||
        !gt_placement_is_acknowledged(cluster, &placement->objects, place.pjob->object,
                                      place.job->members[place.at].rank, node,
                                      reservation->promise.place.mask) ||
        admit_make_texts(placement, &place, model, node, &ret->texts) < 0)
        return false;
    ret->reservation = reservation;
    ret->offered_ms = &placement->term.offered_ms;
    ret->taken = gt_reservation_is_offered(reservation, gt_clock_ms());
    return true;
}

void gt_placement_reserve_offer(struct gt_placement_offer *offer)
{
    offer->reservation->offered = true;
    offer->reservation->offered_ms = *offer->offered_ms = gt_clock_ms();
}

/* Called before the cache gets the pod: ends the reservation, since the place is now the pod's own. */
void gt_placement_admitted(struct gt_placement *placement, const struct gt_pod *pod)
{
    auto_place struct reserved_place place = {0};
    struct gt_pod_identity identity;
    struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    if (!placement->round.started || pod->invalid || gt_pod_identify(&pod->meta, &identity, NULL) < 0 ||
        !admit_find_place(placement, &pod->meta, &identity, pod->owner_api_version, &place))
        return;
    struct gt_reservations *reservations = &place.pjob->place.reservations;
    if ((pod->node_name && strcmp(pod->node_name, pod->plan_node) != 0) ||
        gt_digest_keyed(pod->plan_node) != reservations->reservations[place.at].node_digest)
        return;
    gt_reservations_release(reservations, cluster, place.at);
    placement->counters.pods.admitted++;
    placement->counters.pods.planned++;
}
