/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/* ---- tenants ---- */

static struct tenant *join_tenant(struct gt_cache_namespace *namespace_)
{
    struct tenant *tenant = namespace_->user;
    if (!tenant)
        tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    tenant->namespace_ = namespace_;
    tenant->jobs++;
    namespace_->user = tenant;
    return tenant;
}

static void tenant_remove_job(struct tenant *tenant)
{
    if (--tenant->jobs)
        return;
    tenant->namespace_->user = NULL;
    free(tenant);
}

/* ---- jobs ---- */

static void pjob_join(struct pjob *pjob)
{
    struct placement_jobs *jobs = &pjob->placement->jobs;
    pjob->place.reservations.charged = &pjob->tenant->reserved;
    pjob->next = jobs->first;
    pjob->previous = NULL;
    if (pjob->next)
        pjob->next->previous = pjob;
    jobs->first = pjob;
    pjob->job->user = pjob;
}

/* What the last pod took with it; the rest stays while it is parked. */
static void begin_again(struct pjob *pjob, struct gt_cache_job *job, struct tenant *tenant)
{
    bool is_on = pjob->placement->term.is_on;
    pjob->job = job;
    pjob->tenant = tenant;
    pjob->due_ms = UINT64_MAX;
    pjob->wait = (struct pjob_wait){0};
    pjob->lift = (struct pjob_lift){.new_pod_ms = gt_clock_ms(), .began_in_term = is_on, .adopted = is_on};
}

static struct pjob **find_parked(struct gt_placement *placement, const char *key)
{
    struct pjob **at = &placement->jobs.parked;
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    return at;
}

static void resume_parked(struct pjob **at, struct gt_cache_job *job, struct tenant *tenant)
{
    struct pjob *pjob = *at;
    *at = pjob->next;
    free(gt_steal(pjob->key));
    job->number = pjob->place.reservations.owner; /* as in the ledger */
    begin_again(pjob, job, tenant);
    pjob_join(pjob);
}

struct pjob *gt_placement_job_of(struct gt_placement *placement, struct gt_cache_job *job, bool make)
{
    struct pjob **parked = job->user ? NULL : find_parked(placement, job->key);
    if (!parked || (!make && !*parked))
        return job->user;
    struct tenant *tenant = join_tenant(job->pods->namespace_);
    if (!tenant)
        return NULL;
    if (*parked) {
        resume_parked(parked, job, tenant);
        return job->user;
    }
    struct pjob *pjob = calloc(1, sizeof(*pjob));
    if (!pjob) {
        tenant_remove_job(tenant);
        return NULL;
    }
    *pjob = (struct pjob){.placement = placement, .report = {.since_ms = gt_clock_ms(), .reason = ""}};
    begin_again(pjob, job, tenant);
    pjob_join(pjob);
    gt_placement_attach(pjob);
    gt_rebalance_adopt(pjob);
    return pjob;
}

static void unmark(struct pjob *pjob)
{
    struct pjob **at = &pjob->placement->jobs.marked;
    while (*at && *at != pjob)
        at = &(*at)->next_marked;
    if (*at)
        *at = pjob->next_marked;
    pjob->marked = false;
}

/* Ends what it has to do with other jobs and with its pods. */
static void pjob_withdraw(struct pjob *pjob)
{
    struct gt_placement *placement = pjob->placement;
    placement->jobs.waiting -= pjob->state == GT_PLACEMENT_WAITS;
    if (placement->moves.waiting == pjob)
        gt_rebalance_end(placement, NULL);
    while (pjob->lift.writes)
        gt_write_drop(pjob->lift.writes);
    if (pjob->wait.queued)
        gt_queue_remove(placement->queue, pjob);
    if (pjob->marked)
        unmark(pjob);
    gt_placement_forget_lacking(pjob);
    for (enum pjob_list list = 0; list < PJOB_LISTS; list++)
        gt_placement_list(pjob, list, false);
    gt_yield_forget(pjob);
    if (pjob->previous)
        pjob->previous->next = pjob->next;
    else
        placement->jobs.first = pjob->next;
    if (pjob->next)
        pjob->next->previous = pjob->previous;
    gt_evictions_done(pjob);
    gt_reconcile_dequeue(pjob);
    free(gt_steal(pjob->wait.volcano_queue));
    pjob->job->user = NULL;
    tenant_remove_job(gt_steal(pjob->tenant));
    pjob->job = NULL;
}

static void release_places(struct pjob *pjob)
{
    struct gt_placement *placement = pjob->placement;
    if (gt_reservations_gpus(&pjob->place.reservations))
        gt_queue_wake(placement->queue);
    gt_reservations_done(&pjob->place.reservations, gt_cache_cluster(placement->spec.cache));
}

static void pjob_free(struct pjob *pjob)
{
    struct gt_placement *placement = pjob->placement;
    struct placement_object *object = pjob->object;
    if (object)
        object->job = NULL;
    free(pjob->report.text);
    free(pjob->report.next_text);
    free(pjob->report.plan);
    free(pjob->key);
    free(pjob);
    if (placement->round.started && object && object->content && !object->write && !object->is_unknown)
        gt_write_object_delete(placement, object); /* now, since a new pod of this name is another job */
    placement->jobs.has_orphans = true;
    gt_placement_wake(placement);
}

void gt_placement_drop(struct pjob *pjob)
{
    release_places(pjob);
    pjob_withdraw(pjob);
    pjob_free(pjob);
}

/* ---- jobs whose pods have all left for other places ---- */

/* Whether the pod gets no successor, since its owner is suspended, has ended, or is gone. */
static bool is_last(const struct gt_placement *placement, const struct gt_cache_pod *pod)
{
    const char *name;
    enum gt_job_kind kind = gt_owner_of_pod(&pod->meta, &pod->identity, pod->owner_api_version, &name);
    if (kind == GT_JOB_KINDS || !gt_owner_makes(kind, pod->owner_api_version, pod->meta.owner_kind))
        return false;
    const struct gt_owner *owner =
        gt_owners_find(placement->spec.owners, kind, pod->meta.namespace_, name, pod->identity.role);
    return !owner || owner->stopped;
}

static void release_moving(struct pjob *pjob, uint64_t now)
{
    struct gt_placement *placement = pjob->placement;
    struct gt_reservations *reservations = &pjob->place.reservations;
    for (uint32_t i = 0; i < reservations->count; i++)
        if (reservations->reservations[i].moves &&
            !gt_reservation_is_offered(&reservations->reservations[i], now))
            gt_reservations_release(reservations, gt_cache_cluster(placement->spec.cache), i);
    placement->round.more_room = true;
}

/* A pod may take longer to end than places are kept for missing ones. */
static void keep_moving(struct pjob *pjob, uint64_t now)
{
    const struct reconcile reconcile = {.pjob = pjob, .placement = pjob->placement, .now = now};
    struct gt_reservations *reservations = &pjob->place.reservations;
    uint64_t until = gt_node_loss_until(&reconcile);
    for (uint32_t i = 0; i < reservations->count; i++) {
        struct gt_reservation *reservation = &reservations->reservations[i];
        if (reservation->moves && reservation->until < until)
            reservation->until = until;
    }
}

/* A new leader reserves what the object of a job without pods has promised their successors. Which member has
 * which place is known when pods come: until then the places have the plan's order. */
static void adopt_moving(struct pjob *pjob, uint64_t now)
{
    struct gt_placement *placement = pjob->placement;
    struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    struct gt_reservations *reservations = &pjob->place.reservations;
    struct placement_plan plan;
    if (!pjob->object || !pjob->object->content || !*pjob->object->content->moving ||
        !gt_placement_object_plan(&placement->objects, pjob->object, &plan) ||
        gt_reservations_resize(reservations, cluster, gt_placement_plan_pods(&plan), NULL) < 0)
        return;
    for (uint32_t i = 0; i < reservations->count; i++) {
        struct gt_cluster_node node;
        struct gt_promise promise = {0};
        promise.place.node =
            gt_cluster_find_node(cluster, gt_placement_plan_at(&plan, i, &promise.place.mask));
        if (!gt_cluster_get_node(cluster, promise.place.node, &node) || promise.place.mask & ~node.available)
            continue;
        gt_reservations_reserve(reservations, cluster, i, &promise,
                                now + 2 * placement->spec.options.reserve.missing_ms);
        gt_reservations_set_moving(reservations, i);
    }
    gt_reservations_sync(reservations, cluster, now);
    pjob->place.in_plan_order = reservations->moving;
}

static bool all_leave(const struct gt_cache_job *job)
{
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        if (gt_job_view_counts(pod))
            return false;
    return true;
}

static bool keeps_places(struct pjob *pjob, uint64_t now)
{
    struct gt_reservations *reservations = &pjob->place.reservations;
    if (!pjob->lift.adopted && !pjob->place.in_plan_order) {
        reservations->owner = pjob->job->number;
        adopt_moving(pjob, now);
    }
    if (reservations->moving && is_last(pjob->placement, pjob->job->pods))
        release_moving(pjob, now);
    if (!reservations->moving)
        return false;
    gt_placement_list(pjob, PJOBS_LEFT, false);
    keep_moving(pjob, now);
    gt_reservations_sync(reservations, gt_cache_cluster(pjob->placement->spec.cache), now);
    gt_placement_due(pjob, gt_reservations_next_end(reservations));
    return reservations->moving;
}

bool gt_placement_awaits_successor(struct pjob *pjob, uint64_t now)
{
    bool awaits = all_leave(pjob->job) && keeps_places(pjob, now);
    if (!awaits && pjob->place.in_plan_order) { /* its members are known: the places are adopted by them */
        release_places(pjob);
        pjob->place.in_plan_order = pjob->lift.adopted = false;
    }
    return awaits;
}

static void join_parked(struct pjob *pjob)
{
    struct placement_jobs *jobs = &pjob->placement->jobs;
    gt_placement_list(pjob, PJOBS_KEPT, true);
    pjob->next = jobs->parked;
    jobs->parked = pjob;
}

bool gt_placement_park(struct pjob *pjob, const struct gt_cache_pod *last)
{
    struct gt_reservations *reservations = &pjob->place.reservations;
    if (is_last(pjob->placement, last))
        return false;
    for (uint32_t i = 0; i < reservations->count; i++)
        if (!reservations->reservations[i].moves ||
            reservations->reservations[i].state != GT_RESERVATION_HELD)
            gt_reservations_release(reservations, gt_cache_cluster(pjob->placement->spec.cache), i);
    if (!gt_reservations_gpus(reservations) || !(pjob->key = strdup(pjob->job->key)))
        return false;
    pjob_withdraw(pjob);
    reservations->charged = NULL; /* those for successors are not */
    pjob->place.kept_gpus = 0;    /* planned pods: there are none */
    pjob->state = GT_PLACEMENT_NONE;
    join_parked(pjob);
    return true;
}

static void adopt_parked(struct gt_placement *placement, struct placement_object *object)
{
    struct pjob *pjob = calloc(1, sizeof(*pjob));
    char *key = strdup(object->content->job);
    if (pjob) {
        *pjob = (struct pjob){.placement = placement, .key = key, .object = object, .report = {.reason = ""}};
        pjob->place.reservations.owner = gt_cache_new_job_number(placement->spec.cache);
        adopt_moving(pjob, gt_clock_ms());
    }
    if (pjob && key && gt_reservations_gpus(&pjob->place.reservations)) {
        object->job = pjob;
        join_parked(pjob);
        return;
    }
    if (pjob) /* its places are taken, or without memory they are lost */
        gt_reservations_done(&pjob->place.reservations, gt_cache_cluster(placement->spec.cache));
    free(pjob);
    free(key);
}

void gt_placement_adopt_parked(struct gt_placement *placement)
{
    size_t slot = 0;
    for (struct placement_object *object; (object = gt_placement_objects_next(&placement->objects, &slot));)
        if (object->content && *object->content->moving && !object->job &&
            !gt_cache_find_job(placement->spec.cache, object->content->job))
            adopt_parked(placement, object);
}

static void end_parked(struct pjob **at)
{
    struct pjob *pjob = *at;
    *at = pjob->next;
    gt_placement_list(pjob, PJOBS_KEPT, false);
    release_places(pjob);
    pjob_free(pjob);
}

void gt_placement_end_parked(struct gt_placement *placement, const char *key)
{
    struct pjob **at = find_parked(placement, key);
    if (*at)
        end_parked(at);
}

void gt_placement_sync_parked(struct gt_placement *placement)
{
    for (struct pjob **at = &placement->jobs.parked, *pjob; (pjob = *at);) {
        gt_reservations_sync(&pjob->place.reservations, gt_cache_cluster(placement->spec.cache),
                             gt_clock_ms());
        if (gt_reservations_gpus(&pjob->place.reservations))
            at = &pjob->next;
        else
            end_parked(at);
    }
}
